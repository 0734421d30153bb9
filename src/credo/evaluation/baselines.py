"""Models that anyone would try first, on the same rows: boosted trees and a linear model of scikit-learn."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from credo import metrics
from credo.core.rng import Stream
from credo.data.columns import CategoryColumn, InputColumn
from credo.data.values import words
from credo.evaluation.losses import brier_of_rows, mean_and_error
from credo.evaluation.table_values import Baseline

TREES, LINEAR = "boosted trees", "a linear model"
LARGEST = 50_000
"""Rows that they learn from at most, so that they take seconds."""
MOST_BINS = 254
"""Categories of a column that boosted trees tell apart."""
MOST_DUMMIES = 50
"""Categories of a column that get a weight of their own in the linear model."""
LARGEST_ERROR = 1e300
"""What stands for no knowledge at all, which JSON has no number for."""
PENALTIES = tuple(np.logspace(-3.0, 5.0, 17))

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BaselineAnswers:
    """What a common model says of the held-out rows.

    Attributes:
        title: what it is, in words.
        answers: numbers (B,), or probabilities of the classes (B, K).
        trained: number of rows that it learned from.
    """

    title: str
    answers: Floats
    trained: int


def baseline_answers(
    columns: Sequence[InputColumn],
    trained: pd.DataFrame,
    y: NDArray[Any],
    held_out: pd.DataFrame,
    *,
    classes: int = 0,
    weights: Floats | None = None,
    seed: int = 0,
) -> tuple[BaselineAnswers, ...]:
    """Train both on the training rows, and let them answer for the held-out ones.

    Cells are read as the network's are; categories are categories to the trees, and indicators to the linear model.

    Args:
        columns: inputs, as they were fitted to the training rows.
        trained: cells of the training rows.
        y: their targets in units of the user, or class numbers, (N,).
        held_out: cells of the held-out rows.
        classes: number of classes; 0 for numbers.
        weights: how much each training row counts, (N,); None for one each.
        seed: of the choice of rows of a large table, and of the trees.
    """
    if len(y) > LARGEST:
        some = np.sort(Stream(seed, ("rows of baselines",)).permutation(len(y)).numpy()[:LARGEST])
        trained, y = trained.iloc[some], y[some]
        weights = None if weights is None else weights[some]
    if classes and len(np.unique(y)) == 1:
        alone = np.tile(np.eye(classes)[int(y[0])], (len(held_out), 1))
        return tuple(BaselineAnswers(title, alone, len(y)) for title in (TREES, LINEAR))
    found = [
        BaselineAnswers(TREES, _trees(columns, trained, y, held_out, classes, weights, seed), len(y)),
        BaselineAnswers(LINEAR, _linear(columns, trained, y, held_out, classes, weights), len(y)),
    ]
    return tuple(found)


def compared(one: BaselineAnswers, own: Tensor, y: Tensor, *, weights: Tensor | None = None) -> Baseline:
    """A common model beside the posterior, on the held-out rows.

    Args:
        one: its answers.
        own: losses of the posterior at each row, (B,), as `row_losses` counts them.
        y: what was observed, (B,).
        weights: how much each row counts, (B,); None for one each.
    """
    answers = torch.from_numpy(one.answers)
    if answers.dim() == 2:
        losses = brier_of_rows(answers, y)
        scores = {
            "accuracy": metrics.accuracy(answers, y, weights=weights),
            "brier": metrics.brier(answers, y, weights=weights),
            "log_likelihood": metrics.log_likelihood(answers, y, weights=weights),
        }
    else:
        losses = (answers - y.double().reshape(-1)).square()
        scores = {"rmse": metrics.rmse(answers, y, weights=weights), "mae": metrics.mae(answers, y, weights=weights)}
    gain, error = mean_and_error(losses - own, weights)
    finite = {name: value for name, value in scores.items() if math.isfinite(value)}
    return Baseline(one.title, finite, gain, min(error, LARGEST_ERROR), one.trained)


def _trees(
    columns: Sequence[InputColumn],
    trained: pd.DataFrame,
    y: NDArray[Any],
    held_out: pd.DataFrame,
    classes: int,
    weights: Floats | None,
    seed: int,
) -> Floats:
    """Gradient boosting with scikit-learn's own settings."""
    known = [_categories(column, trained, MOST_BINS) for column in columns]
    x, new = (_tree_inputs(columns, known, frame) for frame in (trained, held_out))
    is_category = np.concatenate([np.full(1 if c else _width(column), bool(c)) for column, c in _pairs(columns, known)])
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    model = kind(categorical_features=is_category, random_state=seed % 2**32)
    return _answers(model.fit(x, y, sample_weight=weights), new, classes)


