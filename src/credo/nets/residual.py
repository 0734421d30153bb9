"""Residual networks: ResNet-20 and Wide ResNet for small images, ResNet-18 for small and large ones."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from credo.core.checks import check_rate, whole_number
from credo.nets.convolutional import with_channels
from credo.nets.norms import normed


class PlainConvolution(nn.Conv2d):
    """A convolution without a bias, for a norm follows it, whose fresh weights have the variance 2 / fan-in.

    Args:
        inputs: channels that come in.
        outputs: filters.
        kernel: height and width of a filter.
        stride: every so many-th position is computed.

    Reference: K. He, X. Zhang, S. Ren, J. Sun, "Delving deep into rectifiers", 2015, https://arxiv.org/abs/1502.01852
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)

    def reset_parameters(self) -> None:
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")


class ShortcutBlock(nn.Module):
    """Two convolutions around which the input goes by, its channels filled up with zeros where there are more after it.

    y = relu(F(x) + x),   F a convolution, a norm with ReLU, a convolution and a norm
    """

    def __init__(self, inputs: int, outputs: int, stride: int, norm: str, *, projects: bool) -> None:
        super().__init__()
        self.stride, self.more = stride, outputs - inputs
        self.first = nn.Sequential(PlainConvolution(inputs, outputs, 3, stride), normed(norm, outputs))
        self.second = nn.Sequential(PlainConvolution(outputs, outputs, 3), _linear(normed(norm, outputs)))
        self.shortcut: nn.Module | None = None
        if projects and (stride > 1 or self.more):
            self.shortcut = nn.Sequential(PlainConvolution(inputs, outputs, 1, stride), _linear(normed(norm, outputs)))

    def forward(self, x: Tensor) -> Tensor:
        past = self._past(x) if self.shortcut is None else self.shortcut(x)
        return F.relu(self.second(self.first(x)) + past)

    def _past(self, x: Tensor) -> Tensor:
        """The input at the positions that are left, with as many channels as come out."""
        past = x[:, :, :: self.stride, :: self.stride] if self.stride > 1 else x
        return F.pad(past, (0, 0, 0, 0, self.more // 2, self.more - self.more // 2)) if self.more else past


def _linear(norm: nn.Module) -> nn.Module:
    """A norm without the ReLU after it; filter response norm keeps its learned threshold."""
    return norm[0] if isinstance(norm, nn.Sequential) else norm


class ResNet20(nn.Module):
    """ResNet-20 for small images: 269,722 weights for colors, ten classes and group norm (the paper's 0.27 million).

    A convolution, three stages of three blocks with 16, 32 and 64 filters, the mean over positions, a linear layer. It
    takes images (B, channels, H, W), or (B, H, W) where there is one channel, of any size from 4 x 4.

    Args:
        channels: 3 for colors, 1 for gray.
        outputs: K for K classes.
        norm: "filter response" or "group", which leave examples independent of each other, or "batch" as in the paper.
        filters: of the first stage.

    Examples:
        >>> import torch
        >>> ResNet20(3, 10)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])

    Reference: K. He, X. Zhang, S. Ren, J. Sun, "Deep residual learning for image recognition", 2016,
        https://arxiv.org/abs/1512.03385
    """

    def __init__(self, channels: int = 3, outputs: int = 10, norm: str = "filter response", filters: int = 16) -> None:
        super().__init__()
        channels, outputs = whole_number("channels", channels), whole_number("outputs", outputs)
        filters = whole_number("filters", filters)
        self.config: dict[str, Any] = {"channels": channels, "outputs": outputs, "norm": norm, "filters": filters}
        blocks, before = list[nn.Module](), filters
        for count in (filters, 2 * filters, 4 * filters):
            for _ in range(3):
                stride = 2 if count > before else 1
                blocks.append(ShortcutBlock(before, count, stride, norm, projects=False))
                before = count
        self.layers = nn.Sequential(
            *(PlainConvolution(channels, filters, 3), normed(norm, filters), *blocks),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, outputs)),
        )

    def forward(self, x: Tensor) -> Tensor:  # (B, C, H, W) -> (B, outputs)
        result: Tensor = self.layers(with_channels(x))
        return result


