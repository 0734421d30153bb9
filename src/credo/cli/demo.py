"""`credo demo`: the main job as a user meets it, on a real table, in about a minute."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from rich.console import Console

from credo.cli import commands
from credo.cli.console import answers, remarks, write
from credo.cli.data import as_frame
from credo.cli.reproduce import performed
from credo.data.sets import load
from credo.data.splits import split
from credo.tabular.runs import PREDICTIONS, REPORT

NAME = "diabetes"
NEW_ROWS = 4
"""Patients that the table does not have."""
ABSURD = 50.0
"""Times the largest value of every column."""


def run(out: Path, seed: int) -> None:
    """The work of `credo demo`."""
    console = answers()
    out.mkdir(parents=True, exist_ok=True)
    table, new, run, predictions = (out / name for name in ("diabetes.csv", "new.csv", "table-run", PREDICTIONS))
    whole = load(NAME)
    write_tables(as_frame(whole), whole.target, table, new, seed)
    _step(console, f"credo fit {table} --target {whole.target} --out {run} --seed {seed}")
    commands.fit(table, whole.target, out=run, seed=seed, force=True)
    _step(console, f"credo predict {run} {new} --out {predictions}")
    commands.predict(run, [new], predictions)
    shown = pd.read_csv(predictions).round(1).to_string(index=False)
    console.print(shown, markup=False, soft_wrap=True)
    absurd = f"The last row of {new} is absurd, every measurement far beyond any patient's"
    console.print(f"{absurd}: where it is flagged as unfamiliar, its interval means nothing.", soft_wrap=True)
    _step(console, f"credo reproduce sine --quick --out {out / 'sine'} --seed {seed}")
    drawn = performed("sine", True, out / "sine", seed, remarks())
    _step(console, "")
    console.print("Where everything lies:", style="bold")
    for path, what in {
        run / REPORT: "the report: open it in a browser",
        run: "the run: posterior, evaluation and predictions of the held-out patients",
        predictions: "predictions for patients never seen",
        out / "sine" / drawn.figures[0].path: "the sine: what each method believes where there are no data",
        out / "sine" / "summary.md": "the sine in numbers, with all its figures",
    }.items():
        console.print(f"  {path}  {what}", markup=False, soft_wrap=True)


def _step(console: Console, command: str) -> None:
    console.print()
    if command:
        console.print(f"$ {command}", style="bold", markup=False, soft_wrap=True)


def write_tables(frame: pd.DataFrame, target: str, table: Path, new: Path, seed: int) -> None:
    """The table without some rows; these rows without their target, and an absurd one after them."""
    new_rows = split(len(frame), test=NEW_ROWS / len(frame), seed=seed).test
    rows = frame.iloc[new_rows].drop(columns=target)
    absurd = frame.drop(columns=target).abs().max() * ABSURD
    rows = pd.concat([rows, absurd.to_frame().T], ignore_index=True)
    write(table, frame.drop(index=new_rows).to_csv(index=False).encode())
    write(new, rows.to_csv(index=False).encode())
