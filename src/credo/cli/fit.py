"""`credo fit`: a table in, a posterior with a report out."""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from credo.cli.display import answers, plain_warnings, progress, remarks, tell
from credo.cli.main import complain
from credo.cli.pipeline import Fitted, Found, Order, find_out, train_and_judge
from credo.cli.unfinished import check_order, has_begun, keep_order, training_place
from credo.core.record import CredoWarning
from credo.core.storage import StorageError
from credo.data.task import Task
from credo.estimators.recipes import RECIPES
from credo.estimators.training import COOLING, Look
from credo.experiments.threads import one_thread
from credo.reports import words
from credo.reports.page import page
from credo.tabular.evaluation import Evaluation
from credo.tabular.runs import PREDICTIONS, REPORT, check_place, write_run

STYLES = {"good": "green", "fair": "yellow", "poor": "bold red"}
FAILED, INTERRUPTED = 1, 130
EPOCHS = (
    f"At most so many passes over the data; {100 * COOLING:.0f} % more, with a falling learning rate (cooling), follow "
    "where they help. For vi: just so many."
)

app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)


@app.command()
def fit(
    table: Annotated[Path, typer.Argument(help="A CSV file (any separator, gzipped or not) or a Parquet file.")],
    target: Annotated[str, typer.Option("--target", "-t", help="Name of the column to predict.")],
    method: Annotated[
        str,
        typer.Option(
            "--method", "-m", help=f"{', '.join(RECIPES)}; see: credo methods.", autocompletion=lambda: [*RECIPES]
        ),
    ] = "ensemble",
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the run.")] = Path("run"),
    task: Annotated[
        Task | None,
        typer.Option(metavar="<task>", help=f"{' or '.join(task.value for task in Task)}; found out when not given."),
    ] = None,
    test: Annotated[float, typer.Option(help="Part of the rows that is held out to judge the result.")] = 0.2,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    epochs: Annotated[int | None, typer.Option(min=1, metavar="<int>", help=EPOCHS, show_default="found out")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column not to learn from; may be repeated.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was interrupted.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a run that lies in the folder.")] = False,
    json_wanted: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors (and JSON).")] = False,
) -> None:
    """Learn from a table, and say how far the predictions can be trusted.

    Finds out what the columns are, holds some rows back, trains a neural network with error bars, judges it by the rows
    held back, and writes a folder with the posterior and a report for people (report.html). Ctrl-C loses nothing: the
    same command with --resume goes on where it stopped, to the same numbers.

    Exit code: 0 done, 1 it could not be done, 2 something in the command or the file must change, 130 interrupted.

    Examples:

        credo fit houses.csv --target price

        credo fit patients.parquet -t outcome --drop name --out patients-run

        credo fit wine.csv -t quality --task classification --json --quiet
    """
    order = Order(table, target, method, task, test, seed, epochs, tuple(drop or ()))
    told, said = remarks(quiet), answers(quiet or json_wanted)
    check_place(out, force=force)
    training = training_place(out, resume=resume, force=force)
    check_order(training, order, out)
    found = find_out(order)
    _say_what_was_found(said, found)
    # networks of this size spend more time on handing work to threads than on the work
    with plain_warnings(told), progress(told) as bar, one_thread(), _ended_by_ctrl_c(training):
        keep_order(training, order)
        fitted = train_and_judge(found, _listener(bar.say), training)
        bar.say("writing the report")
        place = _write(out, fitted)
    shutil.rmtree(training, ignore_errors=True)
    _say_the_verdict(said, fitted.evaluation, place)
    if json_wanted:
        answers().out(json.dumps(summary(fitted, place), indent=2, ensure_ascii=False, allow_nan=False))
    _leave(fitted, place, out)


@contextmanager
def _ended_by_ctrl_c(training: Path) -> Iterator[None]:
    """Let Ctrl-C in training end the command; the loop alone would keep what there is and go on to the next look."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="interrupted", category=CredoWarning)
        try:
            yield
        except (CredoWarning, KeyboardInterrupt):
            if has_begun(training):
                complain("what was learnt so far is kept: the same command with --resume goes on with it")
            raise KeyboardInterrupt from None
        finally:
            if not has_begun(training):
                shutil.rmtree(training, ignore_errors=True)


def _listener(say: Callable[[str, float | None], None]) -> Callable[[Look], None]:
    say("training", None)
    last = best = 0

    def hear(look: Look) -> None:
        nonlocal last, best
        seen = f"{look.log_likelihood:.3f} nats per row not learnt from"
        if last < look.epochs <= look.limit:
            say(f"training: {look.epochs:,} epochs, {seen}", look.epochs / look.limit)
            last, best = look.epochs, look.epochs if look.best else best
        else:  # back to the best look, and on from there
            say(f"cooling: {best:,} + {look.epochs - best:,} epochs, {seen}", 1.0)

    return hear


def _say_what_was_found(console: Console, found: Found) -> None:
    problem, parts = found.problem, found.parts
    kinds = Counter(column.kind.value for column in problem.columns if column.used)
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    missing = sum(column.missing for column in problem.columns if column.used)
    console.print(Text(f"{found.table.source}: {len(found.table.frame):,} rows", "bold"), soft_wrap=True)
    lines = [
        f"{problem.target!r} is predicted from {kinds.total()} column{'s' * (kinds.total() != 1)}: {counted}.",
        *(f"{note}." for note in problem.notes),
        f"{missing:,} cells are missing; they are filled, and the network is told."
        if missing
        else "no cell is missing.",
        f"{len(parts.train):,} rows to learn from, {len(parts.test):,} held out to judge.",
    ]
    for line in lines:
        tell(console, f"  {line}", hang=2)


def _say_the_verdict(console: Console, evaluation: Evaluation, place: Path) -> None:
    console.print()
    for sentence in words.summary(evaluation):
        tell(console, sentence)
    console.print()
    for check in evaluation.checks:
        mark = Text(f"{check.rating:>6}  ", STYLES[check.rating])
        tell(console, mark + Text(check.question, "bold") + Text(f" {check.answer}"), hang=8)
    console.print()
    console.print(words.verdict_line(evaluation), markup=False, soft_wrap=True)
    console.print(f"Report:  {place / REPORT}", markup=False, soft_wrap=True)
    console.print(f"Predict: credo predict {place} new.csv -o predictions.csv", markup=False, soft_wrap=True)


def summary(fitted: Fitted, place: Path) -> dict[str, object]:
    """The result for a program to read."""
    evaluation = fitted.evaluation
    lesson, sides = fitted.story.lesson, ("model", "plain", "naive")
    return {
        "run": str(place),
        "report": str(place / REPORT),
        "task": evaluation.task,
        "target": evaluation.target,
        "method": fitted.story.method,
        "seed": fitted.story.seed,
        "trained": evaluation.trained,
        "held_out": evaluation.held_out,
        "seconds": round(fitted.story.seconds, 2),
        **({} if lesson is None else {"epochs": lesson.epochs, "cooling_epochs": lesson.cooling}),
        "finished": fitted.posterior.record.finished,
        "scores": {score.id: {side: getattr(score, side) for side in sides} for score in evaluation.scores},
        "checks": [{"question": c.question, "rating": c.rating, "answer": c.answer} for c in evaluation.checks],
        "notes": [*fitted.story.notes, *fitted.posterior.notes],
    }


def _write(out: Path, fitted: Fitted) -> Path:
    """Write the run; where that fails after all, into a temporary folder, so that the training is not lost."""
    try:
        write_fitted(out, fitted)
        return out
    except StorageError as error:
        complain(str(error))
    spare = Path(tempfile.mkdtemp(prefix="credo-"))
    try:
        write_fitted(spare / out.resolve().name, fitted)
    except StorageError:
        shutil.rmtree(spare, ignore_errors=True)
        complain(f"nor could it be saved to {spare}: make room, and give the same command with --resume")
        raise typer.Exit(FAILED) from None
    complain(f"the run was saved to {spare / out.resolve().name} instead")
    return spare / out.resolve().name


def write_fitted(folder: Path, fitted: Fitted) -> None:
    """Write a run with its predictions and its report."""
    record = fitted.posterior.record
    html = page(fitted.story, fitted.evaluation, record.history, record.notes, folder.resolve().name)
    texts = {PREDICTIONS: fitted.predictions.to_csv(index=False), REPORT: html}
    write_run(folder, fitted.posterior, fitted.story, fitted.encoder, fitted.evaluation, texts)


def _leave(fitted: Fitted, place: Path, wished: Path) -> None:
    if place != wished:
        raise typer.Exit(FAILED)
    if not fitted.posterior.record.finished:
        interrupted = any(note.startswith("interrupted") for note in fitted.posterior.notes)
        raise typer.Exit(INTERRUPTED if interrupted else FAILED)
