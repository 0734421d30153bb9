"""`credo compare`: methods on one problem, before a judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from credo.cli.contests import contest_of
from credo.cli.display import answers, plain_warnings, progress, remarks, tell
from credo.cli.main import INTERRUPTED, complain
from credo.core.storage import SCHEMA, StorageError, environment, write_folder
from credo.experiments.base import Figure, Size
from credo.experiments.judge.comparing import Comparison
from credo.experiments.judge.comparing import compare as held_against
from credo.experiments.judge.methods import ENTRIES, FULL_DRAWS, QUICK_DRAWS, chosen, the_judge
from credo.experiments.judge.pictures import draw
from credo.experiments.judge.problems import CONTESTS
from credo.experiments.judge.tables import comparison_table, measures
from credo.experiments.threads import one_thread
from credo.reports.tables import markdown
from credo.reports.terminal import terminal_table

NAMES = ", ".join(entry.name for entry in ENTRIES)
COMPARISON, SUMMARY = "comparison.json", "summary.md"

app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)


@app.command()
def compare(
    name: Annotated[
        str,
        typer.Argument(
            help=f"Which problem: {', '.join(CONTESTS)}, or a CSV file.", autocompletion=lambda: list(CONTESTS)
        ),
    ],
    target: Annotated[str | None, typer.Option("--target", "-t", help="Column to predict, for a file.")] = None,
    methods: Annotated[
        str, typer.Option(help=f"Some of {NAMES}, with commas between them.", show_default="all of these")
    ] = NAMES,
    draws: Annotated[
        int | None, typer.Option(help="Draws of each of the judge's four chains.", show_default=str(FULL_DRAWS))
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A short judge and short runs, for a first look.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for all that is made.", show_default="runs/compare-NAME")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    json_wanted: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors (and JSON).")] = False,
) -> None:
    """Hold ten methods against a judge: a long run of Hamiltonian Monte Carlo on the same model and data.

    Prints how far each method's predictions are from the judge's, and what it costs; says whether the judge itself has
    converged; draws what each believes. The judge's run is saved as it goes: after Ctrl-C the same command goes on with
    it, and when it is done it is not repeated.

    Exit code: 0 done, 1 done and the judge has not converged (with --quick it never has, and that is 0), 2 something in
    the command must change.

    Examples:

        credo compare sine

        credo compare moons --methods ensemble,vi --quick

        credo compare sine --draws 2000 --out runs/long --json

        credo compare houses.csv --target price --quick
    """
    folder = out or Path("runs") / f"compare-{Path(name).stem}"
    comparison, figure = _compared(name, target, methods, draws, quick, folder, seed, remarks(quiet))
    data = as_data(comparison, figure, seed)
    table = comparison_table(comparison)
    page = f"# {table.title}\n\n{markdown(table)}\n\n{table.note}\n\n![{figure.caption}]({figure.path})\n"
    write_folder(folder, {COMPARISON: json.dumps(data, indent=2, ensure_ascii=False) + "\n", SUMMARY: page}, {})
    if json_wanted:
        answers().out(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        _show(answers(quiet), comparison, figure, folder)
    raise typer.Exit(0 if quick or comparison.convergence.converged else 1)


def _compared(
    name: str,
    target: str | None,
    methods: str,
    draws: int | None,
    quick: bool,
    folder: Path,
    seed: int,
    console: Console,
) -> tuple[Comparison, Figure]:
    if draws is not None and draws < 4:
        raise ValueError(f"--draws must be at least 4, got {draws}: of fewer nothing can be told")
    size = Size.QUICK if quick else Size.FULL
    names = [part.strip() for part in methods.split(",") if part.strip()]
    if not names:
        raise ValueError(f"--methods names no method: there are {NAMES}")
    entries = chosen(names)
    count = draws or (QUICK_DRAWS if quick else FULL_DRAWS)
    contest = contest_of(name, target, seed)
    checkpoint = folder / f"judge-{contest.name}-{count}-{seed}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} cannot be written ({error.strerror}): choose another folder") from None
    try:
        with plain_warnings(console), progress(console) as told, one_thread():
            found = held_against(contest, the_judge(count), entries, size, seed, told, checkpoint)
            told.say("drawing")
            return found, draw(folder, found)
    except KeyboardInterrupt:
        complain(f"interrupted; the judge's draws so far are in {checkpoint}, and the same command goes on with them")
        raise typer.Exit(INTERRUPTED) from None


def as_data(comparison: Comparison, figure: Figure, seed: int) -> dict[str, Any]:
    """The comparison for a program: plain numbers by name."""
    judged = comparison.convergence
    return {
        "schema": SCHEMA,
        "problem": comparison.contest.name,
        "seed": seed,
        "judge": {
            "verdict": judged.verdict,
            "converged": judged.converged,
            "r_hat": judged.worst_r_hat,
            "effective_draws": judged.effective_draws,
            "chains": judged.chains,
            "draws": judged.length,
        },
        "methods": [
            {
                "method": result.label,
                "inside": measures(comparison, result, True),
                "outside": measures(comparison, result, False),
                "hits": result.hits,
                "log_likelihood": result.log_likelihood,
                "gradients": result.gradients,
                "seconds": result.seconds,
            }
            for result in (comparison.judge, *comparison.results)
        ],
        "figure": figure.path,
        "environment": environment(),
    }


def _show(console: Console, comparison: Comparison, figure: Figure, folder: Path) -> None:
    console.print(terminal_table(comparison_table(comparison)))
    console.print()
    tell(console, f"{folder / figure.path}: {figure.caption}", piped=True)
    tell(console, f"{folder / SUMMARY} and {folder / COMPARISON} hold all of this.", piped=True)
