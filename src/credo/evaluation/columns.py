"""Which columns matter, how the prediction depends on them, and where along them it errs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from credo.core.rng import Stream
from credo.data.columns import CategoryColumn, DateColumn, InputColumn
from credo.data.encoder import Encoder
from credo.data.values import days, numbers, words
from credo.evaluation.losses import mean_and_error, row_losses
from credo.evaluation.table_values import Effect, Importance, Residuals
from credo.predictive import ClassPredictive, Predictive

Predict = Callable[[Tensor], Predictive]
"""From inputs of the network, (B, F), to predictions in units of the user."""

SHUFFLED, REPEATS, PREDICTED = 1_000, 5, 300_000
"""Rows that are shuffled, how often, and predictions that may be made for it."""
AVERAGED, POINTS, CATEGORIES = 300, 21, 12
"""Rows over which partial dependence is averaged, and values of a column at which it is taken."""
SHOWN = 6
"""Columns that are looked at one by one."""
CURVES = 3
"""Classes of which a probability is shown, where there are more than two."""
BINS, LEAST = 5, 5
"""Groups of rows along a column of numbers, and rows of a group whose errors are shown."""


@dataclass(frozen=True, eq=False)
class ColumnProbe:
    """What is needed to look at columns one by one.

    Attributes:
        predict: the posterior.
        encoder: from cells to inputs.
        frame: cells of the held-out rows.
        y: what was observed, (B,).
        classes: names; empty for numbers.
        seed: of shuffles and of the choice of rows.
        weights: how much each row counts, (B,); None for one each.
    """

    predict: Predict
    encoder: Encoder
    frame: pd.DataFrame
    y: Tensor
    classes: tuple[str, ...] = ()
    seed: int = 0
    weights: Tensor | None = None

    def some(self, most: int, name: str) -> ColumnProbe:
        """The same with at most so many of the rows."""
        if len(self.frame) <= most:
            return self
        rows = Stream(self.seed, (name,)).permutation(len(self.frame))[:most].sort().values
        weights = None if self.weights is None else self.weights[rows]
        frame = self.frame.iloc[rows.numpy()].reset_index(drop=True)
        return ColumnProbe(self.predict, self.encoder, frame, self.y[rows], self.classes, self.seed, weights)

    def inputs(self) -> Tensor:
        """Of the network, (B, F)."""
        return self.encoder.encode(self.frame).x

    def places(self) -> dict[str, slice]:
        """Which inputs each column becomes."""
        found, start = {}, 0
        for column in self.encoder.inputs:
            found[column.name] = slice(start, start + len(column.features))
            start += len(column.features)
        return found


def importances(probe: ColumnProbe) -> tuple[Importance, ...]:
    """Permutation importance: the rise of the loss when a column's cells are shuffled among the held-out rows.

    rise = sqrt(mean of shuffled squared errors) - sqrt(mean of squared errors), or the difference of Brier scores

    A column that others could stand in for looks less important than it is by itself.

    Args:
        probe: the rows; at most `SHUFFLED` of them are used.

    Returns:
        All columns, the most important first.

    Reference: L. Breiman, "Random forests", 2001, https://doi.org/10.1023/A:1010933404324
    """
    part = probe.some(SHUFFLED, "rows of importance")
    x, places = part.inputs(), part.places()
    repeats = max(1, min(REPEATS, PREDICTED // (len(x) * len(places))))
    before = row_losses(part.predict(x), part.y)
    found = [_importance(part, x, before, name, place, repeats) for name, place in places.items()]
    return tuple(sorted(found, key=lambda each: -each.rise))


def _importance(part: ColumnProbe, x: Tensor, before: Tensor, name: str, place: slice, repeats: int) -> Importance:
    risen = torch.zeros_like(before)
    for repeat in range(repeats):
        order = Stream(part.seed, ("importance", name, repeat)).permutation(len(x))
        shuffled = x.clone()
        shuffled[:, place] = x[order, place]
        risen += (row_losses(part.predict(shuffled), part.y) - before) / repeats
    rise, error = mean_and_error(risen, part.weights)
    if part.classes:
        return Importance(name, rise, _finite(error))
    old, _ = mean_and_error(before, part.weights)
    both = math.sqrt(max(old + rise, 0.0)) + math.sqrt(old)
    return Importance(name, rise / both if both else 0.0, _finite(error / both if both else 0.0))


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def effects(probe: ColumnProbe, columns: Sequence[str], trained: pd.DataFrame) -> tuple[Effect, ...]:
    """Partial dependence with the posterior's band.

    f(v) = 1/B sum_b E[y | x_b with the column's cell set to v], and its standard deviation over drawn functions

    Args:
        probe: the rows; at most `AVERAGED` of them are averaged over.
        columns: names of the columns to look at.
        trained: cells of the training rows, from which the values are taken.

    Reference: J. H. Friedman, "Greedy function approximation", 2001, https://doi.org/10.1214/aos/1013203451
    """
    part = probe.some(AVERAGED, "rows of partial dependence")
    x, places = part.inputs(), part.places()
    known = {column.name: column for column in part.encoder.inputs}
    return tuple(effect for name in columns for effect in _effects(part, x, places[name], known[name], trained[name]))


def _effects(part: ColumnProbe, x: Tensor, place: slice, column: InputColumn, trained: pd.Series) -> list[Effect]:
    values, shown, cells = _grid(column, trained)
    if len(cells) < 2:
        return []
    found = column.encode(cells).values
    mean, spread = [], []
    for inputs in torch.tensor(found, dtype=x.dtype):
        there = x.clone()
        there[:, place] = inputs
        center, apart = _dependence(part.predict(there), part.weights)
        mean.append(center)
        spread.append(apart)
    means, spreads = torch.stack(mean), torch.stack(spread)  # (points, outputs)
    return [
        Effect(column.name, label, values, shown, tuple(means[:, k].tolist()), tuple(spreads[:, k].tolist()))
        for k, label in _outputs(means, part.classes)
    ]


def _outputs(means: Tensor, classes: tuple[str, ...]) -> list[tuple[int, str]]:
    """Which outputs are shown: the number, the second of two classes, or those classes that change most."""
    if len(classes) < 2:
        return [(0, "")]
    if len(classes) == 2:
        return [(1, classes[1])]
    ranges = means.max(0).values - means.min(0).values
    return [(k, classes[k]) for k in sorted(ranges.argsort(descending=True)[:CURVES].tolist())]


def _dependence(prediction: Predictive, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """The mean over rows, (K,), and its standard deviation over the draws."""
    share = torch.full((len(prediction),), 1.0 / len(prediction), dtype=torch.float64)
    if weights is not None:
        share = (weights / weights.sum()).double()
    center = prediction.probs if isinstance(prediction, ClassPredictive) else prediction.mean
    drawn = prediction.likelihood.mean(prediction.draws, prediction.params).double()  # (S, B, K)
    if not isinstance(prediction, ClassPredictive):
        drawn = drawn.reshape(len(drawn), -1, 1)
    by_draw = torch.einsum("b,sbk->sk", share, drawn)
    apart = by_draw - prediction.average(by_draw)
    return share @ center.double().reshape(len(prediction), -1), prediction.average(apart.square()).sqrt()


def _grid(column: InputColumn, trained: pd.Series) -> tuple[tuple[float, ...], tuple[str, ...], Any]:
    """Values on the axis, words for them, and cells."""
    if isinstance(column, CategoryColumn):
        counts = Counter(word for word in words(trained) if word is not None)
        shown = tuple(sorted(counts, key=lambda word: (-counts[word], word))[:CATEGORIES])
        return (), shown, pd.Series(list(shown), dtype=object, name=column.name)
    known = days(trained, column.layout) if isinstance(column, DateColumn) else numbers(trained)
    values = _quantiles(known[np.isfinite(known)])
    if isinstance(column, DateColumn):
        moments = pd.to_datetime(values, unit="D").round("s")
        cells = pd.Series(moments, name=column.name)
        return tuple(values.tolist()), tuple(f"{moment:%Y-%m-%d}" for moment in moments), cells
    return tuple(values.tolist()), (), pd.Series(values, name=column.name)


def _quantiles(known: NDArray[np.float64]) -> NDArray[np.float64]:
    """From the 1st to the 99th of 100, or all values where there are few."""
    distinct = np.unique(known)
    if len(distinct) <= POINTS:
        return np.asarray(distinct, dtype=np.float64)
    return np.unique(np.quantile(known, np.linspace(0.01, 0.99, POINTS)))


def residuals(probe: ColumnProbe, columns: Sequence[str], error: Tensor, size: Tensor) -> tuple[Residuals, ...]:
    """Errors in groups of rows along columns: fifths of numbers and dates, categories.

    Args:
        probe: the held-out rows.
        columns: names of the columns to look at.
        error: of each row, with its sign, (B,): observed minus predicted, or right minus confidence.
        size: of each row, (B,): the squared error, or whether it was a mistake.
    """
    known = {column.name: column for column in probe.encoder.inputs}
    found = []
    for name in columns:
        groups, where = _groups(known[name], probe.frame[name])
        kept = [g for g in range(len(groups)) if int((where == g).sum()) >= LEAST]
        if len(kept) < 2:
            continue
        stats = [mean_and_error(error[torch.from_numpy(where == g)]) for g in kept]
        sizes = [float(size[torch.from_numpy(where == g)].double().mean()) for g in kept]
        found.append(
            Residuals(
                column=name,
                groups=tuple(groups[g] for g in kept),
                rows=tuple(float((where == g).sum()) for g in kept),
                mean=tuple(mean for mean, _ in stats),
                error=tuple(each for _, each in stats),
                size=tuple(one if probe.classes else math.sqrt(one) for one in sizes),
            )
        )
    return tuple(found)


def _groups(column: InputColumn, cells: pd.Series) -> tuple[list[str], NDArray[np.int64]]:
    """What rows have in common, and the number of the group of each row; -1 for none."""
    if isinstance(column, CategoryColumn):
        read = words(cells)
        counts = Counter(word for word in read if word is not None)
        shown = sorted(counts, key=lambda word: (-counts[word], word))[:CATEGORIES]
        place = {word: number for number, word in enumerate(shown)}
        return shown, np.array([place.get(word, -1) for word in read], dtype=np.int64)
    values = days(cells, column.layout) if isinstance(column, DateColumn) else numbers(cells)
    finite = np.isfinite(values)
    if not finite.any():
        return [], np.full(len(values), -1, dtype=np.int64)
    edges = np.unique(np.quantile(values[finite], np.linspace(0.0, 1.0, BINS + 1)))
    where = np.searchsorted(edges[1:-1], values, side="left")
    ends = list(pairwise(edges)) or [(edges[0], edges[0])]
    text = _date if isinstance(column, DateColumn) else _plain
    return [f"{text(low)} to {text(high)}" for low, high in ends], np.where(finite, where, -1).astype(np.int64)


def _plain(value: float) -> str:
    return f"{value:.4g}"


def _date(value: float) -> str:
    return f"{pd.Timestamp(value, unit='D'):%Y-%m-%d}"
