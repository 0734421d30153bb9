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

from credo.core.checks import whole_number
from credo.core.rng import Stream
from credo.core.storage import find, read_text
from credo.core.threads import one_thread
from credo.data import DataError, Task
from credo.data.problem import task_of
from credo.data.reading import read_table, table_of
from credo.data.values import numbers, words
from credo.decide import Acquisition, acquire
from credo.tabular.label_curve import Labeling, curve_point
from credo.tabular.label_pool import LabelPool, LearnedPool, TablePool
from credo.tabular.label_session import (
    GUESSES,
    JUDGED,
    LABELS,
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
from credo.tabular.predictions import CHUNK


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
    folder = Path(out)
    table = table_of(pool, "the pool") if isinstance(pool, pd.DataFrame) else read_table(pool)
    return label_rows(TablePool.of(table, request), folder, ask)


def label_rows(pool: LabelPool, folder: Path, ask: int) -> Labeling:
    """The same for any pool.

    Args:
        pool: the rows, and what is wanted.
        folder: of the session.
        ask: rows to ask for.
    """
    ask, job, table, request = whole_number("ask", ask), _Job(pool, folder), pool.table, pool.request
    target = request.target
    session = open_session(folder, pool.settings, table.source)
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


@dataclass(frozen=True, eq=False)
class _Job:
    """A round on one pool."""

    pool: LabelPool
    folder: Path

    @property
    def request(self) -> LabelRequest:
        return self.pool.request

    @property
    def frame(self) -> pd.DataFrame:
        return self.pool.table.frame

    def labels_of_pool(self, session: LabelSession) -> dict[int, str]:
        """Labels that the pool itself has and the session has not."""
        if self.request.target not in self.frame.columns:
            return {}
        cells = enumerate(words(self.frame[self.request.target]))
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
        left = [row for row in range(len(self.frame)) if row not in session.answers]
        order = Stream(self.request.seed, ("label", "judge")).permutation(len(self.frame)).tolist()
        free = set(left)
        judged = min(round(self.request.judged * min(count, len(left))), len(left))
        judges = [row for row in order if row in free][:judged]
        others = sorted(free - set(judges))
        learned, notes = self.learned(session)
        texts = {}
        if learned is not None:
            texts[GUESSES] = self.guesses(learned)
            session = replace(session, learned=(*session.learned, len(session.to_learn)))
        chosen = self.chosen(learned, others, min(count, len(left)) - judged, stream)
        asked = {**dict.fromkeys(judges, True), **dict.fromkeys(chosen, False)}
        session = replace(session, asked=asked, waiting=bool(asked))
        texts[TO_LABEL] = question_text(self.pool.table, list(asked), self.request.target)
        save_session(self.folder, session, texts)
        for old in self.folder.glob("training-*"):
            shutil.rmtree(old, ignore_errors=True)
        return session, notes

    def learned(self, session: LabelSession) -> tuple[LearnedPool | None, tuple[str, ...]]:
        """What is believed after all answers, where there are enough."""
        labels, task = session.to_learn, session.task
        if not labels:
            return None, ("the first rows are drawn at random",)
        distinct = len(set(labels.values()))
        if len(labels) < LEAST or distinct < 2 or task is None:
            few = f"{len(labels)} labels to learn from, of {distinct} kind(s)"
            return None, (f"{few}: until there are {LEAST} of two kinds, rows are asked for at random",)
        seed = Stream(self.request.seed, ("label", "training", len(session.learned))).key() % 2**31
        try:
            return self.pool.learned(labels, task, seed, self.folder / f"training-{session.key}"), ()
        except KeyboardInterrupt:
            raise KeyboardInterrupt("every label is kept, and the same command goes on") from None

    def chosen(self, learned: LearnedPool | None, rows: list[int], count: int, stream: Stream) -> list[int]:
        """Which of these rows to ask for."""
        if count <= 0:
            return []
        order = stream.child("candidates").permutation(len(rows)).tolist()
        if learned is None:
            return [rows[i] for i in order[:count]]
        some = sorted(rows[i] for i in order[:CHUNK])
        picks = acquire(learned.predict(some), count, self.request.acquisition, stream.child("acquire").key())
        return [some[i] for i in picks.tolist()]

    def guesses(self, learned: LearnedPool) -> str:
        """What was predicted for each row in each round, as a table."""
        size, found = len(self.frame), list[Any]()
        for start in range(0, size, CHUNK):
            found.extend(learned.decode(learned.predict(range(start, min(start + CHUNK, size)))))
        before = self.past()
        name = f"round {len(before.columns) + 1}"
        return before.assign(**{name: found}).to_csv(index=False)

    def past(self) -> pd.DataFrame:
        """The predictions of the rounds so far, as text."""
        if find(self.folder, GUESSES) is None:
            return pd.DataFrame(index=range(len(self.frame)))
        return pd.read_csv(io.StringIO(read_text(self.folder, GUESSES)), dtype=str, keep_default_na=False)

    def state(self, session: LabelSession, taken: int, notes: tuple[str, ...]) -> Labeling:
        task, past = session.task, self.past()
        rounds = zip(session.learned, past.columns, strict=True) if session.to_judge else ()
        points = (curve_point(labels, past[name], session.to_judge, task) for labels, name in rounds)
        curve = tuple(point for point in points if np.isfinite(point.score))
        asked = tuple(row + 1 for row in sorted(session.asked)) if session.waiting else ()
        learned, judged = len(session.to_learn), len(session.to_judge)
        return Labeling(self.folder, asked, learned, judged, taken, task, curve, (*self.pool.table.notes, *notes))
