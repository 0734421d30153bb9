"""`credo fit`, `credo predict` and `credo report` where they are about images."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import typer
from rich.console import Console
from rich.text import Text

from credo.cli.console import (
    answers,
    check_new,
    check_place,
    plain_warnings,
    progress,
    remarks,
    say_evaluation,
    tell,
    write,
)
from credo.cli.main import FAILED, complain
from credo.cli.options import STDOUT
from credo.core.folders import SavedElsewhereError, UnsavedError
from credo.core.status import Status
from credo.core.storage import write_folder
from credo.data import DataError
from credo.reports import words
from credo.reports.image_page import of_images
from credo.reports.progress import Progress
from credo.vision.fitting import LoadedImages, fit_folder
from credo.vision.folder import images_below
from credo.vision.runs import REPORT, VisionRun, open_vision_run
from credo.vision.saving import image_report

Say = Callable[[str, float | None], None]


def run(folder: Path, *, out: Path, json_wanted: bool, quiet: bool, **options: Any) -> None:
    """The work of `credo fit` on a folder of images."""
    notes, said = remarks(quiet), answers(quiet or json_wanted)
    failure = None
    with plain_warnings(notes), progress(notes) as bar:
        try:
            done = fit_folder(
                folder,
                out=out,
                on_loaded=lambda loaded: _say_what_was_found(said, loaded),
                say=_saying(bar, notes),
                **options,
            )
        except SavedElsewhereError as error:
            done, failure = error.run, str(error)
        except UnsavedError as error:
            complain(str(error))
            raise typer.Exit(FAILED) from None
    if failure is not None:
        complain(failure)
    say_evaluation(said, done.evaluation, of_images)
    said.print(f"Report:  {done.report}", markup=False, soft_wrap=True)
    said.print(f"Predict: credo predict {done.folder} new-photos -o predictions.csv", markup=False, soft_wrap=True)
    if json_wanted:
        answers().out(json.dumps(summary(done), indent=2, ensure_ascii=False, allow_nan=False))
    if failure is not None or done.posterior.record.status is not Status.FINISHED:
        raise typer.Exit(FAILED)


def _saying(bar: Progress, console: Console) -> Say:
    """What moves on a terminal; elsewhere one line for each new thing that is done."""

    def say(text: str, share: float | None) -> None:
        bar.say(text if console.is_terminal else text.partition(":")[0], share)

    return say


def _say_what_was_found(console: Console, loaded: LoadedImages) -> None:
    folder, shape = loaded.folder, loaded.images.shape
    console.print(Text(f"{folder.root}: {len(folder.files):,} images of {len(folder.classes)} classes", "bold"))
    colors = "gray" if shape.channels == 1 else "color"
    lines = [
        *(f"{note}." for note in loaded.notes),
        f"each is brought to {shape.size} x {shape.size} pixels in {colors}.",
        f"{len(loaded.parts.train):,} training images, {len(loaded.parts.test):,} held out to judge the result.",
    ]
    for line in lines:
        tell(console, f"  {line}", hang=2)


def summary(run: VisionRun) -> dict[str, object]:
    """The result for a program to read."""
    evaluation, metadata, sides = run.evaluation, run.metadata, ("model", "plain", "naive")
    checks = [
        {"question": of_images(c.question), "rating": c.rating, "answer": of_images(c.answer)}
        for c in evaluation.checks
    ]
    return {
        "run": str(run.folder),
        "report": str(run.report),
        "task": evaluation.task,
        "classes": dict(zip(metadata.classes, metadata.counts, strict=True)),
        "method": metadata.method,
        "network": metadata.network,
        "size": metadata.size,
        "channels": metadata.channels,
        "seed": metadata.seed,
        "trained": evaluation.trained,
        "held_out": evaluation.held_out,
        "false_alarms": run.alarms.false_alarms,
        "seconds": round(metadata.seconds, 2),
        "epochs": metadata.epochs,
        "finished": run.posterior.record.finished,
        "status": run.posterior.record.status.value,
        "scores": {score.id: {side: getattr(score, side) for side in sides} for score in evaluation.scores},
        "checks": checks,
        "notes": [*metadata.notes, *run.posterior.notes],
    }


def predict(run: Path, given: list[Path], out: Path, json_wanted: bool, quiet: bool, force: bool) -> None:
    """The work of `credo predict` with a run of images."""
    notes, files = remarks(quiet), _files(given)
    check_place(out, files)
    opened = open_vision_run(run)
    check_new(out, force)
    with plain_warnings(notes), progress(notes) as bar:
        frame = opened.predict(files, _saying(bar, notes))
    write(out, _text(frame, json_wanted).encode())
    if not _summarize(answers(quiet) if out != STDOUT else notes, frame, out):
        complain("none of the files could be read as an image")
        raise typer.Exit(FAILED)


def _files(given: list[Path]) -> list[Path]:
    """The images that are named, and those of the folders that are."""
    files: list[Path] = []
    for path in given:
        if not path.exists():
            raise DataError(f"{path} does not exist: give images, or folders of images")
        found = images_below(path) if path.is_dir() else [path]
        if not found:
            raise DataError(f"{path} holds no image")
        files += found
    return files


def _text(frame: pd.DataFrame, json_wanted: bool) -> str:
    if not json_wanted:
        return str(frame.to_csv(index=False))
    return json.dumps(json.loads(frame.to_json(orient="records", double_precision=15)), ensure_ascii=False) + "\n"


def _summarize(console: Console, frame: pd.DataFrame, out: Path) -> int:
    """Says what was predicted, and returns how many images that are."""
    unreadable = int(frame["why"].str.startswith("not readable").sum())
    rings = int(frame["alarm"].sum()) - unreadable
    predicted = len(frame) - unreadable
    parts = [f"{predicted:,} image{'s' * (predicted != 1)} predicted"]
    parts.append(f"the alarm rings for {rings:,}" if rings else "the alarm rings for none")
    if unreadable:
        parts.append(f"{unreadable:,} could not be read")
    place = "" if out == STDOUT else f" Written to {out}."
    console.print(f"{'; '.join(parts)}.{place}", markup=False, soft_wrap=True)
    return predicted


def report(run: Path, json_wanted: bool, quiet: bool) -> None:
    """The work of `credo report` with a run of images."""
    opened = open_vision_run(run)
    write_folder(run, {REPORT: image_report(opened, run.resolve().name)}, {})
    if json_wanted:
        found = {"report": str(opened.report), "evaluation": opened.evaluation.to_json()}
        answers().out(json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False))
        return
    console, evaluation = answers(quiet), opened.evaluation
    for line in (
        *map(of_images, words.summary(evaluation)),
        words.verdict_line(evaluation),
        f"Report: {opened.report}",
    ):
        console.print(line, markup=False, soft_wrap=True)
