"""Which rate MC dropout should have on a thousand digits: a grid, judged by images that are neither learned nor tested.

    CREDO_DATA=data python benchmarks/gpu_dropout.py [rates | repetitions]

`rates`: for each rate, 24 networks of `credo reproduce dropout-mnist1k` (784-500-500-10, 200 epochs, the tutorial's
weight decay), and their accuracy on images 200 to 699 of each class of MNIST's training set, and on the test images of
the experiment. `repetitions`: at the rate of the tutorial's log, how far six repetitions on a GPU and six on a CPU
differ from one seed to the next.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import torch
from torch import Tensor

import credo
from credo.data.sets import load
from credo.experiments.dropout_mnist1k.problem import BASE, LOGGED_RATE, MC, DropoutRow, dropped, rows
from credo.methods import Ensemble
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
        return f"{naive.mean():.2f} ± {naive.std():.2f}"
    drawn = posterior.predict(x, DRAWS * members).draws.softmax(-1)
    sampled = _correct(torch.stack([drawn[m::members].mean(0) for m in range(members)]), y)
    return f"{naive.mean():.2f} ± {naive.std():.2f} / {sampled.mean():.2f} ± {sampled.std():.2f}"


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


def main() -> None:
    tasks = {"rates": compare_rates, "repetitions": repeat}
    task = sys.argv[1] if len(sys.argv) > 1 else "rates"
    if task not in tasks:
        sys.exit(f"say what to do: {' or '.join(tasks)}; got {task!r}")
    tasks[task](split(), "cuda" if torch.cuda.is_available() else "cpu")


if __name__ == "__main__":
    main()
