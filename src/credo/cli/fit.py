"""`credo fit`: a table or a folder of images in, a posterior with a report out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from credo.cli import images
from credo.cli.console import answers, plain_warnings, progress, remarks, say_evaluation, tell
from credo.cli.main import FAILED, INTERRUPTED, complain
from credo.core.folders import SavedElsewhereError, UnsavedError
from credo.core.status import Status
from credo.data import Task
from credo.evaluation.values import Evaluation
from credo.loop.progress import clock
from credo.tabular.fitting import fit_table
from credo.tabular.loading import LoadedTable
from credo.tabular.runs import TableRun
from credo.tabular.training import ValidationPoint
from credo.vision.reading import SUFFIXES


def run(
    table: Path,
    target: str | None,
    method: str,
    out: Path,
    task: Task | None,
    test: float,
    seed: int,
    epochs: int | None,
    drop: list[str] | None,
    weights: str | None,
    time: str | None,
    group: str | None,
    network: str | None,
    size: int | None,
    flip: bool,
    false_alarms: float | None,
    device: str | None,
    resume: bool,
    force: bool,
    json_wanted: bool,
    quiet: bool,
) -> None:
    """The work of `credo fit`."""
    of_tables = {"--target": target, "--task": task, "--drop": drop or None, "--weights": weights}
    of_tables |= {"--time": time, "--group": group}
    of_images: dict[str, object] = {"--network": network, "--size": size, "--flip": flip or None}
    of_images |= {"--false-alarms": false_alarms, "--device": device}
    if table.is_dir():
        _refuse(of_tables, f"is for tables, and {table} is a folder: it is read as images by class")
        images.run(
            table,
            method=method,
            out=out,
            test=test,
            seed=seed,
            epochs=epochs,
            network=network or "cnn",
            size=size,
            flip=flip,
            false_alarms=0.05 if false_alarms is None else false_alarms,
            device=device or "cpu",
            resume=resume,
            force=force,
            json_wanted=json_wanted,
            quiet=quiet,
        )
        return
    _refuse(of_images, f"is for a folder of images, and {table} is none")
    if table.suffix.lower() in SUFFIXES and table.exists():
        raise ValueError(f"{table} is one image: give a folder with a folder of images for each class in it")
    if target is None and table.exists():
        raise ValueError(f"name the column of {table} that is to be predicted: --target COLUMN")
    wish: dict[str, Any] = {"method": method, "out": out, "task": task, "test": test, "seed": seed, "epochs": epochs}
    wish |= {"drop": drop or (), "weights": weights, "time": time, "group": group, "resume": resume, "force": force}
    _of_table(table, target or "", wish, json_wanted, quiet)


def _refuse(options: Mapping[str, object], why: str) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise ValueError(f"{given[0]} {why}")


def _of_table(table: Path, target: str, wish: Mapping[str, Any], json_wanted: bool, quiet: bool) -> None:
    notes, said = remarks(quiet), answers(quiet or json_wanted)
    failure = None

    def on_loaded(loaded: LoadedTable) -> None:
        _say_what_was_found(said, loaded)
        bar.say("training")

    with plain_warnings(notes), progress(notes) as bar:
        try:
            done = fit_table(table, target, on_loaded=on_loaded, listener=_listener(bar.say), **wish)
        except SavedElsewhereError as error:
            done, failure = error.run, str(error)
        except UnsavedError as error:
            complain(str(error))
            raise typer.Exit(FAILED) from None
    if failure is not None:
        complain(failure)
    _say_the_verdict(said, done)
    if json_wanted:
        answers().out(json.dumps(summary(done), indent=2, ensure_ascii=False, allow_nan=False))
    status = done.posterior.record.status
    if failure is not None or status is not Status.FINISHED:
        raise typer.Exit(INTERRUPTED if status is Status.INTERRUPTED else FAILED)


def _listener(say: Callable[[str, float | None], None]) -> Callable[[ValidationPoint], None]:
    last = best = 0
    began = monotonic()

    def listen(point: ValidationPoint) -> None:
        nonlocal last, best, began
        score = f"validation log likelihood per row {point.log_likelihood:.3f}"
        if point.candidate:
            say(f"choosing, {point.candidate}: {point.epochs:,} epochs, {score}", point.epochs / point.limit)
            began = monotonic()
        elif last < point.epochs <= point.limit:
            left = f"; at most {clock(time_left(monotonic() - began, point))} left" * (point.epochs < point.limit)
            reached = f"training: {point.epochs:,} epochs (at most {point.limit:,})"
            say(f"{reached}, {score}{left}", point.epochs / point.limit)
            last, best = point.epochs, point.epochs if point.best else best
        else:  # back to the best validation, and on from there
            say(f"cooling: {best:,} + {point.epochs - best:,} epochs, {score}", 1.0)

    return listen


def time_left(seconds: float, point: ValidationPoint) -> float:
    """Seconds until training ends at the latest, if it goes on as fast: it mostly ends before.

    Args:
        seconds: since the first epoch.
        point: where it is.

    Examples:
        >>> time_left(10.0, ValidationPoint(20, 100, -1.0, True))
        40.0
    """
    return seconds * (point.limit - point.epochs) / max(point.epochs, 1)


def _say_what_was_found(console: Console, loaded: LoadedTable) -> None:
    problem, parts = loaded.problem, loaded.parts
    kinds = Counter(column.kind.value for column in problem.columns if column.used)
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    missing = sum(column.missing for column in problem.columns if column.used)
    console.print(Text(f"{loaded.table.source}: {len(loaded.table.frame):,} rows", "bold"), soft_wrap=True)
    lines = [
        f"{problem.target!r} is predicted from {kinds.total()} column{'s' * (kinds.total() != 1)}: {counted}.",
        *(f"{note}." for note in problem.notes),
        f"{missing:,} missing cell{'s' * (missing != 1)}, filled in and marked by an extra input."
        if missing
        else "no cell is missing.",
        f"{len(parts.train):,} training rows, {len(parts.test):,} rows held out to judge the result.",
    ]
    for line in lines:
        tell(console, f"  {line}", hang=2)


def _say_the_verdict(console: Console, run: TableRun) -> None:
    evaluation: Evaluation = run.evaluation
    say_evaluation(console, evaluation)
    console.print(f"Report:  {run.report}", markup=False, soft_wrap=True)
    console.print(f"Predict: credo predict {run.folder} new.csv -o predictions.csv", markup=False, soft_wrap=True)


def summary(run: TableRun) -> dict[str, object]:
    """The result for a program to read."""
    evaluation, metadata = run.evaluation, run.metadata
    length, sides = metadata.training, ("model", "plain", "naive")
    return {
        "run": str(run.folder),
        "report": str(run.report),
        "task": evaluation.task,
        "target": evaluation.target,
        "method": metadata.method,
        "seed": metadata.seed,
        "trained": evaluation.trained,
        "held_out": evaluation.held_out,
        "seconds": round(metadata.seconds, 2),
        **({} if length is None else {"epochs": length.epochs, "cooling_epochs": length.cooling}),
        "finished": run.posterior.record.finished,
        "status": run.posterior.record.status.value,
        "scores": {score.id: {side: getattr(score, side) for side in sides} for score in evaluation.scores},
        "checks": [{"question": c.question, "rating": c.rating, "answer": c.answer} for c in evaluation.checks],
        "notes": [*metadata.notes, *run.posterior.notes],
    }
