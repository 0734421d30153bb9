"""What people give for numbers, as tensors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy
import torch
from torch import Tensor


def tensor(values: Any, name: str) -> Tensor:
    """A tensor, array, data frame or list as a tensor, with a sentence where that fails."""
    if isinstance(values, list | tuple) and values and all(isinstance(item, Tensor) for item in values):
        values = torch.stack(list(values))
    if isinstance(values, Tensor) and values.layout is not torch.strided:
        raise TypeError(f"{name} is a sparse tensor, and credo computes with dense ones: give {name}.to_dense()")
    if isinstance(values, Tensor) and values.is_meta:
        raise TypeError(f"{name} is on the device meta, where tensors have a shape and no numbers")
    if isinstance(values, Tensor):
        # what was made in inference mode cannot take part in a gradient
        return values.detach().clone() if values.is_inference() else values.detach()
    array = _plain(values, name)
    try:
        return torch.as_tensor(array)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} cannot be read as numbers ({error}): give a tensor or a numeric array") from None


def _plain(values: Any, name: str) -> Any:
    """An array of its own that torch can take over: writable, contiguous, in the machine's byte order."""
    if isinstance(values, numpy.ma.MaskedArray) and bool(numpy.ma.getmaskarray(values).any()):
        raise ValueError(f"{name} has masked values: remove or fill them")
    try:
        array = numpy.array(values, order="C")
        if array.dtype == object:
            array = array.astype(numpy.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} cannot be read as numbers ({error}): give a tensor or a numeric array") from None
    return array.astype(array.dtype.newbyteorder("="), copy=False)


@lru_cache(maxsize=256)
def constant(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Numbers of a description as a tensor in float64, which is made once for a device."""
    with torch.inference_mode(False):  # or no gradient could pass through what is computed with it
        return torch.tensor(values, dtype=torch.float64, device=device)


DIGITS = 1e-4
"""Part of a standard deviation that the rounding of a number may be."""
ROOM = 1e4
"""Standard deviations from the mean at which a number must still be one."""


def shown_by(dtype: torch.dtype, loc: float, scale: float) -> bool:
    """Whether a precision has the digits and the range for numbers around loc that differ by a few scales."""
    info = torch.finfo(dtype)
    digits = abs(loc) * info.eps <= DIGITS * scale
    return digits and abs(loc) / ROOM + scale <= info.max / ROOM and scale >= info.tiny * info.eps * ROOM


def check_finite(values: Tensor, name: str = "y") -> None:
    """Refuse NaN and infinite values, with the first row that has one."""
    bad = ~torch.isfinite(values)
    if bool(bad.any()):
        rows = f"{int(bad.sum())}, the first in row {int(bad.nonzero()[0, 0])}"
        raise ValueError(f"{name} has NaN or infinite values ({rows}): remove or fill them")
