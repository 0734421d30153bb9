"""`credo compare`: methods on one problem, before a judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import typer
from rich.console import Console

from credo.cli.commands import COMPARED
from credo.cli.console import answers, plain_warnings, progress, remarks, tell
from credo.cli.main import INTERRUPTED, complain
from credo.core.storage import SCHEMA, StorageError, environment, write_folder
from credo.core.threads import one_thread
from credo.data.encoder import ClassTarget, Encoder
from credo.experiments.base import Figure, Size
from credo.experiments.judge.figures import draw
from credo.experiments.judge.measure import Comparison, comparison_table, measures
from credo.experiments.judge.measure import compare as run_comparison
from credo.experiments.judge.problem import CONTESTS, FULL_DRAWS, QUICK_DRAWS, Contest, chosen, the_judge
from credo.likelihoods import Categorical, LearnedGaussian
from credo.model import Model
from credo.nets import MLP
from credo.priors import Normal
from credo.reports.tables import markdown, terminal_table
from credo.tabular.loading import FitRequest, load_table

COMPARISON, SUMMARY = "comparison.json", "summary.md"
MOST = 2000
"""Training rows, all of which every step of the judge looks at."""
JUDGED = 100
"""Held-out rows at which methods are compared."""
HIDDEN = 20
FAR = 3.0
"""Times as far from the mean of the training rows, in every column: rows outside the data."""


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


def contest_of(name: str, target: str | None, seed: int) -> Contest:
    """The problem of this name, or that of a table.

    Raises:
        ValueError: there is none; the sentence says what there is.
    """
    if name in CONTESTS:
        return CONTESTS[name](seed)
    if not Path(name).suffix:
        raise ValueError(
            f"there is no problem {name!r} to compare on: there are {', '.join(CONTESTS)}, or a CSV file with --target"
        )
    if target is None:
        raise ValueError(f"--target must say which column of {name} is to be predicted")
    return table_contest(Path(name), target, seed)


def table_contest(path: Path, target: str, seed: int) -> Contest:
    """A table: a network with one hidden layer on most rows, compared at the others and at rows far outside."""
    loaded = load_table(path, FitRequest(target, seed=seed))
    problem, parts = loaded.problem, loaded.parts
    if len(parts.train) > MOST:
        raise ValueError(
            f"{path} has {len(parts.train)} training rows, and the judge looks at all of them in every step: give "
            f"it a sample of at most {MOST}"
        )
    encoder = Encoder.fit(problem, parts.train)
    trained, held_out = (problem.frame.iloc[rows].reset_index(drop=True) for rows in (parts.train, parts.test))
    x, near = encoder.encode(trained).x, encoder.encode(held_out).x
    classes = isinstance(encoder.target, ClassTarget)
    outputs = len(encoder.target.classes) if isinstance(encoder.target, ClassTarget) else 1
    net = MLP(x.shape[1], outputs, hidden=(HIDDEN,), activation="tanh")
    few = near[:JUDGED]
    return Contest(
        path.stem,
        f"{path.name}: {len(x)} rows, {x.shape[1]}-{HIDDEN}-{outputs} with tanh",
        Model(net, Categorical() if classes else LearnedGaussian(), Normal(scale=1.0)),
        x,
        encoder.encode_target(trained),
        torch.cat([few, FAR * few]),
        torch.arange(2 * len(few)) < len(few),
        (near, encoder.encode_target(held_out)),
    )
