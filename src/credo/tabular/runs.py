"""The run folder of a table: the posterior, what is known of the table, the evaluation and the report."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from credo.core.config import decode, encode
from credo.core.storage import SCHEMA, StorageError, find, read_json, write_folder
from credo.data.encoder import Encoder
from credo.posteriors import Posterior, load
from credo.posteriors.writing import CONFIG, ENVIRONMENT, HISTORY, STATE
from credo.tabular.evaluation import Evaluation
from credo.tabular.predictions import RISK, Answers, answer
from credo.tabular.story import KINDS, Story

TABLE, EVALUATION, PREDICTIONS, REPORT = "table.json", "evaluation.json", "predictions.csv", "report.html"
FILES = (TABLE, EVALUATION, PREDICTIONS, REPORT, CONFIG, STATE, HISTORY, ENVIRONMENT)
"""What a run folder holds."""
ROOM = 32 * 2**20
"""Bytes that must be free before training begins."""


@dataclass(frozen=True, eq=False)
class TableRun:
    """A posterior of a table, with all that is needed to predict new rows.

    Attributes:
        folder: where it lies.
        story: how it came about.
        encoder: how rows become inputs of the network.
        evaluation: what the held-out rows say.
    """

    folder: Path
    story: Story
    encoder: Encoder
    evaluation: Evaluation

    @cached_property
    def posterior(self) -> Posterior:
        """The posterior, for standardised inputs and targets."""
        return load(self.folder)

    def predict(self, rows: pd.DataFrame, *, level: float = 0.95, risk: float = RISK) -> pd.DataFrame:
        """One row of answers for each row; `answer` says what its columns are.

        Args:
            rows: with the columns of the training table, with or without the target.
            level: of the intervals.
            risk: part of mistakes among decided rows that is acceptable.
        """
        return self.answer(rows, level=level, risk=risk).frame

    def answer(self, rows: pd.DataFrame, *, level: float = 0.95, risk: float = RISK) -> Answers:
        """The same, with what was strange about the rows."""
        return answer(self.posterior, self.encoder, self.evaluation, rows, level=level, risk=risk)


def open_run(folder: str | Path) -> TableRun:
    """Read a run that `credo fit` wrote. Nothing in the folder can choose code to run.

    Raises:
        StorageError: if the folder is missing, damaged, from a newer credo, or something else.
    """
    path = Path(folder)
    if not path.is_dir():
        raise StorageError(f"{path} is not there: give the folder that `credo fit` wrote")
    if find(path, TABLE) is None:
        other = "the run of something else" if find(path, CONFIG) else "no run"
        raise StorageError(f"{path} holds {other}: give a folder that `credo fit` wrote")
    data = read_json(path, TABLE)
    try:
        story, encoder = decode(data["story"], KINDS), Encoder.from_json(data["encoder"])
    except (KeyError, TypeError, AttributeError) as error:
        raise StorageError(f"{path / TABLE} is damaged ({error!r})") from None
    if not isinstance(story, Story):
        raise StorageError(f"{path / TABLE} is damaged: it does not say how the run came about")
    return TableRun(path, story, encoder, Evaluation.from_json(read_json(path, EVALUATION)))


def check_place(folder: Path, *, force: bool) -> None:
    """Find out before the work begins whether a run can be written to a folder.

    Args:
        folder: where the run should lie.
        force: whether a run that lies there may be replaced.

    Raises:
        StorageError: if it cannot, or may not.
    """
    where = folder.resolve()
    if where.exists() and not where.is_dir():
        raise StorageError(f"{folder} is a file: choose another --out")
    if where.is_dir() and any(where.iterdir()):
        if find(where, TABLE) is None:
            raise StorageError(f"{folder} holds other things, which are not touched: choose another --out")
        if not force:
            raise StorageError(f"{folder} holds a run already: choose another --out, or replace it with --force")
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        probe = where.parent / f".{uuid.uuid4().hex}"
        probe.mkdir()
        probe.rmdir()
        free = shutil.disk_usage(where.parent).free
    except OSError as error:
        raise StorageError(f"{folder} cannot be written ({error.strerror}): choose another --out") from None
    if free < ROOM:
        raise StorageError(f"the disk of {folder} is full ({free // 2**20} MB left): make room or choose another --out")


def write_run(
    folder: Path, posterior: Posterior, story: Story, encoder: Encoder, evaluation: Evaluation, texts: Mapping[str, str]
) -> None:
    """Write a run so that the folder holds all of it or what it held before.

    Args:
        folder: where it goes; a run that lies there is replaced, files of others in the folder stay.
        posterior: in standardised units.
        story: how it came about.
        encoder: of the training table.
        evaluation: of the held-out rows.
        texts: other files by name: predictions and the report.

    Raises:
        StorageError: if it cannot be written.
    """
    where = folder.resolve()
    made = where.with_name(f".{where.name}.{uuid.uuid4().hex[:8]}")
    table = {"schema": SCHEMA, "story": encode(story), "encoder": encoder.to_json()}
    ours = {TABLE: _json(table), EVALUATION: _json({"schema": SCHEMA, **evaluation.to_json()})}
    try:
        posterior.save(made)
        write_folder(made, {**ours, **texts}, {})
        _put(made, where)
    except StorageError as error:
        raise StorageError(str(error).replace(str(made), str(folder))) from error
    except OSError as error:
        raise StorageError(f"{folder} cannot be written ({error.strerror or error})") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _json(data: object) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _put(made: Path, where: Path) -> None:
    """Move a finished folder to its place, and files of others from the old folder into it."""
    if not where.exists():
        made.rename(where)
        return
    old = where.with_name(f"{made.name}.old")
    where.rename(old)
    try:
        made.rename(where)
    except OSError:
        old.rename(where)
        raise
    for path in old.iterdir():
        if path.name not in FILES and not (where / path.name).exists():
            os.replace(path, where / path.name)
    shutil.rmtree(old, ignore_errors=True)
