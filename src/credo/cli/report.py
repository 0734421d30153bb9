"""`credo report`: the page of a run, made again from its folder."""

from __future__ import annotations

import json
from pathlib import Path

from credo.cli import images
from credo.cli.console import answers
from credo.core.storage import write_folder
from credo.reports import words
from credo.tabular.runs import REPORT, open_run
from credo.tabular.saving import report_page
from credo.vision.runs import is_vision_run


def run(run: Path, json_wanted: bool, quiet: bool) -> None:
    """The work of `credo report`."""
    if is_vision_run(run):
        images.report(run, json_wanted, quiet)
        return
    opened = open_run(run)
    write_folder(run, {REPORT: report_page(opened, run.resolve().name)}, {})
    if json_wanted:
        summary = {"report": str(opened.report), "evaluation": opened.evaluation.to_json()}
        answers().out(json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False))
        return
    console, evaluation = answers(quiet), opened.evaluation
    for line in (*words.summary(evaluation), words.verdict_line(evaluation), f"Report: {opened.report}"):
        console.print(line, markup=False, soft_wrap=True)