def _linear(
    columns: Sequence[InputColumn],
    trained: pd.DataFrame,
    y: NDArray[Any],
    held_out: pd.DataFrame,
    classes: int,
    weights: Floats | None,
) -> Floats:
    """Ridge regression, its penalty chosen by leaving one out; or logistic regression."""
    known = [_categories(column, trained, MOST_DUMMIES) for column in columns]
    scaler = StandardScaler()
    x = scaler.fit_transform(_linear_inputs(columns, known, trained), sample_weight=weights)
    new = scaler.transform(_linear_inputs(columns, known, held_out)).clip(-10.0, 10.0)  # no line is true for ever
    if not classes:
        center, scale = float(y.mean()), float(y.std()) or 1.0
        ridge = RidgeCV(alphas=PENALTIES).fit(x, (y - center) / scale, sample_weight=weights)
        return np.asarray(ridge.predict(new) * scale + center)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return _answers(LogisticRegression(max_iter=300).fit(x, y, sample_weight=weights), new, classes)


def _answers(model: Any, x: Floats, classes: int) -> Floats:
    if not classes:
        return np.asarray(model.predict(x))
    probs = np.zeros((len(x), classes))  # a class that no training row has keeps zero
    probs[:, model.classes_.astype(int)] = model.predict_proba(x)
    return probs


def _pairs(
    columns: Sequence[InputColumn], known: Sequence[tuple[str, ...]]
) -> list[tuple[InputColumn, tuple[str, ...]]]:
    return list(zip(columns, known, strict=True))


def _categories(column: InputColumn, trained: pd.DataFrame, most: int) -> tuple[str, ...]:
    """The most frequent words of a column of categories; none for other columns."""
    if not isinstance(column, CategoryColumn):
        return ()
    counts = Counter(word for word in words(trained[column.name]) if word is not None)
    return tuple(sorted(counts, key=lambda word: (-counts[word], word))[:most]) or ("",)


def _width(column: InputColumn) -> int:
    return len(column.features) - column.missing  # a tree takes missing cells as they are


def _tree_inputs(columns: Sequence[InputColumn], known: Sequence[tuple[str, ...]], frame: pd.DataFrame) -> Floats:
    blocks = []
    for column, categories in _pairs(columns, known):
        if categories:
            place = {word: float(number) for number, word in enumerate(categories)}
            blocks.append(np.array([[place.get(word, np.nan)] for word in words(frame[column.name])]))
        else:
            found = column.encode(frame[column.name])
            blocks.append(np.where(found.absent[:, None], np.nan, found.values[:, : _width(column)]))
    return np.concatenate(blocks, axis=1)


def _linear_inputs(columns: Sequence[InputColumn], known: Sequence[tuple[str, ...]], frame: pd.DataFrame) -> Floats:
    blocks = []
    for column, categories in _pairs(columns, known):
        if categories:
            cells = words(frame[column.name])
            blocks.append(np.stack([(cells == word).astype(np.float64) for word in categories], axis=1))
        else:
            blocks.append(column.encode(frame[column.name]).values)
    return np.concatenate(blocks, axis=1)
