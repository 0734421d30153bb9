"""Parts of the rows: for training, for choosing, for testing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from credo.core.rng import Stream
from credo.data.group_splits import folds_of_groups, held_out_groups, numbered

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of three parts that share none."""

    train: Index
    validation: Index
    test: Index


@dataclass(frozen=True, eq=False)
class Folds:
    """M parts of equal size, each with all the other rows; a few rows are in no part when M does not divide N.

    Where groups must not be cut, parts differ in size: of larger ones some rows are left out at random, and so are some
    of the others.

    Attributes:
        held: rows of each part, (M, H).
        kept: the other rows, (M, N - H), or fewer where there are groups.
    """

    held: Index
    kept: Index


def split(
    count: int,
    *,
    test: float = 0.1,
    validation: float = 0.0,
    seed: int = 0,
    classes: Any = None,
    groups: Any = None,
) -> Split:
    """Rows at random for testing, for validation and, all others, for training.

    Args:
        count: N, the number of rows.
        test: part of the rows for testing; at least one row where it is not zero.
        validation: part of the rows for validation, likewise.
        seed: the same seed gives the same parts.
        classes: (N,) class of each row; every part then has the classes in proportion, and a class of one row
            goes to training.
        groups: (N,) group of each row; no group is then on two sides, sizes are about those asked for, and classes
            are as they come.

    Examples:
        >>> parts = split(100, test=0.2, validation=0.1)
        >>> len(parts.train), len(parts.validation), len(parts.test)
        (70, 10, 20)
    """
    for name, part in (("test", test), ("validation", validation)):
        if not 0.0 <= part < 1.0:
            raise ValueError(f"{name} must be a part of the rows, from 0 to below 1, got {part}")
    sizes = [max(1, round(count * part)) if part else 0 for part in (test, validation)]
    if sum(sizes) >= count:
        raise ValueError(f"{count} row(s) cannot be divided into test={test}, validation={validation} and a rest")
    if groups is not None:
        return _split_groups(numbered(groups, count), test, validation, Stream(seed, ("split", "groups")))
    order = _order(count, Stream(seed, ("split",)), classes)
    first, second = sizes[0], sizes[0] + sizes[1]
    return Split(train=np.sort(order[second:]), validation=np.sort(order[first:second]), test=np.sort(order[:first]))


def _split_groups(groups: Index, test: float, validation: float, stream: Stream) -> Split:
    rows, parts = np.arange(len(groups)), []
    for name, part in (("test", test), ("validation", validation)):
        chosen = np.zeros(len(rows), dtype=bool)
        if part:
            left = np.unique(groups[rows], return_inverse=True)[1].astype(np.int64)
            chosen = held_out_groups(left, part * len(groups) / len(rows), stream.child(name))
        parts.append(rows[chosen])
        rows = rows[~chosen]
    return Split(train=rows, validation=parts[1], test=parts[0])


def scikit_split(count: int, test: float, random_state: int) -> tuple[Index, Index]:
    """Rows to learn from and held-out rows, as scikit-learn's `train_test_split` chooses them: what publications state.

    Args:
        count: N, the number of rows.
        test: part of the rows that is held out.
        random_state: as published.
    """
    from sklearn.model_selection import train_test_split  # slow to import, and needed for few experiments

    train, held_out = train_test_split(np.arange(count), test_size=test, random_state=random_state)
    return train, held_out


def folds(count: int, parts: int, *, seed: int = 0, classes: Any = None, groups: Any = None, joined: int = 1) -> Folds:
    """The rows in `parts` equal parts at random, each with its complement.

    Args:
        count: N, the number of rows.
        parts: M.
        seed: the same seed gives the same parts.
        classes: (N,) class of each row; every part then has the classes in proportion.
        groups: (N,) group of each row; no row of a part then has one of its group among the rows that the part goes
            with, and classes are as they come.
        joined: with groups, each part holds so many of M smaller ones, in a circle, so that parts overlap.
    """
    if not 2 <= parts <= count:
        raise ValueError(f"{count} row(s) cannot be divided into {parts} parts: parts must be from 2 to {count}")
    if groups is not None:
        return _folds_of_groups(numbered(groups, count), parts, Stream(seed, ("folds", "groups")), joined)
    order, size = _order(count, Stream(seed, ("folds",)), classes), count // parts
    held = np.stack([np.sort(order[m * size : (m + 1) * size]) for m in range(parts)])
    kept = np.stack([np.setdiff1d(order, part) for part in held])
    return Folds(held, kept)


def _folds_of_groups(groups: Index, parts: int, stream: Stream, joined: int) -> Folds:
    each = folds_of_groups(groups, parts, stream.child("parts"))
    held = [np.unique(np.concatenate([each[(m + k) % parts] for k in range(joined)])) for m in range(parts)]
    kept = [np.setdiff1d(np.arange(len(groups)), part) for part in held]
    return Folds(_equal(held, stream.child("held")), _equal(kept, stream.child("kept")))


def _equal(rows: list[Index], stream: Stream) -> Index:
    """As many of each as the smallest has, at random, (M, smallest)."""
    size = min(map(len, rows))
    chosen = [some[stream.child(m).permutation(len(some)).numpy()[:size]] for m, some in enumerate(rows)]
    return np.sort(np.stack(chosen), axis=1)


def _order(count: int, stream: Stream, classes: Any) -> Index:
    """All rows in random order; with classes, such that every run of rows has the classes in proportion.

    Row r of the n rows of its class is put at (r + u) / n of the way, with one u for each class.
    """
    shuffled = stream.child("rows").permutation(count).numpy()
    if classes is None:
        return shuffled
    if len(classes) != count:
        raise ValueError(f"classes has {len(classes)} entries for {count} rows: they must be the same number")
    labels = np.unique(np.asarray(classes)[shuffled], return_inverse=True)[1]
    sizes = np.bincount(labels)
    rank = np.empty(count, dtype=np.int64)
    for label in range(len(sizes)):
        rank[labels == label] = np.arange(sizes[label])
    shift = torch.rand(len(sizes), generator=stream.child("shift").generator(), dtype=torch.float64).numpy()
    # a row alone in its class comes last: what comes last is trained on
    place = np.where(sizes == 1, 1.0, 0.0)[labels] + (rank + shift[labels]) / sizes[labels]
    return shuffled[np.argsort(place, kind="stable")]
