"""`credo demo`: the main job as a user meets it, on a real table, in about a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from rich.console import Console

from credo.cli.data import as_frame
from credo.cli.display import answers, plain_warnings, progress, remarks
from credo.cli.files import write
from credo.cli.fit import fit
from credo.cli.predict import predict
from credo.data.sets import load
from credo.data.splits import split
from credo.experiments import registry
from credo.experiments.base import Figure, Size
from credo.experiments.runs import SUMMARY, perform
from credo.tabular.runs import PREDICTIONS, REPORT

app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)

NAME = "diabetes"
KEPT_BACK = 4
"""Patients that the table does not have."""
ABSURD = 50.0
"""Times the largest value of every column."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for all that is made.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
) -> None:
    """Fit a real table, look at the report, predict rows never seen, one of them absurd, and draw the sine.

    The table is scikit-learn's diabetes set: ten measurements of 442 patients, and how their disease progressed.

    Example:

        credo demo --out runs/demo
    """
    console = answers()
    out.mkdir(parents=True, exist_ok=True)
    table, new, run, predictions = (out / name for name in ("diabetes.csv", "new.csv", "table-run", PREDICTIONS))
    whole = load(NAME)
    write_tables(as_frame(whole), whole.target, table, new, seed)
    _step(console, f"credo fit {table} --target {whole.target} --out {run} --seed {seed}")
    fit(table, whole.target, out=run, seed=seed, force=True)
    _step(console, f"credo predict {run} {new} --out {predictions}")
    predict(run, new, predictions)
    shown = pd.read_csv(predictions).round(1).to_string(index=False)
    console.print(shown, markup=False, soft_wrap=True)
    console.print(f"The last row of {new} is absurd: every measurement is far beyond any patient's.", soft_wrap=True)
    _step(console, f"credo reproduce sine --quick --out {out / 'sine'} --seed {seed}")
    picture = _sine(out / "sine", seed)
    _step(console, "")
    console.print("Where everything lies:", style="bold")
    for path, what in {
        run / REPORT: "the report: open it in a browser",
        run: "the run: posterior, evaluation and predictions of the held-out patients",
        predictions: "predictions for patients never seen",
        out / "sine" / picture.path: "the sine: what each method believes where there are no data",
        out / "sine" / SUMMARY: "the sine in numbers, with all its figures",
    }.items():
        console.print(f"  {path}  {what}", markup=False, soft_wrap=True)


def _step(console: Console, command: str) -> None:
    console.print()
    if command:
        console.print(f"$ {command}", style="bold", markup=False, soft_wrap=True)


def write_tables(frame: pd.DataFrame, target: str, table: Path, new: Path, seed: int) -> None:
    """The table without some rows; these rows without their target, and an absurd one after them."""
    kept = split(len(frame), test=KEPT_BACK / len(frame), seed=seed).test
    rows = frame.iloc[kept].drop(columns=target)
    absurd = frame.drop(columns=target).abs().max() * ABSURD
    rows = pd.concat([rows, absurd.to_frame().T], ignore_index=True)
    write(table, frame.drop(index=kept).to_csv(index=False).encode())
    write(new, rows.to_csv(index=False).encode())


def _sine(folder: Path, seed: int) -> Figure:
    told = remarks()
    with plain_warnings(told), progress(told) as bar:
        return perform(registry.load("sine"), Size.QUICK, folder, seed, bar).figures[0]
