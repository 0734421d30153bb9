"""Images varied at random while a network learns from them, on the device and repeatable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_options
from credo.core.rng import Stream
from credo.data.corruptions import rotated


@dataclass(frozen=True)
class Augmentation:
    """Each image of a batch moved, mirrored and turned on its own.

    `credo.fit(..., augment=Augmentation(flip=True))` applies it to every batch of the training, with the stream of that
    step: the same seed gives the same images, whatever device computes and wherever a run was resumed. The likelihood
    is then that of the varied images.

    Args:
        shift: at most so many pixels along each axis; what comes in is a repetition of the edge.
        flip: whether half of the images are mirrored, left to right.
        rotation: at most so many degrees to either side.

    Examples:
        >>> from credo import Stream
        >>> x = torch.rand(4, 3, 8, 8)
        >>> augment = Augmentation(shift=1, flip=True)
        >>> torch.equal(augment(x, Stream(0)), augment(x, Stream(0)))
        True
    """

    shift: int = 4
    flip: bool = False
    rotation: float = 0.0

    def __post_init__(self) -> None:
        check_options(self)
        check_at_least("shift", self.shift, 0)
        if not 0.0 <= self.rotation <= 180.0:
            raise ValueError(f"rotation must be from 0 to 180 degrees, got {self.rotation}")

    def __call__(self, x: Any, rng: Stream) -> Tensor:
        """Other images of the same shape, (..., H, W), with axes (B, H, W), (B, C, H, W) or (M, B, C, H, W).

        Args:
            x: images.
            rng: of this batch.
        """
        if not isinstance(x, Tensor) or x.ndim not in (3, 4, 5) or not x.is_floating_point():
            what = f"shape {tuple(x.shape)}" if isinstance(x, Tensor) else f"type {type(x).__name__}"
            raise ValueError(f"augment is for images (B, C, H, W), and x has {what}")
        images = x.unsqueeze(1) if x.ndim == 3 else x.flatten(0, -4)
        if self.rotation:
            images = rotated(images, self.rotation * (2.0 * _uniform(images, rng, "rotation") - 1.0))
        if self.shift or self.flip:
            images = self._moved(images, rng)
        return images.reshape(x.shape)

    def _moved(self, x: Tensor, rng: Stream) -> Tensor:
        """Shifted and mirrored by picking rows and columns."""
        rows, columns = (self._places(x, axis, rng) for axis in (2, 3))
        if self.flip:
            mirrored = _uniform(x, rng, "flip") < 0.5
            columns = torch.where(mirrored.unsqueeze(1), columns.flip(1), columns)
        x = x.gather(2, rows[:, None, :, None].expand(x.shape))
        return x.gather(3, columns[:, None, None, :].expand(x.shape))

    def _places(self, x: Tensor, axis: int, rng: Stream) -> Tensor:
        """Which row (or column) each one comes from, (B, size)."""
        size = x.shape[axis]
        moved = (_uniform(x, rng, f"axis {axis}") * (2 * self.shift + 1)).floor().long() - self.shift
        return (torch.arange(size, device=x.device) + moved.unsqueeze(1)).clamp(0, size - 1)


def _uniform(x: Tensor, rng: Stream, name: str) -> Tensor:
    """One number from 0 to 1 for each image, (B,), the same on every device."""
    return torch.rand(len(x), generator=rng.child(name).generator()).to(x.device)
