"""From a file to a run: read, divide, train, hold against the rows that were kept back."""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from credo.data.problem import Kind, Problem, pose
from credo.data.reading import Table, read_table
from credo.data.splits import Split, split
from credo.data.tables import ClassTarget, Encoder, NumericTarget, Task
from credo.data.values import numbers, words
from credo.estimators.recipes import Numbers, recipe_of, table_model
from credo.estimators.regressor import FLOOR, BayesianRegressor
from credo.estimators.training import FEW_ROWS, LARGEST_COPY, Told, learn
from credo.estimators.units import in_units
from credo.likelihoods import Categorical, HeteroscedasticGaussian
from credo.posteriors import Posterior
from credo.posteriors.draws import Draws
from credo.predictive import Predictive
from credo.tabular.evaluate import HeldOut, evaluate
from credo.tabular.evaluation import Evaluation
from credo.tabular.predictions import answer, predict_exactly
from credo.tabular.scores import naive_classes, naive_numbers
from credo.tabular.story import Lesson, Story, columns_told

LEAST = 8
"""Rows to learn from."""
SMALLEST = 1e-100
"""Targets that vary less, or more than the inverse, have squares that a computer cannot hold."""


@dataclass(frozen=True)
class Order:
    """What the user wants.

    Attributes:
        path: of the table.
        target: name of the column to predict.
        method: a name that the estimators know.
        task: None decides by the target.
        test: part of the rows that is held out.
        seed: every stream of randomness derives from it.
        epochs: at most so many passes over the data before the learning rate falls; None for the method's own limit.
        drop: names of columns that must not be used.
    """

    path: Path
    target: str
    method: str
    task: Task | None = None
    test: float = 0.2
    seed: int = 0
    epochs: int | None = None
    drop: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Found:
    """A table that has been read and understood.

    Attributes:
        order: what the user wants.
        table: the file.
        problem: what its columns are.
        parts: which rows are learnt from and which are held out.
        begin: when work began, by the monotonic clock.
    """

    order: Order
    table: Table
    problem: Problem
    parts: Split
    begin: float


@dataclass(frozen=True, eq=False)
class Fitted:
    """A run, before it is written.

    Attributes:
        posterior: in standardised units.
        encoder: of the training rows.
        evaluation: what the held-out rows say.
        predictions: of the held-out rows, with what was observed.
        story: how it came about.
    """

    posterior: Posterior
    encoder: Encoder
    evaluation: Evaluation
    predictions: pd.DataFrame
    story: Story


def find_out(order: Order) -> Found:
    """Read the table, once, and find out what is in it.

    Raises:
        ValueError: if the file or the wishes make no sense; the sentence says why.
    """
    begin = time.monotonic()
    if not 0.0 < order.test < 1.0:
        raise ValueError(
            f"--test must lie between 0 and 1, got {order.test}: held-out rows tell how good the result is"
        )
    if order.target in order.drop:
        raise ValueError(f"{order.target!r} is the target and cannot be dropped")
    recipe_of(order.method, Numbers(order.epochs))
    table = read_table(order.path)
    problem = pose(table, order.target, task=order.task, kinds=dict.fromkeys(order.drop, Kind.IDENTIFIER))
    classes = words(problem.frame[order.target]).astype(str) if problem.task is Task.CLASSIFICATION else None
    parts = split(len(problem.frame), test=order.test, seed=order.seed, classes=classes)
    _check_lesson(problem, parts, order.test)
    return Found(order, table, problem, parts, begin)


def _check_lesson(problem: Problem, parts: Split, test: float) -> None:
    """Refuse before training what would fail after it: too few rows to learn from, or a target without a scale."""
    if len(parts.train) < LEAST:
        raise ValueError(
            f"--test {test:g} leaves {len(parts.train)} of {len(problem.frame)} rows to learn from, and at least "
            f"{LEAST} are needed: hold out fewer"
        )
    if problem.task is Task.CLASSIFICATION:
        return
    known = numbers(problem.frame[problem.target])[parts.train]
    largest, varies = float(np.abs(known).max()), float(np.ptp(known / 2.0)) * 2.0
    if not SMALLEST < varies <= largest * 2.0 < 1.0 / SMALLEST:
        raise ValueError(
            f"column {problem.target!r} varies by {varies:.3g} in the {len(known)} rows to learn from (numbers up to "
            f"{largest:.3g}), which cannot be computed with: multiply it by a power of ten, or check its unit"
        )
    if varies <= 1e-7 * largest:
        raise ValueError(
            f"column {problem.target!r} varies by {varies:.3g} around {largest:.3g} in the rows to learn from, too "
            "little to predict: subtract a constant from it"
        )


