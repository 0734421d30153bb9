"""Parts of the rows that keep what belongs together on one side: groups of rows, and the past and the future."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from credo.core.rng import Stream

Index = NDArray[np.int64]
BLOCKS = 20
"""Stretches of time that are kept together where rows for validation are chosen."""


def numbered(groups: Any, count: int) -> Index:
    """Groups as numbers from 0, (N,).

    Args:
        groups: a value for each row; rows with the same value belong together.
        count: N.

    Examples:
        >>> numbered(["b", "a", "b"], 3).tolist()
        [1, 0, 1]
    """
    if len(groups) != count:
        raise ValueError(f"groups has {len(groups)} entries for {count} rows: they must be the same number")
    return np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1).astype(np.int64)


def held_out_groups(groups: Index, test: float, stream: Stream) -> NDArray[np.bool_]:
    """Which rows are for testing: whole groups at random, about that part of the rows, and never all groups.

    Groups are taken in random order as long as they fit; the smallest is taken where none does.

    Args:
        groups: number of the group of each row, (N,).
        test: part of the rows.
        stream: of the choice.
    """
    sizes = np.bincount(groups)
    if len(sizes) < 2:
        raise ValueError("all rows belong to one group: they cannot be divided without cutting it")
    wanted, taken, chosen = max(1, round(len(groups) * test)), 0, np.zeros(len(sizes), dtype=bool)
    for group in stream.permutation(len(sizes)).numpy():
        if taken + sizes[group] <= wanted:
            chosen[group], taken = True, taken + int(sizes[group])
    if not chosen.any():
        chosen[sizes.argmin()] = True
    if chosen.all():
        chosen[sizes.argmax()] = False
    return np.asarray(chosen[groups])


def folds_of_groups(groups: Index, parts: int, stream: Stream) -> list[Index]:
    """The rows of each part, none of which cuts a group; parts are of about equal size.

    Groups in random order, large ones first, each to the part that is smallest so far. With fewer groups than parts,
    some parts are the same.

    Args:
        groups: number of the group of each row, (N,).
        parts: M.
        stream: of the order.
    """
    sizes = np.bincount(groups)
    if len(sizes) < 2:
        raise ValueError("all rows belong to one group: they cannot be divided without cutting it")
    order = stream.permutation(len(sizes)).numpy()
    order = order[np.argsort(-sizes[order], kind="stable")]
    loads, part_of = np.zeros(min(parts, len(sizes)), dtype=np.int64), np.empty(len(sizes), dtype=np.int64)
    for group in order:
        part_of[group] = loads.argmin()
        loads[part_of[group]] += sizes[group]
    return [np.flatnonzero(part_of[groups] == m % len(loads)) for m in range(parts)]


def future(times: NDArray[np.float64], test: float) -> NDArray[np.bool_]:
    """Which rows are for testing: the latest ones, about that part of the rows; rows of one moment stay together.

    Args:
        times: of each row, (N,), none of them NaN.
        test: part of the rows.

    Examples:
        >>> future(np.array([3.0, 1.0, 2.0, 3.0]), test=0.25).tolist()
        [True, False, False, True]
    """
    moments, counts = np.unique(times, return_counts=True)
    if len(moments) < 2:
        raise ValueError("all rows are of the same time: there is no past to learn from")
    after = counts[::-1].cumsum()[::-1]  # rows at this moment or later
    first = int(np.abs(after[1:] - len(times) * test).argmin()) + 1
    return np.asarray(times >= moments[first])


def blocks_of_time(times: NDArray[np.float64]) -> Index:
    """Rows that are near in time as groups, at most `BLOCKS` of about equal size; rows of one moment stay together.

    Args:
        times: of each row, (N,), none of them NaN.
    """
    rank = np.searchsorted(np.sort(times), times, side="left")
    return np.asarray(rank * BLOCKS // len(times), dtype=np.int64)
