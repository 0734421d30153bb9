"""What the rows of the tutorial's table reach, and what the draws believe about doubtful digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from shutil import rmtree
from statistics import fmean, median, stdev
from typing import Any

from torch import Tensor

from credo.core.threads import one_thread
from credo.experiments.base import Claim, Progress, Table, uninterrupted
from credo.experiments.dropout_mnist1k.beliefs import Beliefs
from credo.experiments.dropout_mnist1k.problem import (
    BASE,
    CONCRETE,
    LOG,
    MC,
    DigitImages,
    DropoutRow,
    digits,
    logged,
    mnist,
    more_data,
    quick,
    rows,
)
from credo.fit import fit
from credo.methods import Ensemble
from credo.nets.plan import Plan
from credo.posteriors import Draws, Dropout, Posterior

DRAWS = 100
"""S of the table."""
LOGGED = (1, 5, 10)
"""Epochs of the tutorial's log whose loss is compared."""
TRAINING = "training"
"""Where a run folder has its trainings as long as they are not all done."""


@dataclass(frozen=True)
class DropoutResult:
    """What a row reached: accuracy in per cent of the test images for each repetition.

    Attributes:
        row: what was trained.
        naive: by the weights at their expectation.
        sampled: by the average of 100 draws.
        seconds: of training all repetitions.
        posterior: of all repetitions.
    """

    row: DropoutRow
    naive: list[float]
    sampled: list[float]
    seconds: float
    posterior: Posterior

    @property
    def keeps(self) -> dict[str, Tensor]:
        """Learned probabilities to keep by layer, (M, units)."""
        rates = self.posterior.rates if isinstance(self.posterior, Dropout) else {}
        return {name: (1.0 - rate).flatten(1) for name, rate in rates.items()}


@dataclass(frozen=True)
class Accuracy:
    """Of one row: accuracies of its repetitions in per cent, and the claims about their means, where there are any."""

    label: str
    naive: Sequence[float]
    sampled: Sequence[float]
    published: tuple[Claim | None, Claim | None]


def full_results(folder: Path, seed: int, progress: Progress) -> tuple[dict[str, DropoutResult], DigitImages]:
    """The rows of the tutorial, and the images that they were trained on.

    Raises:
        DataError: MNIST is not at hand.
    """
    data = mnist(100)
    found = {row.name: train(row, data, seed, progress, folder) for row in (*rows(), logged())}
    larger = more_data(found[CONCRETE].row)
    found[larger.name] = train(larger, mnist(larger.per_class), seed, progress, folder)
    rmtree(folder)  # some 250 MB, of use only to a run that was cut short
    return found, data


def quick_results(seed: int, progress: Progress) -> tuple[dict[str, DropoutResult], DigitImages]:
    """Small rows, and the images that they were trained on."""
    with one_thread():
        data = digits(50)
        found = {row.name: train(row, data, seed, progress) for row in quick()}
        larger = replace(more_data(found[CONCRETE].row), per_class=120)
        return {**found, larger.name: train(larger, digits(larger.per_class), seed, progress)}, data


def train(
    row: DropoutRow, data: DigitImages, seed: int, progress: Progress, folder: Path | None = None
) -> DropoutResult:
    """All repetitions of a row at once, and the accuracy of each; a training that the folder has is resumed."""
    listener = progress.of(f"{row.label}, {len(data.x)} images, {row.members} repetitions")
    method = Ensemble(row.method, row.members)
    # a plan that is measured may differ from run to run, and with it the last digits, which training amplifies
    plan, model = Plan.ONE_BY_ONE, row.model(data.pixels)
    resumable: dict[str, Any] = {} if folder is None else {"checkpoint": folder / row.name, "resume": True}
    fitted = fit(model, (data.x, data.y), method, seed=seed, progress=listener, plan=plan, **resumable)
    posterior = uninterrupted(fitted, row.members)
    seconds = posterior.record.seconds
    expected = posterior.at_mean()
    naive = [_accuracy(one.unsqueeze(0), data.y_test) for one in expected.predict(data.x_test).draws]
    if isinstance(posterior, Draws):
        return DropoutResult(row, naive, naive, seconds, posterior)
    drawn = posterior.predict(data.x_test, DRAWS * row.members).draws
    # draws are dealt to the repetitions in turn
    sampled = [_accuracy(drawn[m :: row.members], data.y_test) for m in range(row.members)]
    return DropoutResult(row, naive, sampled, seconds, posterior)


