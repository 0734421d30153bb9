"""Runs to folders: whole or not at all, never over anything else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from credo.core.config import encode
from credo.core.folders import write_whole
from credo.core.storage import SCHEMA, write_folder
from credo.reports.page import page
from credo.tabular.runs import EVALUATION, FILES, PREDICTIONS, REPORT, TABLE, TableRun
from credo.tabular.supporting import SUPPORT, support_tensors


def save_run(run: TableRun, folder: Path) -> TableRun:
    """Write a run and its report, so that the folder holds all of it or what it held before.

    Args:
        run: what to write.
        folder: where it goes; a run that lies there is replaced, other files in the folder stay.

    Returns:
        The run, with its folder.

    Raises:
        StorageError: if it cannot be written.
    """
    table = {"schema": SCHEMA, "metadata": encode(run.metadata), "encoder": run.encoder.to_json()}
    texts = {
        TABLE: json_text(table),
        EVALUATION: json_text({"schema": SCHEMA, **run.evaluation.to_json()}),
        PREDICTIONS: run.predictions.to_csv(index=False),
        REPORT: report_page(run, folder.resolve().name),
    }

    def write(made: Path) -> None:
        run.posterior.save(made)
        rows = {} if run.support is None else {SUPPORT: (support_tensors(run.support), dict[str, str]())}
        write_folder(made, texts, rows)

    write_whole(folder, write, FILES)
    return replace(run, folder=folder)


def report_page(run: TableRun, name: str) -> str:
    """The report of a run as HTML.

    Args:
        run: what it is about.
        name: of its folder, for the examples on the page.
    """
    record = run.posterior.record
    return page(run.metadata, run.evaluation, record.history, record.notes, name)


def json_text(data: object) -> str:
    """JSON that a person can read."""
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
