"""`credo predict`: new rows in, answers with error bars and a warning out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from rich.console import Console

from credo.cli.display import answers, plain_warnings, remarks
from credo.cli.files import STDOUT, write
from credo.data.reading import read_table
from credo.tabular.predictions import RISK
from credo.tabular.runs import open_run

app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="The folder that `credo fit` wrote.")],
    table: Annotated[Path, typer.Argument(help="A CSV or Parquet file with the columns of the training table.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="CSV file to write; - for the standard output.")] = STDOUT,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    risk: Annotated[float, typer.Option(help="Classes: part of mistakes among decided rows that you accept.")] = RISK,
    with_inputs: Annotated[bool, typer.Option("--with-inputs", help="Write the columns of the table too.")] = False,
    json_wanted: Annotated[bool, typer.Option("--json", help="Write JSON instead of CSV, one object per row.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors (and the answers).")] = False,
) -> None:
    """Predict new rows, with error bars, and flag those that are unlike the training data.

    Numbers: mean, stddev, lower, upper, epistemic, aleatoric (variances that add up to stddev squared).

    Classes: label, a probability for each class, epistemic, aleatoric (entropies in nats), and abstain, which says that
    the model should not decide this row if at most --risk of its decisions may be wrong (a promise that holds with a
    probability of 90 %, and takes held-out rows: 45 for a risk of 0.05, 230 for 0.01).

    Both: unfamiliar (a flag) and unfamiliarity (a score). The flag is set where the score is above 1, that is, where
    the networks disagree more about this row than about 99 in 100 held-out rows (with n < 99 held-out rows, more than
    about any of them, which happens to 1 in n + 1 ordinary rows), and where a cell is infinite, or is missing or cannot
    be read in a column that was complete in training.

    Exit code: 0 done, 1 it could not be done, 2 something in the command or the files must change.

    Examples:

        credo predict run new.csv -o predictions.csv

        credo predict run new.csv --level 0.8 --with-inputs > predictions.csv

        credo predict run new.csv --risk 0.01 --json | jq '.[] | select(.abstain)'
    """
    told = remarks(quiet)
    _refuse_to_overwrite(out, table)
    opened = open_run(run)
    with plain_warnings(told):
        rows = read_table(table, opened.encoder.codes)
        found = opened.answer(rows.frame, level=level, risk=risk)
    frame = _joined(rows.frame, found.frame) if with_inputs else found.frame
    write(out, _text(frame, json_wanted).encode())
    for note in (*rows.notes, *found.notes):
        told.print(f"note: {note}", style="yellow", soft_wrap=True, markup=False)
    _say(answers(quiet) if out != STDOUT else told, found.frame, out)


def _refuse_to_overwrite(out: Path, table: Path) -> None:
    if out != STDOUT and out.exists() and table.exists() and out.samefile(table):
        raise ValueError(f"{out} is the table itself: write the predictions to another file")


def _joined(rows: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """The table with the answers on its right; a name that is taken gets a suffix."""
    taken = {name: f"{name} (predicted)" for name in found if name in rows}
    return pd.concat([rows.reset_index(drop=True), found.rename(columns=taken)], axis=1)


def _text(frame: pd.DataFrame, json_wanted: bool) -> str:
    if not json_wanted:
        return str(frame.to_csv(index=False))
    return json.dumps(json.loads(frame.to_json(orient="records", double_precision=15)), ensure_ascii=False) + "\n"


def _say(console: Console, frame: pd.DataFrame, out: Path) -> None:
    strange = frame.index[frame["unfamiliar"].fillna(False).astype(bool)] + 1
    parts = [f"{len(frame):,} row{'s' * (len(frame) != 1)} predicted"]
    if frame["unfamiliar"].isna().all():
        parts.append("none can be flagged as unfamiliar, since the model is a single network")
    elif len(strange):
        shown = ", ".join(map(str, strange[:10])) + (" ..." if len(strange) > 10 else "")
        parts.append(f"{len(strange):,} unlike the training data (row{'s' * (len(strange) != 1)} {shown})")
    else:
        parts.append("none unlike the training data")
    if "abstain" in frame:
        parts.append(f"{int(frame['abstain'].sum()):,} better left to a person")
    place = "" if out == STDOUT else f" Written to {out}."
    console.print(f"{'; '.join(parts)}.{place}", markup=False, soft_wrap=True)
