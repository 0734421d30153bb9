"""`credo compare`: methods on one problem, before a judge."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.console import Console

from credo.cli.console import answers, plain_warnings, progress, remarks, tell
from credo.cli.main import INTERRUPTED, complain
from credo.cli.options import COMPARED
from credo.core.storage import StorageError, write_folder
from credo.core.threads import one_thread
from credo.experiments.base import Figure, Size
from credo.experiments.judge.figures import draw
from credo.experiments.judge.measure import Comparison, as_data, comparison_table
from credo.experiments.judge.measure import compare as run_comparison
from credo.experiments.judge.problem import FULL_DRAWS, QUICK_DRAWS, chosen, the_judge
from credo.experiments.judge.tables import contest_of
from credo.reports.tables import markdown, terminal_table

COMPARISON, SUMMARY = "comparison.json", "summary.md"


def run(
    name: str,
    target: str | None,
    methods: str,
    draws: int | None,
    quick: bool,
    out: Path | None,
    seed: int,
    json_wanted: bool,
    quiet: bool,
) -> None:
    """The work of `credo compare`."""
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
        raise ValueError(f"--draws must be at least 4, got {draws}: convergence cannot be judged from fewer")
    size = Size.QUICK if quick else Size.FULL
    names = [part.strip() for part in methods.split(",") if part.strip()]
    if not names:
        raise ValueError(f"--methods names no method: there are {', '.join(COMPARED)}")
    entries = chosen(names)
    count = draws or (QUICK_DRAWS if quick else FULL_DRAWS)
    contest = contest_of(name, target, seed)
    checkpoint = folder / f"judge-{contest.name}-{count}-{seed}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} cannot be written ({error.strerror}): choose another folder") from None
    try:
        with plain_warnings(console), progress(console) as bar, one_thread():
            comparison = run_comparison(contest, the_judge(count), entries, size, seed, bar, checkpoint)
            bar.say("drawing")
            return comparison, draw(folder, comparison)
    except KeyboardInterrupt:
        complain(f"interrupted; the judge's draws so far are in {checkpoint}, and the same command continues them")
        raise typer.Exit(INTERRUPTED) from None


def _show(console: Console, comparison: Comparison, figure: Figure, folder: Path) -> None:
    console.print(terminal_table(comparison_table(comparison)))
    console.print()
    tell(console, f"{folder / figure.path}: {figure.caption}", piped=True)
    tell(console, f"{folder / SUMMARY} and {folder / COMPARISON} hold all of this.", piped=True)
