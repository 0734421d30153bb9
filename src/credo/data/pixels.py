"""Images as tensors, (N, C, H, W)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from credo.data import DataError
from credo.data.sets import DataSet
from credo.data.splits import split


class ImageTensors(NamedTuple):
    """Images to learn from and to test on, with their class numbers.

    Attributes:
        x: (N, C, H, W), real numbers.
        y: (N,).
        x_test: (T, C, H, W).
        y_test: (T,).
    """

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor


def image_tensors(
    data: DataSet, low: float = 0.0, high: float = 1.0, *, test: float = 0.2, seed: int = 0
) -> ImageTensors:
    """A data set of images for a convolutional network.

    Args:
        data: as `credo.data.sets.load` gives it: mnist, fashion-mnist, cifar10, notmnist, or scikit-learn's digits.
        low: what black becomes.
        high: what white becomes.
        test: part of the images to test on, where the set has no test images of its own.
        seed: of the choice of them.

    Examples:
        >>> from credo.data.sets import load
        >>> digits = image_tensors(load("digits"), low=-1.0)
        >>> tuple(digits.x.shape), tuple(digits.x_test.shape), float(digits.x.min())
        ((1438, 1, 8, 8), (359, 1, 8, 8), -1.0)
    """
    largest = 16.0 if data.name == "digits" else 255.0
    x, y = _channels_first(data.x, data.name), torch.as_tensor(data.y)
    if data.test is not None:
        x_test, y_test = _channels_first(data.test[0], data.name), torch.as_tensor(data.test[1])
    else:
        parts = split(len(x), test=test, seed=seed, classes=data.y)
        rows, others = torch.as_tensor(parts.train), torch.as_tensor(parts.test)
        x, x_test, y, y_test = x[rows], x[others], y[rows], y[others]
    x, x_test = (low + (high - low) / largest * each.float() for each in (x, x_test))
    return ImageTensors(x, y, x_test, y_test)


def _channels_first(values: Any, name: str) -> Tensor:
    """(N, C, H, W) from (N, H, W) or (N, H, W, C)."""
    images = torch.as_tensor(values)
    if name == "digits":
        images = images.reshape(-1, 8, 8)
    if images.ndim not in (3, 4):
        raise DataError(f"the data set {name!r} holds no images, but {tuple(images.shape[1:])} numbers a row")
    return images.unsqueeze(1) if images.ndim == 3 else images.permute(0, 3, 1, 2).contiguous()