def train_and_judge(found: Found, told: Told | None = None, folder: Path | None = None) -> Fitted:
    """Train on some rows and evaluate on the others.

    Args:
        found: the table.
        told: called from time to time in training.
        folder: where the training is saved as it goes, and gone on with.
    """
    order, problem, parts = found.order, found.problem, found.parts
    encoder = Encoder.fit(problem, parts.train)
    trained, held = (problem.frame.iloc[rows].reset_index(drop=True) for rows in (parts.train, parts.test))
    posterior, lesson = _trained(encoder, trained, order, told, folder)
    evaluation = _judged(found, posterior, lesson, encoder, trained, held)
    answers = answer(posterior, encoder, evaluation, held).frame
    rows = file_rows(found.table, problem)[parts.test]
    predictions = pd.concat([pd.DataFrame({"row": rows, "observed": held[order.target]}), answers], axis=1)
    return Fitted(posterior, encoder, evaluation, predictions, _story(found, lesson))


def _trained(
    encoder: Encoder, frame: pd.DataFrame, order: Order, told: Told | None, folder: Path | None
) -> tuple[Posterior, Lesson]:
    x, y = encoder.encode(frame).x, encoder.encode_target(frame)
    own = BayesianRegressor().get_params()  # the defaults of the estimators are those of the command line
    wished = Numbers(order.epochs, own["learning_rate"], own["batch_size"], own["members"])
    how = recipe_of(order.method, wished)
    if isinstance(encoder.target, ClassTarget):
        model = table_model(
            x.shape[1], len(encoder.target.classes), Categorical(), how, own["hidden"], own["activation"]
        )
    else:
        model = table_model(x.shape[1], 2, HeteroscedasticGaussian(FLOOR), how, own["hidden"], own["activation"])
    learnt = learn(model, x, y, how, seed=order.seed, told=told, folder=folder)
    assert learnt.epochs is not None  # a method by name has epochs
    chosen, limit = learnt.held_out is not None, wished.limit(len(x))
    return learnt.posterior, Lesson(learnt.epochs - learnt.cooling, learnt.cooling, limit, chosen)


def _judged(
    found: Found, posterior: Posterior, lesson: Lesson, encoder: Encoder, trained: pd.DataFrame, held: pd.DataFrame
) -> Evaluation:
    x, target = encoder.encode(held).x, encoder.target
    known, seen = (_observed(encoder, frame) for frame in (trained, held))
    if isinstance(target, ClassTarget):
        naive: Predictive = naive_classes(known, len(target.classes), len(seen))
    else:
        naive = naive_numbers(known, len(seen))
    inputs = [column.name for column in encoder.inputs]
    case = HeldOut(
        prediction=_predicted(posterior, x, encoder),
        plain=[_predicted(single, x, encoder) for single in _singles(posterior)],
        naive=naive,
        y=seen,
        row=file_rows(found.table, found.problem)[found.parts.test],
        inputs=held[inputs],
        trained=trained[inputs],
        target=target.name,
        classes=target.classes if isinstance(target, ClassTarget) else (),
        record=posterior.record,
        plain_share=_plain_share(posterior, len(trained), x.shape[1]),
        lesson=lesson,
    )
    return evaluate(case, found.order.seed)


def _observed(encoder: Encoder, frame: pd.DataFrame) -> Tensor:
    """Targets in their own units, (B,), or class numbers."""
    values = encoder.encode_target(frame)
    if isinstance(encoder.target, NumericTarget):
        return torch.as_tensor(encoder.target.decode(values.double().squeeze(1)))
    return values


def _predicted(posterior: Posterior, x: Tensor, encoder: Encoder) -> Predictive:
    prediction, target = predict_exactly(posterior, x), encoder.target
    if isinstance(target, ClassTarget):
        return prediction
    return in_units(prediction, np.array([target.mean]), np.array([target.scale]))


def _singles(posterior: Posterior) -> Sequence[Posterior]:
    """Every member as a plain network of its own; none where the posterior is one."""
    points = posterior.point()
    if isinstance(posterior, Draws) and points.members == 1:
        return ()
    each = (points.take([member]) for member in range(points.members))
    return [Draws(posterior.model, one, Draws.uniform(one)) for one in each]


def _plain_share(posterior: Posterior, rows: int, features: int) -> float:
    """Part of the training rows that one network has learnt from: members of an ensemble each hold some out."""
    members = posterior.point().members
    if members == 1 or rows < FEW_ROWS:
        return 1.0
    return 1.0 - 1.0 / members if rows * features * members <= LARGEST_COPY else 0.9


def file_rows(table: Table, problem: Problem) -> NDArray[np.int64]:
    """The numbers in the file, from 1, of the rows that could be used: rows are left out by their target alone."""
    usable = table.frame[problem.target].isin(problem.frame[problem.target].unique()).to_numpy()
    return np.flatnonzero(usable) + 1


def _story(found: Found, lesson: Lesson) -> Story:
    order, problem = found.order, found.problem
    return Story(
        source=order.path.name,
        rows=len(problem.frame),
        target=order.target,
        columns=columns_told(problem.columns),
        notes=problem.notes,
        method=order.method,
        test=order.test,
        seed=order.seed,
        seconds=time.monotonic() - found.begin,
        created=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        credo=version("credo"),
        lesson=lesson,
    )
