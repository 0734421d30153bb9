"""`credo predict`: new rows or images in, answers with error bars and a warning out."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
from rich.console import Console

from credo.cli import images
from credo.cli.console import answers, check_new, check_place, plain_warnings, remarks, write
from credo.cli.options import STDOUT
from credo.data.reading import read_table
from credo.tabular.costs import ActionCosts
from credo.tabular.runs import open_run
from credo.vision.runs import is_vision_run


def run(
    run: Path,
    table: list[Path],
    out: Path,
    level: float,
    risk: float,
    costs: Path | None,
    ask: float | None,
    within: float | None,
    with_inputs: bool,
    json_wanted: bool,
    quiet: bool,
    force: bool,
) -> None:
    """The work of `credo predict`."""
    if is_vision_run(run):
        if costs is not None or ask is not None or within is not None:
            raise ValueError(f"--costs, --ask and --within are for tables, and {run} is the run of a folder of images")
        images.predict(run, table, out, json_wanted, quiet, force)
        return
    if len(table) > 1:
        raise ValueError(f"{run} is the run of a table, and predicts one file of rows: got {len(table)}")
    _of_table(run, table[0], out, level, risk, _costs(costs, ask), within, with_inputs, json_wanted, quiet, force)


def _of_table(
    run: Path,
    table: Path,
    out: Path,
    level: float,
    risk: float,
    of_actions: ActionCosts | None,
    within: float | None,
    with_inputs: bool,
    json_wanted: bool,
    quiet: bool,
    force: bool,
) -> None:
    notes = remarks(quiet)
    check_place(out, [table])
    check_new(out, force)
    opened = open_run(run)
    with plain_warnings(notes):
        rows = read_table(table, opened.encoder.codes)
        predicted = opened.predict_with_notes(rows.frame, level=level, risk=risk, costs=of_actions, within=within)
    frame = _joined(rows.frame, predicted.frame) if with_inputs else predicted.frame
    write(out, _text(frame, json_wanted).encode())
    for note in (*rows.notes, *predicted.notes):
        notes.print(f"note: {note}", style="yellow", soft_wrap=True, markup=False)
    console = answers(quiet) if out != STDOUT else notes
    _summarize(console, predicted.frame, out)
    if predicted.promise is not None and predicted.promise.is_kept:
        console.print(f"Promised: {predicted.promise}.", markup=False, soft_wrap=True)


def _costs(costs: Path | None, ask: float | None) -> ActionCosts | None:
    if (costs is None) != (ask is None):
        raise ValueError("--costs and --ask belong together: what actions cost in each class, and what asking costs")
    return None if costs is None or ask is None else ActionCosts.read(costs, ask)


def _joined(rows: pd.DataFrame, predicted: pd.DataFrame) -> pd.DataFrame:
    """The table with the answers on its right; a name that is taken gets a suffix."""
    taken = {name: f"{name} (predicted)" for name in predicted if name in rows}
    return pd.concat([rows.reset_index(drop=True), predicted.rename(columns=taken)], axis=1)


def _text(frame: pd.DataFrame, json_wanted: bool) -> str:
    if not json_wanted:
        return str(frame.to_csv(index=False))
    return json.dumps(json.loads(frame.to_json(orient="records", double_precision=15)), ensure_ascii=False) + "\n"


def _summarize(console: Console, frame: pd.DataFrame, out: Path) -> None:
    unlike = frame.index[frame["unfamiliar"].fillna(False).astype(bool)] + 1
    parts = [f"{len(frame):,} row{'s' * (len(frame) != 1)} predicted"]
    if frame["unfamiliar"].isna().all():
        parts.append("none can be flagged as unfamiliar, since the model is a single network")
    elif len(unlike):
        shown = ", ".join(map(str, unlike[:10])) + (" ..." if len(unlike) > 10 else "")
        parts.append(f"{len(unlike):,} unlike the training data (row{'s' * (len(unlike) != 1)} {shown})")
    else:
        parts.append("none unlike the training data")
    if "abstain" in frame:
        parts.append(f"{int(frame['abstain'].sum()):,} better left to a person")
    place = "" if out == STDOUT else f" Written to {out}."
    console.print(f"{'; '.join(parts)}.{place}", markup=False, soft_wrap=True)