class ResNet18(nn.Module):
    """ResNet-18: 11,173,962 weights for small images in colors and ten classes.

    With `large`, it begins as in the paper, with filters of 7 x 7 and a maximum, which make large images eight times as
    small before the first block halves them; it has 11,689,512 weights for a thousand classes.

    Args:
        channels: 3 for colors, 1 for gray.
        outputs: K for K classes.
        norm: "batch" as in the paper, or "group" or "filter response", which leave examples independent of each other.
        large: for images of some 100 x 100 and more.

    Examples:
        >>> import torch
        >>> ResNet18(3, 1000, large=True)(torch.zeros(1, 3, 64, 64)).shape
        torch.Size([1, 1000])

    Reference: K. He, X. Zhang, S. Ren, J. Sun, "Deep residual learning for image recognition", 2016,
        https://arxiv.org/abs/1512.03385
    """

    def __init__(self, channels: int = 3, outputs: int = 10, norm: str = "batch", large: bool = False) -> None:
        super().__init__()
        channels, outputs = whole_number("channels", channels), whole_number("outputs", outputs)
        self.config: dict[str, Any] = {"channels": channels, "outputs": outputs, "norm": norm, "large": large}
        blocks, before = list[nn.Module](), 64
        for count in (64, 128, 256, 512):
            for _ in range(2):
                stride = 2 if count > before else 1
                blocks.append(ShortcutBlock(before, count, stride, norm, projects=True))
                before = count
        first: list[nn.Module] = [PlainConvolution(channels, 64, 7 if large else 3, 2 if large else 1)]
        first += [normed(norm, 64), *([nn.MaxPool2d(3, 2, padding=1)] if large else [])]
        self.layers = nn.Sequential(
            *(*first, *blocks), *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, outputs))
        )

    def forward(self, x: Tensor) -> Tensor:  # (B, C, H, W) -> (B, outputs)
        result: Tensor = self.layers(with_channels(x))
        return result


class WideBlock(nn.Module):
    """Norm, convolution, norm, dropout, convolution, around which the input goes by."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: str, dropout: float) -> None:
        super().__init__()
        self.before = normed(norm, inputs)
        drop = [nn.Dropout(dropout)] if dropout else []
        self.convolutions = nn.Sequential(
            *(PlainConvolution(inputs, outputs, 3, stride), normed(norm, outputs), *drop),
            PlainConvolution(outputs, outputs, 3),
        )
        self.shortcut = PlainConvolution(inputs, outputs, 1, stride) if stride > 1 or inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        ready = self.before(x)
        # where the number of channels changes, the shortcut begins after the norm
        past: Tensor = x if self.shortcut is None else self.shortcut(ready)
        return self.convolutions(ready) + past


class WideResNet(nn.Module):
    """Wide ResNet: 36,479,194 weights at depth 28 and width 10 for colors and ten classes, 2,748,890 at 16 and 4.

    Args:
        channels: 3 for colors, 1 for gray.
        outputs: K for K classes.
        depth: number of layers, 6 n + 4 for n blocks in each of three stages.
        width: how many times as many filters as a ResNet has, 16, 32 and 64.
        norm: "batch" as in the paper, or "group" or "filter response", which leave examples independent of each other.
        dropout: rate between the two convolutions of a block.

    Examples:
        >>> import torch
        >>> WideResNet(3, 10, depth=10, width=2)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])

    Reference: S. Zagoruyko, N. Komodakis, "Wide residual networks", 2016, https://arxiv.org/abs/1605.07146
    """

    def __init__(
        self,
        channels: int = 3,
        outputs: int = 10,
        depth: int = 28,
        width: int = 10,
        norm: str = "batch",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        channels, outputs = whole_number("channels", channels), whole_number("outputs", outputs)
        depth, width = whole_number("depth", depth), whole_number("width", width)
        check_rate("dropout", dropout)
        if depth < 10 or depth % 6 != 4:
            raise ValueError(f"depth must be 6 n + 4, such as 16, 22, 28 or 40, got {depth}")
        self.config: dict[str, Any] = {
            "channels": channels,
            "outputs": outputs,
            "depth": depth,
            "width": width,
            "norm": norm,
            "dropout": dropout,
        }
        blocks, before = list[nn.Module](), 16
        for stage, count in enumerate((16 * width, 32 * width, 64 * width)):
            for number in range(depth // 6):
                stride = 2 if stage and not number else 1
                blocks.append(WideBlock(before, count, stride, norm, dropout))
                before = count
        self.layers = nn.Sequential(
            *(PlainConvolution(channels, 16, 3), *blocks, normed(norm, before)),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, outputs)),
        )

    def forward(self, x: Tensor) -> Tensor:  # (B, C, H, W) -> (B, outputs)
        result: Tensor = self.layers(with_channels(x))
        return result
