"""Images made worse in five steps, to see what a network says of inputs that shift away from what it learned."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.rng import Stream

SEVERITIES = (1, 2, 3, 4, 5)
"""From hardly visible to hardly legible."""


class Corruption(StrEnum):
    """What is done to images."""

    NOISE = "noise"
    BLUR = "blur"
    CONTRAST = "contrast"
    ROTATION = "rotation"
    PIXELATE = "pixelate"


LEVELS: dict[Corruption, tuple[float, ...]] = {
    Corruption.NOISE: (0.04, 0.08, 0.12, 0.18, 0.26),
    Corruption.BLUR: (0.5, 0.75, 1.0, 1.4, 2.0),
    Corruption.CONTRAST: (0.75, 0.5, 0.35, 0.22, 0.12),
    Corruption.ROTATION: (10.0, 20.0, 35.0, 50.0, 70.0),
    Corruption.PIXELATE: (0.85, 0.7, 0.5, 0.35, 0.25),
}
"""By severity: the standard deviation of the noise as a part of the range; that of the blur in pixels of an image of
32 x 32 (it grows like the root of the size); the contrast that is left; degrees to the left; the part of the resolution
that is left.

They are credo's own: numbers beside those of published corrupted sets, such as CIFAR-10-C, would mean nothing.
"""


def corrupt(
    x: Tensor, kind: Corruption | str, severity: int, *, seed: int = 0, low: float = 0.0, high: float = 1.0
) -> Tensor:
    """Images made worse, the same whenever it is asked again.

    Args:
        x: images (N, C, H, W), or (N, H, W), from `low` to `high`.
        kind: noise, blur, contrast, rotation or pixelate.
        severity: 1 to 5.
        seed: of the noise, which is drawn for each image by its place.
        low: of black.
        high: of white.

    Returns:
        Images of the same shape and range, on the same device.

    Examples:
        >>> half = torch.full((2, 1, 8, 8), 0.5)
        >>> torch.equal(corrupt(half, "contrast", 3), half), torch.equal(corrupt(half, "noise", 3), half)
        (True, False)
    """
    if kind not in list(Corruption):
        raise ValueError(f"kind must be one of {', '.join(Corruption)}, got {kind!r}")
    if severity not in SEVERITIES:
        raise ValueError(f"severity must be a whole number from 1 to 5, got {severity!r}")
    if x.ndim not in (3, 4) or not x.is_floating_point():
        raise ValueError(
            f"x has shape {tuple(x.shape)} of {str(x.dtype).removeprefix('torch.')}: images are real numbers "
            "(N, C, H, W), or (N, H, W)"
        )
    if not low < high:
        raise ValueError(f"low must be below high, got {low} and {high}")
    if x.numel() and (float(x.detach().min()) < low - 1e-3 or float(x.detach().max()) > high + 1e-3):
        raise ValueError(
            f"x goes from {float(x.detach().min()):.3g} to {float(x.detach().max()):.3g}, beyond low={low:g} and "
            f"high={high:g}: say which numbers are black and white"
        )
    chosen = Corruption(kind)
    images = (x if x.ndim == 4 else x.unsqueeze(1)).sub(low).div(high - low)
    worse = _CORRUPTIONS[chosen](images, LEVELS[chosen][severity - 1], Stream(seed, ("corruption", severity)))
    return worse.clamp(0.0, 1.0).mul(high - low).add(low).reshape(x.shape)


def _noise(x: Tensor, scale: float, rng: Stream) -> Tensor:
    noise = [rng.child(i).normal(*x.shape[1:], dtype=x.dtype) for i in range(len(x))]
    return x + scale * torch.stack(noise).to(x.device) if noise else x


def _blur(x: Tensor, scale: float, rng: Stream) -> Tensor:
    """A Gaussian as the kernel, along one axis and then along the other."""
    width = scale * math.sqrt(max(x.shape[2:]) / 32)
    reach = min(math.ceil(3.0 * width), *(size - 1 for size in x.shape[2:]))
    steps = torch.arange(-reach, reach + 1, dtype=x.dtype, device=x.device)
    kernel = (-0.5 * (steps / width).square()).exp()
    kernel = (kernel / kernel.sum()).expand(x.shape[1], 1, -1)
    padded = F.pad(x, (reach,) * 4, mode="reflect") if reach else x
    across = F.conv2d(padded, kernel.unsqueeze(2), groups=x.shape[1])
    return F.conv2d(across, kernel.unsqueeze(3), groups=x.shape[1])


def _contrast(x: Tensor, part: float, rng: Stream) -> Tensor:
    mean = x.mean((1, 2, 3), keepdim=True)
    return mean + part * (x - mean)


def _rotation(x: Tensor, degrees: float, rng: Stream) -> Tensor:
    return rotated(x, torch.full((len(x),), degrees, dtype=x.dtype, device=x.device))


def rotated(x: Tensor, degrees: Tensor) -> Tensor:
    """Images (N, C, H, W), each turned to the left by its own angle (N,); what lies outside is mirrored in."""
    angle = degrees * (math.pi / 180.0)
    height, width = x.shape[2:]
    sine, cosine, zero = angle.sin(), angle.cos(), torch.zeros_like(angle)
    # places run from -1 to 1 along either axis, whatever its length
    rows = torch.stack([cosine, -sine * (height / width), zero]), torch.stack([sine * (width / height), cosine, zero])
    grid = F.affine_grid(torch.stack(rows).permute(2, 0, 1), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)


def _pixelate(x: Tensor, part: float, rng: Stream) -> Tensor:
    small = [max(1, round(part * size)) for size in x.shape[2:]]
    coarse = F.interpolate(x, small, mode="bilinear", antialias=True, align_corners=False)
    return F.interpolate(coarse, list(x.shape[2:]), mode="nearest-exact")


_CORRUPTIONS: dict[Corruption, Callable[[Tensor, float, Stream], Tensor]] = {
    Corruption.NOISE: _noise,
    Corruption.BLUR: _blur,
    Corruption.CONTRAST: _contrast,
    Corruption.ROTATION: _rotation,
    Corruption.PIXELATE: _pixelate,
}
