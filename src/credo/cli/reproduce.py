"""`credo reproduce`: repeat a published experiment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from credo.cli.display import answers, plain_warnings, progress, remarks, tell
from credo.experiments import registry
from credo.experiments.base import Size, Verdict
from credo.experiments.runs import OUTCOME, SUMMARY, Run, as_json, claims_table, perform
from credo.reports.tables import Table
from credo.reports.terminal import terminal_table

STYLES = {Verdict.AGREES.value: "green", Verdict.DIFFERS.value: "bold red", Verdict.NOT_MEASURED.value: "yellow"}

app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Which experiment; without it, all are listed.", autocompletion=registry.names)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A smaller version, for a first look.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for figures and numbers.", show_default="runs/NAME")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    json_wanted: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors (and JSON).")] = False,
) -> None:
    """Repeat a published experiment, and hold our numbers against its claims.

    Prints tables and a verdict on every claim, and writes figures, outcome.json and summary.md to the folder.

    Exit code: 0 no claim is refuted, 1 some claim is, 2 something in the command must change.

    Examples:

        credo reproduce

        credo reproduce sine --quick

        credo reproduce coin --out runs/coin --seed 3 --json
    """
    if name is None:
        _list(answers(quiet and not json_wanted), json_wanted)
        return
    run, folder = _perform(name, Size.QUICK if quick else Size.FULL, out, seed, remarks(quiet))
    if json_wanted:
        _print_json(answers(), run)
    else:
        _show(answers(quiet), run, folder)
    raise typer.Exit(0 if run.agrees else 1)


def _perform(name: str, size: Size, out: Path | None, seed: int, console: Console) -> tuple[Run, Path]:
    experiment = registry.load(name)
    folder = out or Path("runs") / name
    with plain_warnings(console), progress(console) as told:
        return perform(experiment, size, folder, seed, told), folder


def _list(console: Console, wanted_json: bool) -> None:
    cards = registry.cards()
    if wanted_json:
        entries = [{"name": card.name, "title": card.title, "source": card.source} for card in cards]
        console.out(json.dumps(entries, indent=2, ensure_ascii=False))
        return
    rows = tuple((card.name, card.title, card.source) for card in cards)
    console.print(terminal_table(Table("Experiments", ("name", "what", "source"), rows)))
    console.print("Repeat one with: credo reproduce NAME [--quick]")


def _print_json(console: Console, run: Run) -> None:
    console.out(as_json(run), end="")


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
    told = ", ".join(f"{n} {v.value if n == 1 else many.get(v, v.value)}" for v, n in counts.items() if n)
    console.print(f"{len(run.judged)} claims: {told}. {run.seconds:.0f} seconds.", markup=False)
