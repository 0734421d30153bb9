"""Trains the rows, holds them against the tutorial's table, and looks at doubtful digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from statistics import fmean, stdev
from typing import Any

from torch import Tensor

from credo.data.errors import DataError
from credo.experiments.base import Claim, Outcome, Progress, Size, Table, uninterrupted
from credo.experiments.dropout_mnist1k.data import Images, digits, mnist, synthetic
from credo.experiments.dropout_mnist1k.figures import Accuracy, Look, accuracies, doubtful, keeps
from credo.experiments.dropout_mnist1k.rows import BASE, CONCRETE, LOG, MC, Row, logged, more_data, quick, rows
from credo.experiments.threads import one_thread
from credo.fit import fit
from credo.methods import Ensemble
from credo.nets.plan import Plan
from credo.posteriors import Draws, Dropout, Posterior
from credo.predictive import ClassPredictive

DRAWS = 100
"""S of the table."""
LOOKED = 1000
"""S of the pictures."""
LOGGED = (1, 5, 10)
"""Epochs whose training loss the tutorial prints."""
TRAINING = "training"
"""Where a run folder has its trainings as long as they are not all done."""
SHOWN = 4
"""Test digits in the picture: two that are clear and the two with most doubt."""


@dataclass(frozen=True)
class Found:
    """What a row reached: accuracy in per cent of the test images for each repetition.

    Attributes:
        row: what was trained.
        naive: by the weights at their expectation.
        sampled: by the average of 100 draws.
        seconds: of training all repetitions.
        posterior: of all repetitions.
    """

    row: Row
    naive: list[float]
    sampled: list[float]
    seconds: float
    posterior: Posterior

    @property
    def keeps(self) -> dict[str, Tensor]:
        """Learned probabilities to keep by layer, (M, units)."""
        rates = self.posterior.rates if isinstance(self.posterior, Dropout) else {}
        return {name: (1.0 - rate).flatten(1) for name, rate in rates.items()}


def run(claims: tuple[Claim, ...], size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Train the rows of a size and measure its claims."""
    full, others = size is Size.FULL, "part of the " + ("quick" if size is Size.FULL else "full") + " size"
    try:
        found, data = _full(folder / TRAINING, seed, progress) if full else _quick(seed, progress)
    except DataError as error:
        return Outcome({}, unmeasured={claim.id: str(error) if full else others for claim in claims})
    looks = _looks(found[MC], data, seed)
    progress.say("drawing figures")
    published = {claim.id: claim for claim in claims} if full else {}
    figures = (
        accuracies(
            folder,
            [
                _accuracies(f, published)
                for f in found.values()
                if f.row.per_class == data.per_class and f.row.name != LOG
            ],
        ),
        keeps(folder, {_size(f.row): f.keeps for f in found.values() if f.keeps}),
        *doubtful(folder, looks),
    )
    prefix = "" if full else "digits-"
    measured = {prefix + name: value for name, value in numbers(found, looks).items()}
    wanted = {claim.id for claim in claims}
    kept = {name: value for name, value in measured.items() if name in wanted}
    return Outcome(kept, tables(found), figures, {name: others for name in wanted if name not in kept})


def _full(folder: Path, seed: int, progress: Progress) -> tuple[dict[str, Found], Images]:
    data = mnist(100)
    found = {row.name: train(row, data, seed, progress, folder) for row in (*rows(), logged())}
    larger = more_data(found[CONCRETE].row)
    found[larger.name] = train(larger, mnist(larger.per_class), seed, progress, folder)
    rmtree(folder)  # some 250 MB, of use only to a run that was cut short
    return found, data


def _quick(seed: int, progress: Progress) -> tuple[dict[str, Found], Images]:
    with one_thread():
        data = digits(50)
        found = {row.name: train(row, data, seed, progress) for row in quick()}
        larger = replace(more_data(found[CONCRETE].row), per_class=120)
        return {**found, larger.name: train(larger, digits(larger.per_class), seed, progress)}, data


def train(row: Row, data: Images, seed: int, progress: Progress, folder: Path | None = None) -> Found:
    """All repetitions of a row at once, and the accuracy of each; a training that a folder has goes on from there."""
    told = progress.of(f"{row.label}, {len(data.x)} images, {row.members} repetitions")
    method = Ensemble(row.method, row.members)
    # a plan that is measured may differ from run to run, and with it the last digits, which training amplifies
    plan, model = Plan.ONE_BY_ONE, row.model(data.pixels)
    kept: dict[str, Any] = {} if folder is None else {"checkpoint": folder / row.name, "resume": True}
    posterior = uninterrupted(fit(model, (data.x, data.y), method, seed=seed, progress=told, plan=plan, **kept))
    seconds = posterior.record.seconds
    expected = Draws(posterior.model, posterior.point(), Draws.uniform(posterior.point()))
    naive = [_accuracy(one.unsqueeze(0), data.y_test) for one in expected.predict(data.x_test).draws]
    if isinstance(posterior, Draws):
        return Found(row, naive, naive, seconds, posterior)
    drawn = posterior.predict(data.x_test, DRAWS * row.members).draws
    # draws are dealt to the repetitions in turn
    sampled = [_accuracy(drawn[m :: row.members], data.y_test) for m in range(row.members)]
    return Found(row, naive, sampled, seconds, posterior)


