"""`credo reproduce`: repeat a published experiment."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.console import Console

from credo.cli.console import answers, plain_warnings, progress, remarks, tell
from credo.experiments import registry
from credo.experiments.base import Size, Verdict
from credo.experiments.runs import OUTCOME, SUMMARY, Run, as_json, claims_table, perform
from credo.reports.tables import Table, terminal_table

STYLES = {Verdict.AGREES.value: "green", Verdict.DIFFERS.value: "bold red", Verdict.NOT_MEASURED.value: "yellow"}


def run(name: str | None, quick: bool, out: Path | None, seed: int, json_wanted: bool, quiet: bool) -> None:
    """The work of `credo reproduce`."""
    if name is None:
        _list(answers(quiet and not json_wanted), json_wanted)
        return
    folder = out or Path("runs") / name
    done = performed(name, quick, folder, seed, remarks(quiet))
    if json_wanted:
        answers().out(as_json(done), end="")
    else:
        _show(answers(quiet), done, folder)
    raise typer.Exit(0 if done.agrees else 1)


def performed(name: str, quick: bool, folder: Path, seed: int, console: Console) -> Run:
    """The experiment of this name, with its progress shown."""
    experiment = registry.load(name)
    with plain_warnings(console), progress(console) as bar:
        return perform(experiment, Size.QUICK if quick else Size.FULL, folder, seed, bar)


def _list(console: Console, wanted_json: bool) -> None:
    cards = registry.cards()
    if wanted_json:
        entries = [{"name": card.name, "title": card.title, "source": card.source} for card in cards]
        console.out(json.dumps(entries, indent=2, ensure_ascii=False))
        return
    rows = tuple((card.name, card.title, card.source) for card in cards)
    console.print(terminal_table(Table("Experiments", ("name", "what", "source"), rows)))
    console.print("Repeat one with: credo reproduce NAME [--quick]")


def _show(console: Console, run: Run, folder: Path) -> None:
    card = run.card
    console.print(f"[bold]{card.title}[/bold]", soft_wrap=True)
    console.print(f"{card.shows}\nSource: {card.source}.\n", markup=False)
    for table in (*run.tables, claims_table(run)):
        console.print(terminal_table(table, STYLES))
        console.print()
    for figure in run.figures:
        tell(console, f"{folder / figure.path}: {figure.caption}", piped=True)
    tell(console, f"{folder / SUMMARY} and {folder / OUTCOME} hold all of this.", piped=True)
    counts = {v: sum(j.verdict is v for j in run.judged) for v in Verdict}
    many = {Verdict.AGREES: "agree", Verdict.DIFFERS: "differ"}
    counted = ", ".join(f"{n} {v.value if n == 1 else many.get(v, v.value)}" for v, n in counts.items() if n)
    console.print(f"{len(run.judged)} claims: {counted}. {run.seconds:.0f} seconds.", markup=False)
    if counts[Verdict.NOT_MEASURED] == len(run.judged) > 0:
        console.print("Nothing was measured, so nothing is shown to agree.", markup=False)
