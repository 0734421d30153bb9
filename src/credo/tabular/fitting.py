"""The table job as one call: read, divide, train, evaluate on the rows that were held out, save."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import monotonic

import numpy as np
import pandas as pd
import torch
from torch import Tensor, as_tensor

from credo.core.folders import check_folder, save_or_rescue
from credo.core.threads import one_thread
from credo.data import Task
from credo.data.encoder import ClassTarget, Encoder, NumericTarget
from credo.data.splits import Index
from credo.data.values import numbers
from credo.evaluation.evaluate import HeldOutRows, evaluate
from credo.evaluation.metadata import RunMetadata, TrainingLength, columns_metadata
from credo.evaluation.scores import naive_classes, naive_numbers
from credo.evaluation.values import Evaluation
from credo.posteriors import Calibrated, Posterior
from credo.posteriors.draws import Draws
from credo.predictive import ClassPredictive, Predictive
from credo.tabular.calibrating import CalibratedFit, OutOfFold, calibrated
from credo.tabular.choosing import TableRows
from credo.tabular.designing import design_table
from credo.tabular.examining import Examination
from credo.tabular.loading import FitRequest, LoadedTable, load_table
from credo.tabular.predictions import predict_exactly, predict_rows
from credo.tabular.recipes import Recipe, Settings, recipe_of
from credo.tabular.resuming import check_request, interruptible, save_request, training_folder
from credo.tabular.runs import TableRun
from credo.tabular.saving import save_run
from credo.tabular.supporting import support_of
from credo.tabular.training import FEW_ROWS, ValidationListener, learn
from credo.tabular.units import in_units
from credo.tabular.validation import LARGEST_COPY, held_out_parts
from credo.uncertainty.support import Support


def fit_table(
    table: pd.DataFrame | str | Path,
    target: str,
    *,
    method: str = "ensemble",
    out: str | Path | None = None,
    task: Task | str | None = None,
    test: float = 0.2,
    seed: int = 0,
    epochs: int | None = None,
    drop: Sequence[str] = (),
    weights: str | None = None,
    time: str | None = None,
    group: str | None = None,
    resume: bool = False,
    force: bool = False,
    on_loaded: Callable[[LoadedTable], None] | None = None,
    listener: ValidationListener | None = None,
) -> TableRun:
    """Learn from a table, and evaluate the result on rows that training has not seen.

    Finds out what the columns are, holds some rows out, trains a neural network with error bars on the others,
    evaluates it on the held-out rows and, where there is a folder, writes the run with a report for people.

    Args:
        table: a data frame, or a CSV or Parquet file.
        target: name of the column to predict.
        method: ensemble, map, dropout or vi.
        out: folder for the run; None saves nothing.
        task: regression or classification; None decides by the target.
        test: part of the rows that is held out.
        seed: the same seed gives the same numbers.
        epochs: at most so many passes over the data; None for as many as suit the table.
        drop: names of columns that must not be used.
        weights: name of the column that says how much each row counts, in training and in the scores: a weight of two
            is a row that comes twice. It is no input, and rows to predict need not have it.
        time: name of the column that orders the rows in time: it is trained on the past and tested on the future, as a
            model is that will be used for what comes. The column is no input.
        group: name of the column that says which rows belong together (a patient's visits): no group is on both sides,
            as where new patients will be predicted. The column is no input.
        resume: continue an interrupted training of this run, to the same numbers.
        force: replace a run that lies in the folder, and start over where a training was interrupted.
        on_loaded: called when the table is understood, before training.
        listener: called with a `ValidationPoint` at every validation.

    Returns:
        The run: its `evaluation`, `predict(rows)`, `posterior`, `report` and more.

    Raises:
        ValueError: if the table or the arguments make no sense; `StorageError` for the folder.
        SavedElsewhereError: if the folder could not be written after training; it has the run, in a temporary folder.
        KeyboardInterrupt: Ctrl-C; where there is a folder, the training so far is saved in it.

    Examples:
        >>> import pandas, torch
        >>> from credo.tabular import fit_table
        >>> town = ["Oslo", "Bergen", "Hamar"] * 20
        >>> frame = pandas.DataFrame({"size": torch.linspace(1, 3, 60).numpy(), "town": town})
        >>> frame["price"] = 2.0 * frame["size"] + (frame["town"] == "Oslo")
        >>> run = fit_table(frame, "price", epochs=20)
        >>> run.evaluation.held_out
        12
        >>> list(run.predict(frame.head(2)).columns[:4])
        ['mean', 'stddev', 'lower', 'upper']
    """
    request = FitRequest(target, method, _task(task), test, seed, epochs, tuple(drop), weights, time, group)
    if out is None:
        if resume:
            raise ValueError("resume=True needs out=, the folder of the run")
        with one_thread():
            return train_and_evaluate(_loaded(table, request, on_loaded), listener)
    folder = Path(out)
    check_folder(folder, force=force)
    training = training_folder(folder, resume=resume, force=force)
    check_request(training, request.options, folder)
    loaded = _loaded(table, request, on_loaded)
    with one_thread(), interruptible(training):
        save_request(training, request.options)
        done = train_and_evaluate(loaded, listener, training)
        run = save_or_rescue(partial(save_run, done), folder)
    shutil.rmtree(training, ignore_errors=True)
    return run


def _task(task: Task | str | None) -> Task | None:
    try:
        return None if task is None else Task(task)
    except ValueError:
        raise ValueError(f"task must be {' or '.join(repr(t.value) for t in Task)}, got {task!r}") from None


def _loaded(
    table: pd.DataFrame | str | Path, request: FitRequest, listener: Callable[[LoadedTable], None] | None
) -> LoadedTable:
    loaded = load_table(table, request)
    if listener is not None:
        listener(loaded)
    return loaded


def train_and_evaluate(
    loaded: LoadedTable, listener: ValidationListener | None = None, folder: Path | None = None
) -> TableRun:
    """Train on some rows and evaluate on the others.

    Args:
        loaded: the table.
        listener: called at every validation.
        folder: where the training is saved as it goes, and resumed from.
    """
    request, problem, parts = loaded.request, loaded.problem, loaded.parts
    encoder = Encoder.fit(problem, parts.train)
    trained, held_out = (problem.frame.iloc[rows].reset_index(drop=True) for rows in (parts.train, parts.test))
    groups = None if loaded.groups is None else loaded.groups[parts.train]
    fitted, length, encoder = _train(encoder, trained, request, listener, folder, groups)
    posterior, rows = fitted.posterior, loaded.file_rows[parts.test]
    evaluation = _evaluate(fitted, encoder, length, trained, held_out, rows, request)
    support = support_of(fitted, encoder, trained, request.seed)
    evaluation = replace(evaluation, judged=0 if support is None else int(support.judged))
    answers = predict_rows(posterior, encoder, evaluation, held_out, support=support).frame
    evaluation = _examined(loaded, posterior, encoder, evaluation, answers, length, support)
    observed = pd.DataFrame({"row": rows, "observed": held_out[request.target]})
    predictions = pd.concat([observed, answers], axis=1)
    return TableRun(posterior, encoder, evaluation, predictions, _metadata(loaded, length), support=support)


def _train(
    encoder: Encoder,
    frame: pd.DataFrame,
    request: FitRequest,
    listener: ValidationListener | None,
    folder: Path | None,
    groups: Index | None = None,
) -> tuple[CalibratedFit, TrainingLength, Encoder]:
    """Also the encoder with the target in the units that suit its noise."""
    settings = Settings(request.epochs)
    recipe = recipe_of(request.method, settings)
    assert isinstance(recipe, Recipe)
    x, y, seed = encoder.encode(frame).x, _targets(encoder, frame), request.seed
    rows = TableRows(x, y, _weights(frame, request), groups)
    table = design_table(encoder, rows, recipe, seed=seed, listener=listener, folder=folder)
    weights = rows.weights
    result = learn(
        table.model, x, table.y, recipe, weights=weights, groups=groups, seed=seed, listener=listener, folder=folder
    )
    assert result.epochs is not None  # a method by name has epochs
    chosen, limit = result.validation is not None, settings.limit(len(x))
    length = TrainingLength(result.epochs - result.cooling, result.cooling, limit, chosen)
    result = replace(result, posterior=table.design.noted(result.posterior))
    return calibrated(result, x, table.y, predict_exactly, weights=weights), length, table.encoder


def _targets(encoder: Encoder, frame: pd.DataFrame) -> Tensor:
    """In the units of the table, (N, 1) in float64, or class numbers (N,)."""
    if isinstance(encoder.target, ClassTarget):
        return encoder.encode_target(frame)
    encoder.encode_target(frame)  # says what is wrong with them
    return as_tensor(numbers(frame[encoder.target.name])).unsqueeze(1)


def _evaluate(
    fitted: CalibratedFit,
    encoder: Encoder,
    length: TrainingLength,
    trained: pd.DataFrame,
    held_out: pd.DataFrame,
    rows: np.ndarray,
    request: FitRequest,
) -> Evaluation:
    posterior, x, target = fitted.posterior, encoder.encode(held_out).x, encoder.target
    known, observed = (_observed(encoder, frame) for frame in (trained, held_out))
    if isinstance(target, ClassTarget):
        naive: Predictive = naive_classes(known, len(target.classes), len(observed), _weights(trained, request))
    else:
        naive = naive_numbers(known, len(observed), _weights(trained, request))
    inputs = [column.name for column in encoder.inputs]
    case = HeldOutRows(
        prediction=_predicted(posterior, x, encoder),
        plain=[_predicted(single, x, encoder) for single in _single_networks(posterior)],
        naive=naive,
        y=observed,
        row=rows,
        inputs=held_out[inputs],
        trained=trained[inputs],
        target=target.name,
        classes=target.classes if isinstance(target, ClassTarget) else (),
        record=posterior.record,
        plain_share=_plain_share(posterior, len(trained), x.shape[1]),
        training=length,
        weights=_weights(held_out, request),
        **_mistakes(fitted.unseen, encoder.encode_target(trained)),
    )
    return evaluate(case, request.seed)


def _mistakes(unseen: OutOfFold | None, y: Tensor) -> dict[str, Tensor]:
    """Doubt and mistakes of training rows, for classes, by networks that were not trained on them."""
    if unseen is None or not isinstance(unseen.parts[0], ClassPredictive):
        return {}
    probs = torch.cat([part.mean.double() for part in unseen.parts])
    wrong = probs.argmax(-1) != torch.cat(unseen.of(y))
    return {"unseen_doubt": 1.0 - probs.max(-1).values, "unseen_mistakes": wrong.double()}


def _examined(
    loaded: LoadedTable,
    posterior: Posterior,
    encoder: Encoder,
    evaluation: Evaluation,
    answers: pd.DataFrame,
    length: TrainingLength,
    support: Support | None,
) -> Evaluation:
    """The evaluation with what else held-out rows can tell."""
    parts = loaded.parts
    trained, held_out = (loaded.problem.frame.iloc[rows].reset_index(drop=True) for rows in (parts.train, parts.test))
    each = [_weights(frame, loaded.request) for frame in (trained, held_out)]
    examination = Examination(
        loaded=loaded,
        encoder=encoder,
        predict=lambda x: _predicted(posterior, x, encoder),
        answer=lambda rows: predict_rows(posterior, encoder, evaluation, rows, support=support).frame,
        answers=answers,
        trained=trained,
        held_out=held_out,
        known=_observed(encoder, trained),
        observed=_observed(encoder, held_out),
        weights=None if each[0] is None or each[1] is None else (each[0], each[1]),
    )
    return examination.of(evaluation, posterior.record, length)


def _weights(frame: pd.DataFrame, request: FitRequest) -> Tensor | None:
    """How much each of these rows counts, (B,); None for one each."""
    return None if request.weights is None else as_tensor(numbers(frame[request.weights]))


def _observed(encoder: Encoder, frame: pd.DataFrame) -> Tensor:
    """Targets in their own units, (B,), or class numbers."""
    values = encoder.encode_target(frame)
    if isinstance(encoder.target, NumericTarget):
        return as_tensor(encoder.target.decode(values.double().squeeze(1)))
    return values


def _predicted(posterior: Posterior, x: Tensor, encoder: Encoder) -> Predictive:
    prediction, target = predict_exactly(posterior, x), encoder.target
    if isinstance(target, ClassTarget):
        return prediction
    return in_units(prediction, np.array([target.mean]), np.array([target.scale]))


def _single_networks(posterior: Posterior) -> Sequence[Posterior]:
    """Every member as a network by itself; none where the posterior is one."""
    if isinstance(posterior, Calibrated):
        return _single_networks(posterior.base)
    points = posterior.members()
    if isinstance(posterior, Draws) and points.members == 1:
        return ()
    each = (points.take([member]) for member in range(points.members))
    return [Draws(posterior.model, one, Draws.uniform(one)) for one in each]


def _plain_share(posterior: Posterior, rows: int, features: int) -> float:
    """Part of the training rows that one network was trained on: members of an ensemble each validate on the rest."""
    members = posterior.members().members
    if members == 1 or rows < FEW_ROWS:
        return 1.0
    return 1.0 - held_out_parts(members) / members if rows * features * members <= LARGEST_COPY else 0.9


def _metadata(loaded: LoadedTable, length: TrainingLength) -> RunMetadata:
    request, problem = loaded.request, loaded.problem
    return RunMetadata(
        source=Path(loaded.table.source).name,
        rows=len(problem.frame),
        target=request.target,
        columns=columns_metadata(problem.columns),
        notes=problem.notes,
        method=request.method,
        test=request.test,
        seed=request.seed,
        seconds=monotonic() - loaded.started,
        created=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        credo=version("credo"),
        training=length,
        time=request.time,
        group=request.group,
    )
