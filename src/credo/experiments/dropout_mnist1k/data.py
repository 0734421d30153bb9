"""The images: so many of each class to learn from, the next of each class to test; and digits that are none."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.rng import Stream
from credo.data.sets import load

TESTED = 100
"""Test images of each class: those that come after the first hundred in the training set, as in the tutorial's code."""


@dataclass(frozen=True)
class Images:
    """Grey values from 0 to 1, (N, side, side), and classes."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor

    @property
    def pixels(self) -> int:
        return self.x[0].numel()

    @property
    def per_class(self) -> int:
        """Images of each class to learn from."""
        return len(self.x) // 10


def mnist(per_class: int) -> Images:
    """The first `per_class` images of each class of MNIST's training set, and images 100 to 199 of each to test.

    With more than 100 of each class to learn from, those that are tested are left out.
    """
    data = load("mnist")
    x, y = torch.as_tensor(data.x).float() / 255.0, torch.as_tensor(data.y).long()
    return _split(x, y, per_class, TESTED)


def digits(per_class: int) -> Images:
    """The same of scikit-learn's images of 8 x 8, with 50 of each class to test."""
    data = load("digits")
    x = torch.as_tensor(data.x).float().reshape(-1, 8, 8) / 16.0
    return _split(x, torch.as_tensor(data.y).long(), per_class, 50)


def _split(x: Tensor, y: Tensor, per_class: int, tested: int) -> Images:
    """Test images follow the first hundred of a class, or the first few where there are fewer to learn from."""
    each = [torch.nonzero(y == k).squeeze(1) for k in range(10)]
    start = min(per_class, 100)
    test = torch.cat([rows[start : start + tested] for rows in each])
    rest = [torch.cat([rows[:start], rows[start + tested :]])[:per_class] for rows in each]
    train = torch.cat(rest)
    return Images(x[train], y[train], x[test], y[test])


@dataclass(frozen=True)
class Odd:
    """An image that is no digit, or no clear one, and what it is."""

    label: str
    image: Tensor


def synthetic(data: Images, seed: int) -> tuple[Odd, ...]:
    """Test digits that were rotated or blended, and noise."""
    three, five, nine, one = (data.x_test[data.y_test == k][0] for k in (3, 5, 9, 1))
    noise = torch.rand(three.shape, generator=Stream(seed, ("noise image",)).generator())
    return (
        Odd("a 3, turned by 45 degrees", rotated(three, 45.0)),
        Odd("a 5, turned by 90 degrees", rotated(five, 90.0)),
        Odd("a 9 and a 1, half each", 0.5 * (nine + one)),
        Odd("noise", noise),
    )


def rotated(image: Tensor, degrees: float) -> Tensor:
    """An image (side, side) turned around its middle, by bilinear interpolation."""
    angle = math.radians(degrees)
    turn = torch.tensor([[math.cos(angle), -math.sin(angle), 0.0], [math.sin(angle), math.cos(angle), 0.0]])
    grid = F.affine_grid(turn.unsqueeze(0), [1, 1, *image.shape], align_corners=False)
    return F.grid_sample(image[None, None], grid, align_corners=False)[0, 0]
