"""What the user gives, as float64 tensors, with a sentence where that fails."""

from __future__ import annotations

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


def _float64(values: Any, name: str) -> Tensor:
    try:
        tensor = torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} cannot be read as numbers ({error}): give a tensor or a numeric array") from None
    if not bool(torch.isfinite(tensor).all()):
        raise ValueError(f"{name} has NaN or infinite values: remove or fill them")
    return tensor
