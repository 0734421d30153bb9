"""Three autoencoders of binarized images that differ in the bound they climb, and the log p(x) that each reaches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

import torch
from torch import Tensor

from credo.experiments.base import Cell, Progress, Table
from credo.experiments.vae_mnist.problem import BoundRow, GrayImages
from credo.generative import FittedVAE, fit

TRAINING = "training"
"""Where a run folder has a training as long as it is not done."""


@dataclass(frozen=True)
class BoundResult:
    """What a row reached.

    Attributes:
        name: the row's.
        log_prob: mean over test images of the estimate of log p(x), in nats.
        stderr: its standard error over test images.
        elbo: mean evidence lower bound of the same images.
        active: latent dimensions that carry information.
        curve: the bound that was climbed, by epoch.
        draws: of z in training.
        samples: of z for each test image.
        tested: test images.
        steps: of training.
        seconds: of training.
        device: what it was trained on.
    """

    name: str
    log_prob: float
    stderr: float
    elbo: float
    active: int
    curve: list[float]
    draws: int
    samples: int
    tested: int
    steps: int
    seconds: float
    device: str


def train(row: BoundRow, data: GrayImages, folder: Path, seed: int, progress: Progress, device: str) -> BoundResult:
    """Train an autoencoder, or resume its training, and estimate log p(x) of test images."""
    place = folder / TRAINING / row.name
    fitted = finished(
        fit(
            row.vae,
            data.x,
            row.method,
            seed=seed,
            device=device,
            checkpoint=place,
            resume=True,
            progress=progress.of(f"{row.name}: {row.method.samples} draws of z, {row.method.epochs} epochs"),
        )
    )
    progress.say(f"{row.name}: log p(x) of {row.tested:,} test images by {row.samples:,} draws each")
    x = spread_over(data.x_test, row.tested)
    values = fitted.log_prob(x, row.samples, seed).double().cpu()
    elbo = float(fitted.bounds(x, 5, seed).elbo.mean())
    rmtree(place, ignore_errors=True)
    return BoundResult(
        row.name,
        float(values.mean()),
        float(values.std()) / math.sqrt(len(values)),
        elbo,
        int(fitted.active(x).sum()),
        [line["bound"] for line in fitted.history],
        row.method.samples,
        row.samples,
        row.tested,
        row.method.steps(-(-len(data.x) // (row.method.batch_size or len(data.x)))),
        fitted.posterior.record.seconds,
        device if device == "cpu" else torch.cuda.get_device_name(),
    )


def finished(fitted: FittedVAE) -> FittedVAE:
    """The autoencoder, or KeyboardInterrupt where Ctrl-C cut its training short."""
    if fitted.posterior.record.interrupted:
        raise KeyboardInterrupt
    return fitted


def spread_over(x: Tensor, count: int) -> Tensor:
    """So many examples, evenly from all of them."""
    return x[torch.linspace(0, len(x) - 1, min(count, len(x))).round().long()]


def numbers(found: Mapping[str, BoundResult]) -> dict[str, float]:
    """What claims may be about: every row's log p(x), and what more draws in training add to it."""
    measured = {f"{name}/log-prob": result.log_prob for name, result in found.items()}
    for suffix in ("", "-short", "-digits"):
        names = [f"{name}{suffix}" for name in ("vae", "iwae-5", "iwae-50")]
        if all(name in found for name in names):
            plain, few, many = (found[name].log_prob for name in names)
            measured |= {f"order{suffix}": min(few - plain, many - few)}
    return measured


def table(found: Mapping[str, BoundResult]) -> tuple[Table, ...]:
    """All rows."""
    if not found:
        return ()
    columns = ("row", "draws", "steps", "log p(x)", "s.e.", "ELBO", "active", "seconds", "device")
    lines: list[tuple[Cell, ...]] = [
        (
            result.name,
            result.draws,
            result.steps,
            round(result.log_prob, 2),
            round(result.stderr, 2),
            round(result.elbo, 2),
            result.active,
            round(result.seconds),
            result.device,
        )
        for result in found.values()
    ]
    note = (
        "Draws of z in training (one: the ELBO; more: the importance-weighted bound). log p(x) of "
        "test images, binarized alike for all rows of a size, by importance sampling; s.e.: over images. Active: "
        "dimensions of z that carry information."
    )
    return (Table("Three bounds", columns, tuple(lines), note),)
