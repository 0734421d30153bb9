"""Sentences about numbers by which data are standardized, where those are not what a person would think."""

from __future__ import annotations

from itertools import chain

import torch
from torch import Tensor

from credo.core.inputs import leaves_of
from credo.loop.batches import Source, TensorSource
from credo.loop.roles import Examples
from credo.loop.standardizing import Found, Measured, head_of, is_target, named, named_target

DOMINANT = 0.5
"""Part of the variance that is due to a single value, from which on it is looked at."""
SQUEEZED = 0.05
"""Part of the standard deviation by which all other values vary, below which there is a word about it."""
FEWEST = 30
"""Examples that can show it."""
LOST = 0.01
"""Part of the standard deviation that the rounding of numbers may be before there is a word about it."""


def data_warnings(found: Found, source: Source) -> tuple[str, ...]:
    """What is wrong with the data, in sentences."""
    whole = next(source.all_examples()) if isinstance(source, TensorSource) else None
    said = ((*_far(path, item, whole), *_rounded(path, item)) for path, item in found.items())
    return tuple(chain.from_iterable(said))


def constant_notes(found: Found) -> tuple[str, ...]:
    """Sentences about targets that do not vary."""
    said = list[str]()
    for path, item in found.items():
        constant, mean = item.moments.constant, item.moments.mean
        if is_target(path):
            said += [
                f"{_name(path, item, i)} is {float(mean[i]):.6g} in all examples: there is nothing to learn but that"
                for i in constant.nonzero()[:, 0].tolist()
            ]
    return tuple(said)


def _far(path: str, item: Measured, whole: Examples | None) -> list[str]:
    """About a single value that makes up most of a standard deviation."""
    found, said = item.moments, list[str]()
    alone = found.farthest.square() / found.count > DOMINANT
    if found.count < FEWEST:
        return []
    for i in alone.nonzero()[:, 0].tolist():
        column = None if whole is None else _column(path, whole, i)
        if column is None and not is_target(path):
            continue  # a loader's column of yes and no, rarely yes, looks the same
        where, value, rest = _farthest(column, item, i)
        if rest is not None and not 0.0 < rest < SQUEEZED:
            continue
        said.append(
            f"{_name(path, item, i)} has the value {value:.6g}{where}, {float(found.farthest[i]):.3g} standard "
            "deviations from the mean: it makes up nearly all of the spread by which the data are standardized, so "
            "that the other examples are hardly told apart; correct it or leave its example out"
        )
    return said


def _farthest(column: Tensor | None, item: Measured, i: int) -> tuple[str, float, float | None]:
    """Where the value is, what it is, and the spread of all others as a part of that of all."""
    found = item.moments
    if column is None:
        low, high = float(found.lowest[i]), float(found.highest[i])
        mean = float(found.mean[i])
        return "", low if mean - low > high - mean else high, None
    row = int((column.double() - found.mean[i]).abs().argmax())
    others = torch.cat([column[:row], column[row + 1 :]]).double()
    return f" in row {row}", float(column[row]), float(others.std(correction=0) / found.scale[i])


def _column(path: str, whole: Examples, i: int) -> Tensor | None:
    """A column of the targets, or of a table among the inputs."""
    name = head_of(path)
    values = (whole.y[name] if name else whole.y) if is_target(path) else leaves_of(whole.x)[path]
    if is_target(path) and bool(values.isnan().any()):
        return None
    if values.ndim == 1:
        return values
    return values[:, i] if values.ndim == 2 and i < values.shape[1] else None


def _rounded(path: str, item: Measured) -> list[str]:
    """About numbers so far from zero that their digits do not show how they differ."""
    found = item.moments
    size = found.lowest.abs().maximum(found.highest.abs())
    lost = ~found.constant & (found.resolution * size > LOST * found.spread)
    return [
        f"{_name(path, item, i)} lies near {float(found.mean[i]):.4g} and varies by {float(found.spread[i]):.2g}, of "
        "which its numbers keep few digits: subtract a constant where they have more of them, or give them in float64"
        for i in lost.nonzero()[:, 0].tolist()
    ]


def _name(path: str, item: Measured, i: int) -> str:
    several = f"[:, {i}]" if len(item.moments.mean) > 1 else ""
    return f"{named_target(head_of(path)) if is_target(path) else named(path)}{several}"
