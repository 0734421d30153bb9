"""Weights of examples: what they may be, said in one place for training, validation and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from credo.core.arrays import tensor


def example_weights(values: Any, rows: Sequence[int], name: str = "weights", *, some: bool = True) -> Tensor:
    """Weights of examples, (N,) or (M, N), or a sentence that says what is wrong with them.

    Args:
        values: a tensor, an array or a list; a column (N, 1) is one of rows.
        rows: (N,), or (M, N) where each of M members has its own.
        name: what a person calls them.
        some: whether one of them (of each member) must be more than zero.

    Examples:
        >>> example_weights([1, 2, 0.5], [3])
        tensor([1.0000, 2.0000, 0.5000], dtype=torch.float64)
    """
    if isinstance(values, Mapping):
        raise ValueError(f"{name} must be one number for each example, and not a dict: give those of one head")
    weights, rows = tensor(values, name), tuple(rows)
    if weights.ndim == len(rows) + 1 and weights.shape[-1] == 1:
        weights = weights.squeeze(-1)
    if tuple(weights.shape) != rows:
        raise ValueError(
            f"{name} has shape {tuple(weights.shape)}, and there are {' x '.join(map(str, rows))} examples: it needs "
            f"one number for each{_of_positions(weights, rows)}"
        )
    if weights.is_complex():
        raise ValueError(f"{name} has complex numbers: an example may weigh 0 or more")
    if not weights.is_floating_point():
        weights = weights.to(torch.get_default_dtype())
    check_weights(weights, name, some=some)
    return weights


def check_weights(weights: Tensor, name: str, *, some: bool = True) -> None:
    """Refuse weights that are not finite, negative, or zero for all examples."""
    if not bool(weights.isfinite().all()):
        raise ValueError(f"{name} has NaN or infinite values: an example may weigh 0 or more")
    if bool((weights < 0).any()):
        raise ValueError(f"{name} has negative values: an example may weigh 0 or more")
    if some and not bool((weights > 0).any(-1).all()):
        whose = " of a member" if weights.ndim > 1 else ""
        raise ValueError(f"{name}{whose} are all zero: no example would count")


def _of_positions(weights: Tensor, rows: tuple[int, ...]) -> str:
    if weights.ndim <= len(rows) or tuple(weights.shape[: len(rows)]) != rows:
        return ""
    return (
        ", and none for each position or target; positions that do not count, such as padding, are marked in y: by "
        "-100 among classes, by NaN among numbers"
    )
