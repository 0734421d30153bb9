"""How much memory large things take: a net of 100 million weights, and a million predictions of 100 draws.

Each case runs in a process of its own; what is counted is the highest resident memory after the case's own data and the
caller's module were made, less what there was by then. Run with `python benchmarks/memory.py`.

training: a step of MAP beside a loop by hand with `torch.optim.AdamW`, both beside the caller's module.
lengths: fits and predictions on inputs of 1,500 lengths, each of which is traced once.
prediction: mean, standard deviation and interval of a million rows under 100 draws, on as many threads as torch takes
(`OMP_NUM_THREADS`).
"""

from __future__ import annotations

import copy
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

import credo
from credo import likelihoods

WIDTH, LAYERS = 5000, 4
MIB = 2**20


def large(width: int = WIDTH) -> nn.Module:
    """With 4 x 25 million weights and few more."""
    inner = [each for _ in range(LAYERS) for each in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(nn.Linear(10, width), *inner, nn.Linear(width, 1))


def by_hand(net: nn.Module, x: Tensor, y: Tensor) -> None:
    trained = copy.deepcopy(net)
    optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-4)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.mse_loss(trained(x), y).backward()
        optimizer.step()


def by_map(net: nn.Module, x: Tensor, y: Tensor) -> None:
    model = credo.Model(net, likelihoods.Gaussian())
    credo.fit(model, (x, y), credo.MAP(epochs=3, learning_rate=1e-4), progress=False)


def training(run: Callable[[nn.Module, Tensor, Tensor], None]) -> Callable[[], str]:
    net, x = large(), torch.randn(32, 10)
    y = x.sum(1, keepdim=True)

    def case() -> str:
        run(net, x, y)
        return ""

    return case


def lengths() -> Callable[[], str]:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.inner(x.unsqueeze(-1)).mean(1)
            return result

    x = torch.randn(8, 4)
    posterior = credo.fit(credo.Model(Sum(), likelihoods.Gaussian()), (x, x.sum(1)), credo.MAP(epochs=1))

    def case() -> str:
        for length in range(1, 1501):
            posterior.predict(torch.ones(2, length)).mean.sum()
        return ""

    return case


def prediction() -> Callable[[], str]:
    x = torch.randn(1_000_000, 8)
    net = credo.nets.MLP(8, 1, hidden=(32,))
    small = x[:256]
    posterior = credo.fit(net, (small, small.sum(1)), credo.BayesByBackprop(epochs=20), progress=False)

    def case() -> str:
        begin = time.perf_counter()
        predicted = posterior.predict(x, draws=100)
        drawn = time.perf_counter()
        moments = predicted.mean, predicted.stddev
        middle = time.perf_counter()
        lower, upper = predicted.interval(0.95)
        end = time.perf_counter()
        inside = ((moments[0] > lower) & (moments[0] < upper)).double().mean()
        times = f"draws {drawn - begin:.1f} s, moments {middle - drawn:.1f} s, interval {end - middle:.1f} s"
        return f"{times}, mean inside {float(inside):.4f}"

    return case


CASES: dict[str, Callable[[], Callable[[], str]]] = {
    "AdamW by hand": lambda: training(by_hand),
    "MAP": lambda: training(by_map),
    "1,500 lengths": lengths,
    "a million rows": prediction,
}


def resident() -> float:
    """MiB in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / MIB


def measure(name: str) -> None:
    """Print the MiB that a case takes, and what it says."""
    case = CASES[name]()
    before, said = resident(), case()
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{highest - before:.0f} {said}")


def main() -> None:
    found = dict[str, float]()
    for name in sys.argv[1:] or CASES:
        command = [sys.executable, __file__, "--case", name]
        result = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        found[name] = float(result.split()[0])
        print(f"{name:<16} {result.split()[0]:>6} MiB {' '.join(result.split()[1:])}")
    if {"MAP", "AdamW by hand"} <= found.keys():
        print(f"MAP takes {found['MAP'] / found['AdamW by hand']:.2f} times as much as AdamW by hand")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--case"]:
        measure(sys.argv[2])
    else:
        main()
