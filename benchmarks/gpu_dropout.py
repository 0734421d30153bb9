"""Which rate MC dropout should have on a thousand digits: a grid, judged by images that are neither learned nor tested.

    CREDO_DATA=data python benchmarks/gpu_dropout.py [rates | repetitions | sampling | synthetic | log]

`rates`: for each rate, 24 networks of `credo reproduce dropout-mnist1k` (784-500-500-10, 200 epochs, the tutorial's
weight decay), and their accuracy on images 200 to 699 of each class of MNIST's training set, and on the test images of
the experiment. `repetitions`: at the rate of the tutorial's log, how far six repetitions on a GPU and six on a CPU
differ from one seed to the next. `sampling [REPETITIONS [NOISE]]`: what averaging draws does to variational dropout, by
its noise: `learned*`, `largest*` or `without*`. `synthetic [FOLDER [METHOD]]`: what one repetition of MC, concrete and
variational dropout makes of images that are no digits. `log`: the columns of the tutorial's training log.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from fnmatch import filter as fnfilter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import credo
from credo.data.sets import load
from credo.experiments.base import Progress
from credo.experiments.dropout_mnist1k.beliefs import beliefs_of
from credo.experiments.dropout_mnist1k.figures import side_by_side
from credo.experiments.dropout_mnist1k.log import log_lines
from credo.experiments.dropout_mnist1k.measure import seconds_of_an_epoch, train
from credo.experiments.dropout_mnist1k.problem import (
    BASE,
    CONCRETE,
    LOGGED_RATE,
    MC,
    VARIATIONAL,
    DropoutRow,
    dropped,
    logged,
    mnist,
    rows,
)
from credo.methods import Ensemble, Method, SparseVariationalDropout, VariationalDropout
from credo.posteriors import Draws, Posterior

RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
MEMBERS, DRAWS = 24, 100
SEEDS = range(12)


def split() -> dict[str, tuple[Tensor, Tensor]]:
    """Images of each class by their number in the training set."""
    data = load("mnist")
    x, y = torch.as_tensor(data.x).float() / 255.0, torch.as_tensor(data.y).long()
    each = [torch.nonzero(y == k).squeeze(1) for k in range(10)]
    parts = {"learned": (0, 100), "tested": (100, 200), "held out": (200, 700)}
    rows = {name: torch.cat([r[a:b] for r in each]) for name, (a, b) in parts.items()}
    return {name: (x[chosen], y[chosen]) for name, chosen in rows.items()}


def trained(row: DropoutRow, data: tuple[Tensor, Tensor], device: str, seed: int) -> Posterior:
    x, y = (t.to(device) for t in data)
    return credo.fit(
        row.model(784), (x, y), Ensemble(row.method, row.members), seed=seed, progress=False, device=device
    )


def accuracies(posterior: Posterior, data: tuple[Tensor, Tensor], device: str, members: int) -> str:
    """Mean and standard deviation over the repetitions, naive and by draws."""
    x, y = data[0].to(device), data[1]
    expected = posterior.at_mean()
    naive = _correct(expected.predict(x).draws, y)
    if isinstance(posterior, Draws):
        return _spread(naive)
    drawn = posterior.predict(x, DRAWS * members).draws.softmax(-1)
    sampled = _correct(torch.stack([drawn[m::members].mean(0) for m in range(members)]), y)
    return f"{_spread(naive)} / {_spread(sampled)}"


def _spread(values: Tensor) -> str:
    return f"{values.mean():.2f} ± {values.std():.2f}" if len(values) > 1 else f"{float(values[0]):.2f}"


def _correct(scores: Tensor, y: Tensor) -> Tensor:
    """Per cent of each member."""
    return (scores.argmax(-1).cpu() == y).float().mean(-1) * 100


def at_rate(rate: float, members: int) -> DropoutRow:
    table = {row.name: row for row in rows()}
    if rate == 0.0:
        return replace(table[BASE], members=members)
    return replace(table[MC], method=dropped(rate, epochs=200), members=members)


def compare_rates(data: dict[str, tuple[Tensor, Tensor]], device: str) -> None:
    print(f"rate   held out (naive / {DRAWS} draws)          tested                           seconds")
    for rate in RATES:
        begin = time.monotonic()
        posterior = trained(at_rate(rate, MEMBERS), data["learned"], device, 7)
        shown = [f"{accuracies(posterior, data[name], device, MEMBERS):<32}" for name in ("held out", "tested")]
        print(f"{rate:<6} {' '.join(shown)} {time.monotonic() - begin:.1f}", flush=True)


def repeat(data: dict[str, tuple[Tensor, Tensor]], device: str) -> None:
    for where in dict.fromkeys((device, "cpu")):
        for seed in SEEDS:
            posterior = trained(at_rate(LOGGED_RATE, 6), data["learned"], where, seed)
            print(f"{where} seed {seed}: {accuracies(posterior, data['tested'], where, 6)}", flush=True)


def noises() -> dict[str, Method]:
    """Variational dropout by what to call its noise."""
    learned = next(row for row in rows() if row.name == VARIATIONAL).method
    assert isinstance(learned, VariationalDropout)
    numbers = learned.epochs, learned.learning_rate, learned.batch_size
    held: dict[str, Any] = {"initial_alpha": 1.0, "noise_learning_rate": 1e-12}
    return {
        "learned, on every weight": learned,
        "learned, shared by the weights of a unit": replace(learned, correlated=True),
        "largest (alpha 1), on every weight": replace(learned, **held),
        "largest (alpha 1), shared by those of a unit": replace(learned, correlated=True, **held),
        "without a bound, on every weight": SparseVariationalDropout(*numbers, schedule=learned.schedule),
    }


def compare_noises(data: dict[str, tuple[Tensor, Tensor]], device: str, members: str = "5", noise: str = "*") -> None:
    table, count = next(row for row in rows() if row.name == VARIATIONAL), int(members)
    print(f"{'noise':<46} tested (naive / {DRAWS} draws), {count} repetition(s)")
    for name, method in noises().items():
        if fnmatchcase(name, noise):
            posterior = trained(replace(table, method=method, members=count), data["learned"], device, 7)
            print(f"{name:<46} {accuracies(posterior, data['tested'], device, count)}", flush=True)


def doubt_of_methods(data: dict[str, tuple[Tensor, Tensor]], device: str, folder: str = ".", method: str = "*") -> None:
    images, found = mnist(100), []
    for name in fnfilter((MC, CONCRETE, VARIATIONAL), method):
        row = replace(next(row for row in rows() if row.name == name), members=1)
        posterior = trained(row, (images.x, images.y), device, 0).to("cpu")
        found.append(beliefs_of(row.label, posterior, images, 0, DRAWS))
        print(f"{row.label}: entropy of the test digits {found[-1].ordinary:.3f}, ratio {found[-1].ratio:.2f}")
        for belief in found[-1].synthetic:
            most = int(belief.mean.argmax())
            chosen = f"a {most} with {float(belief.mean[most]):.2f} ± {float(belief.spread[most]):.2f}"
            print(f"    {belief.label:<28} {belief.entropy:.2f} nats; {chosen}", flush=True)
    side_by_side(Path(folder), found)


def training_log(data: dict[str, tuple[Tensor, Tensor]], device: str) -> None:
    images = mnist(100)
    for epoch, line in log_lines(logged(), images, 0, Progress()).items():
        print(f"epoch {epoch}: weight decay {line.decay:.6f}, accuracy {line.accuracy:.3f}", flush=True)
    result = train(logged(), images, 0, Progress())
    losses = ", ".join(f"{-line['log_likelihood']:.3f}" for line in result.posterior.history)
    print(f"losses {losses}; seconds an epoch {seconds_of_an_epoch(result):.3f}")


def main() -> None:
    tasks = {
        "rates": compare_rates,
        "repetitions": repeat,
        "sampling": compare_noises,
        "synthetic": doubt_of_methods,
        "log": training_log,
    }
    task = sys.argv[1] if len(sys.argv) > 1 else "rates"
    if task not in tasks:
        sys.exit(f"say what to do: {' or '.join(tasks)}; got {task!r}")
    tasks[task](split(), "cuda" if torch.cuda.is_available() else "cpu", *sys.argv[2:])


if __name__ == "__main__":
    main()
