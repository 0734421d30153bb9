"""Where a session of labeling stands, and how good its rounds were."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from credo.data import Task
from credo.data.values import numbers


@dataclass(frozen=True)
class CurvePoint:
    """How good a round was, on all rows to judge by that are labeled by now.

    Attributes:
        labels: that it had learned from.
        score: accuracy, or the root of the mean squared error.
        error: how far it may be off by chance, since the rows are few: one standard deviation.
    """

    labels: int
    score: float
    error: float


@dataclass(frozen=True)
class Labeling:
    """Where a session stands.

    Attributes:
        folder: of the session.
        asked: rows that wait for a label, from 1; empty where the pool is used up.
        learned: labels to learn from.
        judged: labels to judge by.
        taken: answers that this call found.
        task: None while there are too few labels to say.
        curve: a point for each round.
        notes: what a person should know, in sentences.
    """

    folder: Path
    asked: tuple[int, ...]
    learned: int
    judged: int
    taken: int
    task: Task | None
    curve: tuple[CurvePoint, ...]
    notes: tuple[str, ...]


def curve_point(labels: int, guesses: Any, truth: dict[int, str], task: Task | None) -> CurvePoint:
    """Accuracy, or the root of the mean squared error, of a round on the rows to judge by."""
    rows, texts = list(truth), pd.Series(list(truth.values()), dtype=object)
    said, count = guesses.iloc[rows], len(rows)
    if task is not Task.REGRESSION:
        right = float(np.mean([a == b for a, b in zip(said, texts, strict=True)]))
        a, b = right * count + 1.0, (1.0 - right) * count + 1.0  # of the Beta posterior: few rows are never sure
        return CurvePoint(labels, right, math.sqrt(a * b / (a + b + 1.0)) / (a + b))
    squares = (numbers(said) - numbers(texts)) ** 2
    root = float(np.sqrt(squares.mean()))
    return CurvePoint(labels, root, float(squares.std()) / (2.0 * max(root, 1e-300) * math.sqrt(count)))