def _accuracy(draws: Tensor, y: Tensor) -> float:
    return 100.0 * float((draws.softmax(-1).mean(0).argmax(-1) == y).double().mean())


def _looks(found: Found, data: Images, seed: int) -> dict[str, list[Look]]:
    """One repetition's beliefs about test digits, clear ones and doubtful ones, and about images that are none."""
    assert isinstance(found.posterior, Dropout)
    one = replace(found.posterior, variables=found.posterior.variables.take([0]))
    real = one.predict(data.x_test, LOOKED, seed)
    order = real.entropy.argsort()
    chosen = [int(i) for i in (*order[: SHOWN // 2], *order[-(SHOWN // 2) :])]
    odd = synthetic(data, seed)
    beliefs = [one.predict(o.image.unsqueeze(0), LOOKED, seed) for o in odd]
    return {
        "real": [_look(f"a {int(data.y_test[i])}", data.x_test[i], real, i) for i in chosen],
        "synthetic": [_look(o.label, o.image, belief, 0) for o, belief in zip(odd, beliefs, strict=True)],
        "all": [_look("", data.x_test[i], real, i) for i in range(len(data.x_test))],
    }


def _look(label: str, image: Tensor, prediction: object, row: int) -> Look:
    assert isinstance(prediction, ClassPredictive)
    probs = prediction.draws[:, row].softmax(-1)
    return Look(label, image, probs.mean(0), probs.std(0), float(prediction.entropy[row]))


def numbers(found: Mapping[str, Found], looks: Mapping[str, Sequence[Look]]) -> dict[str, float]:
    """What claims may be about."""
    measured: dict[str, float] = {}
    for name, result in found.items():
        measured |= {f"{name}/naive": fmean(result.naive), f"{name}/sampled": fmean(result.sampled)}
    small, large = (fmean(float(k.mean()) for k in found[n].keeps.values()) for n in (CONCRETE, f"{CONCRETE}-10000"))
    doubt = fmean(look.entropy for look in looks["synthetic"]) / fmean(look.entropy for look in looks["all"])
    gain = fmean(found[MC].sampled) - fmean(found[BASE].naive)
    told = found[LOG].posterior.history if LOG in found else []
    losses = {f"log-{epoch}": -told[epoch - 1]["log_likelihood"] for epoch in LOGGED if told}
    return {**measured, **losses, "gain": gain, "more-data": large - small, "doubt": doubt}


def _accuracies(found: Found, published: Mapping[str, Claim]) -> Accuracy:
    name = found.row.name
    claims = (published.get(f"{name}/naive"), published.get(f"{name}/sampled"))
    sampled = [] if isinstance(found.posterior, Draws) else found.sampled
    return Accuracy(found.row.label, found.naive, sampled, claims)


def _size(row: Row) -> str:
    return f"{10 * row.per_class:,} images"


def tables(found: Mapping[str, Found]) -> tuple[Table, ...]:
    """The tutorial's table, and the learned rates."""
    columns = ("method", "images", "repetitions", "naive, %", "MC, %", "seconds")
    lines = tuple(
        (f.row.label, _size(f.row), f.row.members, _spread(f.naive), _spread(f.sampled), round(f.seconds, 1))
        for f in found.values()
    )
    note = (
        "Accuracy on 1,000 test images (500 at the quick size), mean and standard deviation over the repetitions. "
        "Naive: weights at their expectation; MC: probabilities of 100 draws averaged. The base has one function."
    )
    learned = [(f, name, keep) for f in found.values() for name, keep in f.keeps.items()]
    rates = tuple((_size(f.row), name, *(_three(keep))) for f, name, keep in learned)
    told = "Of the units in front of a layer, all repetitions together."
    kept = Table("Learned probabilities to keep", ("images", "layer", "mean", "5 %", "95 %"), rates, told)
    return Table("Accuracy", columns, lines, note), kept


def _spread(values: Sequence[float]) -> str:
    return f"{fmean(values):.2f} ± {stdev(values):.2f}"


def _three(keep: Tensor) -> tuple[float, float, float]:
    flat = keep.flatten()
    return round(float(flat.mean()), 3), round(float(flat.quantile(0.05)), 3), round(float(flat.quantile(0.95)), 3)
