"""`credo report`: the page of a run, made again from its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from credo.cli.display import answers
from credo.core.storage import write_folder
from credo.reports import words
from credo.reports.page import page
from credo.tabular.runs import REPORT, open_run

app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="The folder that `credo fit` wrote.")],
    json_wanted: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors (and JSON).")] = False,
) -> None:
    """Write the report of a run again, and print what it says in short.

    The page is one HTML file that needs nothing else. It is made from the numbers in the folder.

    Examples:

        credo report run

        credo report run --json
    """
    opened = open_run(run)
    posterior, evaluation = opened.posterior, opened.evaluation
    html = page(opened.story, evaluation, posterior.history, posterior.notes, run.resolve().name)
    write_folder(run, {REPORT: html}, {})
    if json_wanted:
        told = {"report": str(run / REPORT), "evaluation": evaluation.to_json()}
        answers().out(json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False))
        return
    console = answers(quiet)
    for line in (*words.summary(evaluation), words.verdict_line(evaluation), f"Report: {run / REPORT}"):
        console.print(line, markup=False, soft_wrap=True)
