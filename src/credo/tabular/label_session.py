"""A session of labeling on disk: what was asked, what was answered, and the files that a person reads and fills in."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from credo.core.storage import SCHEMA, StorageError, find, read_json, write_folder
from credo.data import DataError, Task
from credo.data.reading import InputTable, read_table
from credo.data.values import words
from credo.decide import Acquisition

SESSION, TO_LABEL, LABELS, GUESSES = "session.json", "to-label.csv", "labels.csv", "predictions.csv"
ROW = "pool row"
"""The column that says which row of the pool a label belongs to, counted from 1."""

METHODS = ("ensemble", "dropout", "vi")
"""Methods that have several draws, which can disagree."""
JUDGED = 0.2
"""Part of the rows asked for that is drawn at random, to judge by."""


@dataclass(frozen=True)
class LabelRequest:
    """What the user wants to know of a pool, the same in every round.

    Attributes:
        target: name of the column of labels.
        method: ensemble, dropout or vi.
        acquisition: what makes a row worth asking for.
        task: None decides by the labels.
        judged: part of the rows asked for that is drawn at random, and judged by instead of learned from.
        seed: every stream of randomness derives from it.
        drop: names of columns that must not be used.
    """

    target: str = "label"
    method: str = "ensemble"
    acquisition: str = Acquisition.BATCH_BALD
    task: Task | None = None
    judged: float = JUDGED
    seed: int = 0
    drop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.target == ROW:
            raise ValueError(f"{ROW!r} is what credo writes row numbers to: call the labels something else (--target)")
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, which have draws, got {self.method!r}")
        if self.acquisition not in list(Acquisition):
            raise ValueError(f"acquisition must be one of {', '.join(Acquisition)}, got {self.acquisition!r}")
        if not 0.0 <= self.judged < 1.0:
            raise ValueError(f"the part of the rows to judge by must be from 0 to below 1, got {self.judged}")

    def settings(self, pool: InputTable) -> dict[str, Any]:
        """What a session must keep, by the names that the user knows."""
        return {
            "pool": pool_settings(pool, self.target),
            "--target": self.target,
            "--method": self.method,
            "--acquisition": str(self.acquisition),
            "--judge": self.judged,
            "--seed": self.seed,
            "--drop": " --drop ".join(sorted(set(self.drop))) or None,
        }


@dataclass(frozen=True)
class GivenLabel:
    """The label of a row.

    Attributes:
        text: as it was given.
        judge: whether the row was drawn at random, to judge by; it is not learned from.
    """

    text: str
    judge: bool = False


@dataclass(frozen=True)
class LabelSession:
    """What was asked and answered so far.

    Attributes:
        settings: what must stay the same.
        answers: by the numbers of the rows of the pool, from 0.
        asked: the rows of the file that was last written, and whether they are to judge by.
        waiting: whether that file waits for answers.
        learned: number of labels that were learned from, for each training.
        task: what the labels are, once there were enough to say.
    """

    settings: dict[str, Any]
    answers: dict[int, GivenLabel] = field(default_factory=dict)
    asked: dict[int, bool] = field(default_factory=dict)
    waiting: bool = False
    learned: tuple[int, ...] = ()
    task: Task | None = None

    @property
    def to_learn(self) -> dict[int, str]:
        """Labels to learn from, by their rows."""
        return {row: answer.text for row, answer in sorted(self.answers.items()) if not answer.judge}

    @property
    def to_judge(self) -> dict[int, str]:
        """Labels to judge by, by their rows."""
        return {row: answer.text for row, answer in sorted(self.answers.items()) if answer.judge}

    @property
    def key(self) -> str:
        """A short text that differs when a label differs."""
        return hashlib.blake2b(repr(sorted(self.to_learn.items())).encode(), digest_size=4).hexdigest()

    def with_answers(self, given: dict[int, str]) -> LabelSession:
        """With answers to what was asked, and corrections of earlier ones."""
        new = {
            row: GivenLabel(text, self.answers[row].judge if row in self.answers else self.asked.get(row, False))
            for row, text in given.items()
        }
        return replace(self, answers={**self.answers, **new}, waiting=False)


def pool_settings(pool: InputTable, target: str) -> dict[str, Any]:
    """What tells a pool from others: its columns, and its cells but for the labels."""
    frame = pool.frame.drop(columns=target, errors="ignore")
    digest = hashlib.blake2b(frame.to_csv(index=False).encode(), digest_size=16).hexdigest()
    return {"columns": [str(name) for name in frame.columns], "rows": len(frame), "cells": digest}


def open_session(folder: Path, settings: dict[str, Any], pool: str) -> LabelSession:
    """The session of a folder, or a fresh one.

    Args:
        folder: of the session.
        settings: what must be the same as when it began: "pool", and options by their names at the command line.
        pool: what the table is called, for sentences.

    Raises:
        StorageError: if it is another session, or damaged.
        DataError: if the pool is not the one that it began with.
    """
    if find(folder, SESSION) is None:
        if folder.is_dir() and any(folder.iterdir()):
            raise StorageError(f"{folder} holds other files, which are not touched: choose another folder (--out)")
        return LabelSession(settings)
    data = read_json(folder, SESSION)
    try:
        before = data["settings"]
        session = LabelSession(
            before,
            {int(row): GivenLabel(str(text), bool(judge)) for row, (text, judge) in data["answers"].items()},
            {int(row): bool(judge) for row, judge in data["asked"].items()},
            bool(data["waiting"]),
            tuple(int(count) for count in data["learned"]),
            None if data["task"] is None else Task(data["task"]),
        )
        _check_pool(before["pool"], settings["pool"], folder, pool)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, DataError | StorageError):
            raise
        raise StorageError(f"{folder / SESSION} is damaged ({error!r})") from None
    for name, value in settings.items():
        if before.get(name) != value:
            raise StorageError(
                f"the session in {folder} was begun with {name} {before.get(name)}, and now it is {value}: give the "
                "option of the first call, or another folder (--out)"
            )
    return session


def _check_pool(before: dict[str, Any], now: dict[str, Any], folder: Path, pool: str) -> None:
    if before == now:
        return
    kept = f"the session in {folder} is as it was"
    gone, new = (sorted(set(a["columns"]) - set(b["columns"])) for a, b in ((before, now), (now, before)))
    if gone or new:
        parts = [f"lacks {', '.join(map(repr, gone))}"] * bool(gone) + [f"has {', '.join(map(repr, new))}"] * bool(new)
        raise DataError(f"{pool} is not the pool of this session: it {' and '.join(parts)}; {kept}")
    if before["rows"] != now["rows"]:
        raise DataError(f"{pool} has {now['rows']:,} rows, and the pool of this session {before['rows']:,}; {kept}")
    raise DataError(f"{pool} has other cells, or another order, than when this session began; {kept}")


def save_session(folder: Path, session: LabelSession, texts: dict[str, str]) -> None:
    """Write the session and other files, all in one instant."""
    data = {
        "schema": SCHEMA,
        "settings": session.settings,
        "answers": {str(row): [answer.text, answer.judge] for row, answer in session.answers.items()},
        "asked": {str(row): judge for row, judge in session.asked.items()},
        "waiting": session.waiting,
        "learned": list(session.learned),
        "task": None if session.task is None else session.task.value,
    }
    write_folder(folder, {**texts, SESSION: json.dumps(data, ensure_ascii=False, indent=0) + "\n"}, {})


def read_answers(folder: Path, session: LabelSession, target: str) -> dict[int, str]:
    """What a person has filled in and the session does not have yet.

    Raises:
        DataError: if the file is not the one that was written, or has labels for rows that nobody asked about.
    """
    path = find(folder, TO_LABEL)
    if path is None or not session.asked:
        return {}
    name, table = folder / TO_LABEL, read_table(path, verbatim=(target,))
    kept = "nothing was taken from it, and the session is as it was"
    for column in (ROW, target):
        if column not in table.frame.columns:
            raise DataError(f"{name} has no column {column!r} any more; {kept}. Put it back, or delete the file")
    texts = words(table.frame[target])
    given: dict[int, str] = {}
    for cell, text in zip(words(table.frame[ROW]), texts, strict=True):
        if text is None or not str(text).strip():
            continue
        row = int(cell) - 1 if str(cell).isdecimal() else -1
        if row not in session.asked and row not in session.answers:
            raise DataError(
                f"{name} has a label for row {cell}, which nobody asked about; {kept}. Remove that line, or delete the "
                "file: the same command writes it again"
            )
        if given.get(row, text) != text:
            raise DataError(f"{name} has two labels for row {cell}, {given[row]!r} and {text!r}; {kept}")
        given[row] = str(text)
    return {row: text for row, text in given.items() if row not in session.answers or session.answers[row].text != text}


def question_text(pool: InputTable, rows: list[int], target: str) -> str:
    """The file that a person fills in: the rows in the order of the pool, with an empty cell for each label."""
    return _with_rows(pool, sorted(rows), target, [""] * len(rows)).to_csv(index=False)


def labels_text(pool: InputTable, session: LabelSession, target: str) -> str:
    """All labeled rows as a table that `credo fit` takes."""
    rows = sorted(session.answers)
    return _with_rows(pool, rows, target, [session.answers[row].text for row in rows]).to_csv(index=False)


def _with_rows(pool: InputTable, rows: list[int], target: str, texts: list[str]) -> pd.DataFrame:
    frame = pool.frame.drop(columns=target, errors="ignore").iloc[rows].reset_index(drop=True)
    frame.insert(0, target, texts)
    frame.insert(0, ROW, [row + 1 for row in rows])
    return frame
