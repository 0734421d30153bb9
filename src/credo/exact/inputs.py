"""What the user gives, as float64 tensors, with a sentence where that fails."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import torch
from torch import Tensor


def vector(values: Any, name: str) -> Tensor:
    """Numbers as (N,); one column (N, 1) will do as well."""
    tensor = _float64(values, name)
    if tensor.ndim == 2 and tensor.shape[1] == 1:
        tensor = tensor.squeeze(1)
    if tensor.ndim != 1:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}: it must be (N,) or (N, 1)")
    return tensor


def matrix(values: Any, name: str) -> Tensor:
    """Numbers as (N, P)."""
    tensor = _float64(values, name)
    if tensor.ndim != 2 or tensor.shape[1] == 0:
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}: it must be (N, P), one row per example and one column per weight"
        )
    return tensor


def check_positive(value: float, name: str) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name} must be a positive number, got {value!r}")


def check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")


def check_count(value: object, name: str, smallest: int) -> None:
    if not isinstance(value, Integral) or int(value) < smallest:
        raise ValueError(f"{name} must be a whole number of at least {smallest}, got {value!r}")


def _float64(values: Any, name: str) -> Tensor:
    try:
        tensor = torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} cannot be read as numbers ({error}): give a tensor or a numeric array") from None
    if not bool(torch.isfinite(tensor).all()):
        raise ValueError(f"{name} has NaN or infinite values: remove or fill them")
    return tensor
