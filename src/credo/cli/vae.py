"""`credo vae`: images in, an autoencoder with a report out."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rich.text import Text

from credo.cli.console import answers, plain_warnings, progress, remarks, tell
from credo.loop.progress import Report
from credo.vision import AutoencoderRun, ImageSet, fit_autoencoder

STYLES = {"good": "green", "fair": "yellow", "poor": "bold red"}


def run(
    images: Path,
    out: Path,
    latent: int,
    likelihood: str,
    epochs: int | None,
    test: float,
    seed: int,
    resume: bool,
    force: bool,
    json_wanted: bool,
    quiet: bool,
) -> None:
    """The work of `credo vae`."""
    notes, said = remarks(quiet), answers(quiet or json_wanted)

    def on_loaded(found: ImageSet, count: int) -> None:
        shape = " x ".join(map(str, found.x.shape[1:]))
        held = len(found.x) + (0 if found.x_test is None else len(found.x_test)) - count
        said.print(Text(f"{found.source}: {count + held:,} images of {shape}", "bold"), soft_wrap=True)
        for line in (*(f"{note}." for note in found.notes), f"{count:,} to learn from, {held:,} held out to judge."):
            tell(said, f"  {line}", hang=2)

    def listen(report: Report) -> None:
        bound = report.numbers.get("validation_bound", report.numbers.get("bound"))
        words = "" if bound is None else f", bound {bound:.1f} nats per image"
        bar.say(f"training: {int(report.epoch):,} of {int(report.epochs):,} epochs{words}", report.step / report.total)

    with plain_warnings(notes), progress(notes) as bar:
        done = fit_autoencoder(
            images,
            out=out,
            latent=latent,
            likelihood=likelihood,
            epochs=epochs,
            test=test,
            seed=seed,
            resume=resume,
            force=force,
            on_loaded=on_loaded,
            listener=listen,
        )
    console = answers(quiet or json_wanted)
    console.print()
    for check in done.evaluation.checks:
        mark = Text(f"{check.rating:>6}  ", STYLES[check.rating])
        tell(console, mark + Text(check.question, "bold") + Text(f" {check.answer}"), hang=8)
    console.print()
    console.print(f"Report:  {done.report}", markup=False, soft_wrap=True)
    console.print(f'Python:  credo.vision.open_autoencoder_run("{done.folder}")', markup=False, soft_wrap=True)
    if json_wanted:
        answers().out(json.dumps(summary(done), indent=2, ensure_ascii=False, allow_nan=False))


def summary(run: AutoencoderRun) -> dict[str, object]:
    """The result for a program to read."""
    return {"run": str(run.folder), "report": str(run.report), **asdict(run.evaluation)}
