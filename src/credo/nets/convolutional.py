"""Small convolutional networks: the one of the week-8 lecture, and LeNet-5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import Linear as TorchLinear

from credo.core.checks import check_rate, whole_number
from credo.nets.mlp import ACTIVATIONS


def with_channels(x: Tensor) -> Tensor:
    """Images (B, H, W) of one channel as (B, 1, H, W); others as they are."""
    return x.unsqueeze(1) if x.ndim == 3 else x


def image_size(size: Sequence[int] | int) -> tuple[int, int]:
    """Height and width."""
    if isinstance(size, int):
        return whole_number("size", size), size
    height, width = (whole_number("size", each) for each in size)
    return height, width


class GlorotConv2d(nn.Conv2d):
    """A convolution with the fresh weights of Keras: Glorot's uniform ones, and no biases.

    Those of torch have a sixth of the variance that keeps the size of signals behind ReLU, so that a network of many
    layers without norms begins on a plateau.

    Reference: X. Glorot, Y. Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010,
        https://proceedings.mlr.press/v9/glorot10a.html
    """

    def reset_parameters(self) -> None:
        _glorot(self)


class GlorotLinear(TorchLinear):
    """A linear layer with the fresh weights of Keras: Glorot's uniform ones, and no biases."""

    def reset_parameters(self) -> None:
        _glorot(self)


def _glorot(layer: nn.Conv2d | nn.Linear) -> None:
    nn.init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


class CNN(nn.Module):
    """The convolutional network of the week-8 lecture of Sick, Brändli and Dürr: 117,805 weights for nine classes.

    Twice two convolutions of 3 x 3 and a maximum over 2 x 2, then two dense layers; ReLU after each. It takes images
    (B, channels, H, W), or (B, H, W) where there is one channel.

    Args:
        channels: 3 for colors, 1 for gray.
        outputs: K for K classes.
        size: height and width of the images, or one number for both.
        filters: of the convolutions, two by two.
        dense: width of each dense layer.
        dropout: rate after each dense layer (0.5 in the lecture's network that is not Bayesian).
        filter_dropout: rate at which whole filters are dropped after each convolution.

    Examples:
        >>> import torch
        >>> CNN(3, 9, 32)(torch.zeros(5, 3, 32, 32)).shape
        torch.Size([5, 9])
    """

    def __init__(
        self,
        channels: int,
        outputs: int,
        size: Sequence[int] | int = 32,
        filters: Sequence[int] = (8, 16),
        dense: Sequence[int] = (100, 100),
        dropout: float = 0.0,
        filter_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        channels, outputs = whole_number("channels", channels), whole_number("outputs", outputs)
        height, width = image_size(size)
        filters = [whole_number("filters", each) for each in filters]
        dense = [whole_number("dense", each) for each in dense]
        check_rate("dropout", dropout)
        check_rate("filter_dropout", filter_dropout)
        self.config: dict[str, Any] = {
            "channels": channels,
            "outputs": outputs,
            "size": [height, width],
            "filters": filters,
            "dense": dense,
            "dropout": dropout,
            "filter_dropout": filter_dropout,
        }
        if min(height, width) >> len(filters) == 0:
            raise ValueError(
                f"size {height} x {width} is halved {len(filters)} times, and nothing is left: give larger images or "
                "fewer filters"
            )
        layers: list[nn.Module] = []
        before = channels
        for count in filters:
            for inputs in (before, count):
                layers += [GlorotConv2d(inputs, count, 3, padding=1), nn.ReLU()]
                layers += [nn.Dropout2d(filter_dropout)] if filter_dropout else []
            layers.append(nn.MaxPool2d(2))
            before = count
        layers.append(nn.Flatten())
        before *= (height >> len(filters)) * (width >> len(filters))
        for units in dense:
            layers += [GlorotLinear(before, units), nn.ReLU()]
            layers += [nn.Dropout(dropout)] if dropout else []
            before = units
        layers.append(GlorotLinear(before, outputs))
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:  # (B, C, H, W) -> (B, outputs)
        result: Tensor = self.layers(with_channels(x))
        return result


class LeNet5(nn.Module):
    """LeNet-5 with ReLU and maxima, as it is used today: 61,706 weights for gray images of 28 x 28 and ten classes.

    It takes images (B, channels, H, W), or (B, H, W) where there is one channel.

    Args:
        channels: 1 for gray, 3 for colors.
        outputs: K for K classes.
        size: height and width of the images, or one number for both.
        activation: as in `MLP`; the paper has tanh.
        dropout: rate after each dense layer.

    Examples:
        >>> import torch
        >>> LeNet5(1, 10)(torch.zeros(5, 28, 28)).shape
        torch.Size([5, 10])

    Reference: Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-based learning applied to document recognition",
        1998, https://doi.org/10.1109/5.726791
    """

    def __init__(
        self,
        channels: int = 1,
        outputs: int = 10,
        size: Sequence[int] | int = 28,
        activation: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
        check_rate("dropout", dropout)
        channels, outputs = whole_number("channels", channels), whole_number("outputs", outputs)
        height, width = image_size(size)
        left = [(each // 2 - 4) // 2 for each in (height, width)]
        if min(left) < 1:
            raise ValueError(f"LeNet-5 needs images of at least 12 x 12, got {height} x {width}: try nets.CNN")
        self.config: dict[str, Any] = {
            "channels": channels,
            "outputs": outputs,
            "size": [height, width],
            "activation": activation,
            "dropout": dropout,
        }
        nonlinear = ACTIVATIONS[activation]
        drops = [[nn.Dropout(dropout)] if dropout else [] for _ in range(2)]
        self.layers = nn.Sequential(
            *(GlorotConv2d(channels, 6, 5, padding=2), nonlinear(), nn.MaxPool2d(2)),
            *(GlorotConv2d(6, 16, 5), nonlinear(), nn.MaxPool2d(2), nn.Flatten()),
            *(GlorotLinear(16 * left[0] * left[1], 120), nonlinear(), *drops[0]),
            *(GlorotLinear(120, 84), nonlinear(), *drops[1]),
            GlorotLinear(84, outputs),
        )

    def forward(self, x: Tensor) -> Tensor:  # (B, C, H, W) -> (B, outputs)
        result: Tensor = self.layers(with_channels(x))
        return result
