"""Labeling a table in rounds: ask for the rows that tell most, learn from the answers, ask again."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from credo.core.checks import whole_number
from credo.core.rng import Stream
from credo.core.storage import find, read_text
from credo.core.threads import one_thread
from credo.data import DataError, Task
from credo.data.columns import fit_column
from credo.data.encoder import CATEGORIES, ClassTarget, Encoder, NumericTarget, natural_order
from credo.data.problem import Column, Kind, column_of, task_of
from credo.data.reading import InputTable, read_table, table_of
from credo.data.scaling import mean_and_scale
from credo.data.values import infinities, numbers, words
from credo.decide import Acquisition, acquire
from credo.likelihoods import Categorical, HeteroscedasticGaussian
from credo.posteriors import Posterior
from credo.predictive import Predictive
from credo.tabular.label_curve import Labeling, curve_point
from credo.tabular.label_session import (
    GUESSES,
    JUDGED,
    LABELS,
    ROW,
    TO_LABEL,
    LabelRequest,
    LabelSession,
    labels_text,
    open_session,
    question_text,
    read_answers,
    save_session,
)
from credo.tabular.loading import LEAST
from credo.tabular.predictions import CHUNK, FAR
from credo.tabular.recipes import SMALLEST_NOISE, Recipe, Settings, recipe_of, table_model
from credo.tabular.training import learn

DRAWS = 100
"""Of methods that have any number of them."""


def label_table(
    pool: pd.DataFrame | str | Path,
    out: str | Path,
    *,
    ask: int = 20,
    target: str = "label",
    method: str = "ensemble",
    acquisition: Acquisition | str = Acquisition.BATCH_BALD,
    task: Task | None = None,
    judged: float = JUDGED,
    seed: int = 0,
    drop: Sequence[str] = (),
) -> Labeling:
    """One round of labeling: take the answers of the last one, learn from them, and write the rows to label next.

    The folder has `to-label.csv`, to be filled in; `labels.csv`, all labeled rows, which `fit_table` takes; and
    `predictions.csv`, what was predicted for each row in each round. Every answer is on disk before anything is
    trained, and the same call goes on wherever it was broken off.

    Args:
        pool: a data frame, or a CSV or Parquet file. Labels that it has in the column `target` are learned from.
        out: folder of the session.
        ask: rows to ask for.
        target: name of the column of labels.
        method: ensemble, dropout or vi.
        acquisition: what makes a row worth asking for.
        task: regression or classification; None decides by the labels.
        judged: part of the rows asked for that is drawn at random and never learned from: chosen rows are no fair
            sample, so an accuracy can be had from these alone.
        seed: the same seed and the same answers give the same questions.
        drop: names of columns that must not be used.

    Raises:
        DataError: if the pool, or what was filled in, makes no sense; the session is then as it was before.

    Examples:
        >>> import pandas, tempfile
        >>> from credo.tabular import label_table
        >>> flowers = pandas.DataFrame({"length": range(30), "width": range(30, 0, -1)})
        >>> folder = tempfile.mkdtemp() + "/labels"
        >>> first = label_table(flowers, folder, ask=10)
        >>> len(first.asked), first.learned
        (10, 0)
    """
    request = LabelRequest(target, method, acquisition, task, judged, seed, tuple(drop))
    ask, folder = whole_number("ask", ask), Path(out)
    table = table_of(pool, "the pool") if isinstance(pool, pd.DataFrame) else read_table(pool)
    job = _Job(request, table, folder, _inputs(table, request))
    session = open_session(folder, request.settings(table), table.source)
    given = {**job.labels_of_pool(session), **read_answers(folder, session, target)}
    if session.waiting and not given:
        if find(folder, TO_LABEL) is None:
            save_session(folder, session, {TO_LABEL: question_text(table, list(session.asked), target)})
        return job.state(session, 0, ())
    if not given and session.learned[-1:] == (len(session.to_learn),) and len(session.answers) == len(table.frame):
        return job.state(session, 0, ())  # the pool is used up, and all of it was learned from
    session, notes = job.checked(session.with_answers(given))
    save_session(folder, session, {LABELS: labels_text(table, session, target)} if session.answers else {})
    with one_thread():
        session, more = job.asked(session, ask)
    return job.state(session, len(given), (*notes, *more))


def _inputs(table: InputTable, request: LabelRequest) -> tuple[Column, ...]:
    """What the columns of the pool are."""
    if ROW in table.frame.columns:
        raise DataError(f"{table.source} has a column {ROW!r}, which is what credo writes row numbers to: rename it")
    absent = [name for name in request.drop if name not in table.frame.columns]
    if absent:
        raise DataError(f"{table.source} has no column {absent[0]!r} to drop")
    others = [name for name in table.frame.columns if name != request.target]
    columns = tuple(column_of(table.frame[n], Kind.IDENTIFIER if n in request.drop else None) for n in others)
    if not any(column.used for column in columns):
        raise DataError(f"{table.source} has no column to learn from")
    return columns


@dataclass(frozen=True, eq=False)
class _Job:
    """A round on one pool."""

    request: LabelRequest
    pool: InputTable
    folder: Path
    columns: tuple[Column, ...]

    def labels_of_pool(self, session: LabelSession) -> dict[int, str]:
        """Labels that the pool itself has and the session has not."""
        if self.request.target not in self.pool.frame.columns:
            return {}
        cells = enumerate(words(self.pool.frame[self.request.target]))
        return {row: str(text) for row, text in cells if text is not None and row not in session.answers}

    def checked(self, session: LabelSession) -> tuple[LabelSession, tuple[str, ...]]:
        """With what the labels are, where there are enough to say; no number among numbers is refused."""
        texts, notes = [answer.text for answer in session.answers.values()], tuple[str, ...]()
        cells = pd.Series(texts, name=self.request.target, dtype=object)
        task = self.request.task or session.task
        if task is None and len(texts) >= LEAST:
            task, why = task_of(cells)
            notes = (f"{task.value}, because {why}; --task (task=) says otherwise",)
        bad = np.isnan(numbers(cells)) if task is Task.REGRESSION else np.zeros(len(texts), dtype=bool)
        if bad.any():
            row, text = list(session.answers)[int(bad.argmax())], texts[int(bad.argmax())]
            raise DataError(
                f"row {row + 1} has the label {text!r}, and the labels are numbers; nothing was taken. Correct it, or "
                "say --task classification (task=)"
            )
        return replace(session, task=task), notes

    def asked(self, session: LabelSession, count: int) -> tuple[LabelSession, tuple[str, ...]]:
        """Learn, and write down what to ask next."""
        stream = Stream(self.request.seed, ("label", len(session.answers)))
        left = [row for row in range(len(self.pool.frame)) if row not in session.answers]
        order = Stream(self.request.seed, ("label", "judge")).permutation(len(self.pool.frame)).tolist()
        free = set(left)
        judged = min(round(self.request.judged * min(count, len(left))), len(left))
        judges = [row for row in order if row in free][:judged]
        others = sorted(free - set(judges))
        posterior, encoder, notes = self.learned(session)
        texts = {}
        if posterior is not None:
            texts[GUESSES] = self.guesses(posterior, encoder)
            session = replace(session, learned=(*session.learned, len(session.to_learn)))
        chosen = self.chosen(posterior, encoder, others, min(count, len(left)) - judged, stream)
        asked = {**dict.fromkeys(judges, True), **dict.fromkeys(chosen, False)}
        session = replace(session, asked=asked, waiting=bool(asked))
        texts[TO_LABEL] = question_text(self.pool, list(asked), self.request.target)
        save_session(self.folder, session, texts)
        for old in self.folder.glob("training-*"):
            shutil.rmtree(old, ignore_errors=True)
        return session, notes

    def learned(self, session: LabelSession) -> tuple[Posterior | None, Encoder, tuple[str, ...]]:
        """The posterior after all answers, where there are enough."""
        texts, task = session.to_learn, session.task
        answers = pd.Series(list(texts.values()), name=self.request.target, dtype=object)
        distinct = len(set(texts.values()))
        if len(texts) < LEAST or distinct < 2 or task is None:
            few = f"{len(texts)} labels to learn from, of {distinct} kind(s)"
            note = (
                "the first rows are drawn at random"
                if not texts
                else f"{few}: until there are {LEAST} of two kinds, rows are asked for at random"
            )
            return None, self.encoder(NumericTarget(self.request.target, 0.0, 1.0)), (note,)
        recipe = recipe_of(self.request.method, Settings())
        assert isinstance(recipe, Recipe)
        target: NumericTarget | ClassTarget
        if task is Task.CLASSIFICATION:
            target = ClassTarget(self.request.target, tuple(sorted(set(texts.values()), key=natural_order)))
        else:
            mean, scale = mean_and_scale(numbers(answers))
            target = NumericTarget(self.request.target, float(mean), float(scale))
        encoder = self.encoder(target)
        x, y = encoder.encode(self.pool.frame.iloc[list(texts)]).x, target.encode(answers)
        likelihood = Categorical() if isinstance(target, ClassTarget) else HeteroscedasticGaussian(SMALLEST_NOISE)
        outputs = len(target.classes) if isinstance(target, ClassTarget) else 2
        model = table_model(x.shape[1], outputs, likelihood, recipe)
        training = self.folder / f"training-{session.key}"
        seed = Stream(self.request.seed, ("label", "training", len(session.learned))).key() % 2**31
        try:
            found = learn(model, x, y, recipe, seed=seed, folder=training)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("every label is kept, and the same command goes on") from None
        return found.posterior, encoder, ()

    def encoder(self, target: NumericTarget | ClassTarget) -> Encoder:
        """Of the whole pool, which is known from the beginning."""
        frame, used = self.pool.frame, [column for column in self.columns if column.used]
        inputs = [
            fit_column(
                column,
                frame[column.name],
                CATEGORIES,
                column.kind is Kind.NUMERIC and bool(np.isinf(infinities(frame[column.name])).any()),
            )
            for column in used
        ]
        return Encoder(tuple(inputs), target, tuple(c.name for c in self.columns if not c.used))

    def predicted(self, posterior: Posterior, encoder: Encoder, rows: Sequence[int]) -> Predictive:
        """The predictive of some rows of the pool."""
        x = encoder.encode(self.pool.frame.iloc[list(rows)]).x.clamp(-FAR, FAR)
        draws = None if self.request.method == "ensemble" else DRAWS
        return posterior.predict(x, draws)

    def chosen(
        self, posterior: Posterior | None, encoder: Encoder, rows: list[int], count: int, stream: Stream
    ) -> list[int]:
        """Which of these rows to ask for."""
        if count <= 0:
            return []
        order = stream.child("candidates").permutation(len(rows)).tolist()
        if posterior is None:
            return [rows[i] for i in order[:count]]
        some = sorted(rows[i] for i in order[:CHUNK])
        prediction = self.predicted(posterior, encoder, some)
        picks = acquire(prediction, count, self.request.acquisition, stream.child("acquire").key())
        return [some[i] for i in picks.tolist()]

    def guesses(self, posterior: Posterior, encoder: Encoder) -> str:
        """What was predicted for each row in each round, as a table."""
        size, found = len(self.pool.frame), list[Any]()
        for start in range(0, size, CHUNK):
            prediction = self.predicted(posterior, encoder, range(start, min(start + CHUNK, size)))
            mean = prediction.mean
            found.extend(encoder.target.decode(_points(mean, encoder)))
        before = self.past()
        name = f"round {len(before.columns) + 1}"
        return before.assign(**{name: found}).to_csv(index=False)

    def past(self) -> pd.DataFrame:
        """The predictions of the rounds so far, as text."""
        if find(self.folder, GUESSES) is None:
            return pd.DataFrame(index=range(len(self.pool.frame)))
        return pd.read_csv(io.StringIO(read_text(self.folder, GUESSES)), dtype=str, keep_default_na=False)

    def state(self, session: LabelSession, taken: int, notes: tuple[str, ...]) -> Labeling:
        task, past = session.task, self.past()
        rounds = zip(session.learned, past.columns, strict=True) if session.to_judge else ()
        points = (curve_point(labels, past[name], session.to_judge, task) for labels, name in rounds)
        curve = tuple(point for point in points if np.isfinite(point.score))
        asked = tuple(row + 1 for row in sorted(session.asked)) if session.waiting else ()
        learned, judged = len(session.to_learn), len(session.to_judge)
        return Labeling(self.folder, asked, learned, judged, taken, task, curve, (*self.pool.notes, *notes))


def _points(mean: Tensor, encoder: Encoder) -> Any:
    """Class numbers, or standardized numbers."""
    return mean.argmax(1).numpy() if isinstance(encoder.target, ClassTarget) else mean.double().reshape(-1).numpy()