def _accuracy(draws: Tensor, y: Tensor) -> float:
    return 100.0 * float((draws.softmax(-1).mean(0).argmax(-1) == y).double().mean())


def numbers(found: Mapping[str, DropoutResult], beliefs: Mapping[str, Beliefs]) -> dict[str, float]:
    """What claims may be about."""
    measured: dict[str, float] = {}
    for name, result in found.items():
        measured |= {f"{name}/naive": fmean(result.naive), f"{name}/sampled": fmean(result.sampled)}
    small, large = (fmean(float(k.mean()) for k in found[n].keeps.values()) for n in (CONCRETE, f"{CONCRETE}-10000"))
    doubts = {"doubt" if name == MC else f"doubt-{name}": each.ratio for name, each in beliefs.items()}
    gain = fmean(found[MC].sampled) - fmean(found[BASE].naive)
    history = found[LOG].posterior.history if LOG in found else []
    losses = {f"log-{epoch}": -history[epoch - 1]["log_likelihood"] for epoch in LOGGED if history}
    seconds = {"log-seconds": seconds_of_an_epoch(found[LOG])} if history else {}
    return {**measured, **losses, **seconds, **doubts, "gain": gain, "more-data": large - small}


def seconds_of_an_epoch(result: DropoutResult) -> float:
    """Of one repetition, after the first epoch: the median."""
    times = [line["seconds"] for line in result.posterior.history]
    return median(later - earlier for earlier, later in pairwise(times)) / result.row.members


def accuracy_of(result: DropoutResult, published: Mapping[str, Claim]) -> Accuracy:
    """The accuracies of a row beside the claims about them."""
    name = result.row.name
    claims = (published.get(f"{name}/naive"), published.get(f"{name}/sampled"))
    sampled = [] if isinstance(result.posterior, Draws) else result.sampled
    return Accuracy(result.row.label, result.naive, sampled, claims)


def size_of(row: DropoutRow) -> str:
    """How many images a row learns from, in words."""
    return f"{10 * row.per_class:,} images"


def tables(found: Mapping[str, DropoutResult]) -> tuple[Table, ...]:
    """The tutorial's table, and the learned rates."""
    columns = ("method", "images", "repetitions", "naive, %", "MC, %", "seconds")
    lines = tuple(
        (f.row.label, size_of(f.row), f.row.members, _spread(f.naive), _spread(f.sampled), round(f.seconds, 1))
        for f in found.values()
    )
    note = (
        "Accuracy on 1,000 test images (500 at the quick size), mean and standard deviation over the repetitions. "
        "Naive: weights at their expectation; MC: probabilities of 100 draws averaged. The base has one function."
    )
    learned = [(f, name, keep) for f in found.values() for name, keep in f.keeps.items()]
    rates = tuple((size_of(f.row), name, *(_three(keep))) for f, name, keep in learned)
    units = "Of the units in front of a layer, all repetitions together."
    learned_rates = Table("Learned probabilities to keep", ("images", "layer", "mean", "5 %", "95 %"), rates, units)
    return Table("Accuracy", columns, lines, note), learned_rates


def _spread(values: Sequence[float]) -> str:
    return f"{fmean(values):.2f} ± {stdev(values):.2f}"


def _three(keep: Tensor) -> tuple[float, float, float]:
    flat = keep.flatten()
    return round(float(flat.mean()), 3), round(float(flat.quantile(0.05)), 3), round(float(flat.quantile(0.95)), 3)
