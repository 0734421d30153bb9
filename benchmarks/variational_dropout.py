"""The speed of variational dropout against plain torch: ratios in one run, interleaved, best of several repeats.

A step of a net 784-500-500-10 on batches of 100, against a plain step of the same net with `nn.Dropout` behind both
hidden layers and torch's fused Adam. Steps alone are timed: a fit looks at the network once before its first, and two
fits of different length tell the one from the other.
"""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F
from torch import nn

import credo
from credo import likelihoods
from timing import HEADER, row

STEPS, BATCH, REPEATS = 30, 100, 7
PROMISE = 1.6
METHODS = {
    "MC dropout": credo.MCDropout(epochs=1, batch_size=BATCH),
    "one alpha for a layer": credo.VariationalDropout(epochs=1, batch_size=BATCH),
    "one for each unit": credo.VariationalDropout(epochs=1, batch_size=BATCH, sharing="unit"),
    "one for each weight": credo.VariationalDropout(epochs=1, batch_size=BATCH, sharing="weight"),
    "one for a layer, correlated": credo.VariationalDropout(epochs=1, batch_size=BATCH, correlated=True),
    "one for each unit, correlated": credo.VariationalDropout(
        epochs=1, batch_size=BATCH, sharing="unit", correlated=True
    ),
    "the sparse form": credo.SparseVariationalDropout(epochs=1, batch_size=BATCH),
}


def net(rate: float) -> nn.Sequential:
    drop = [nn.Dropout(rate)] if rate else []
    hidden = [nn.Linear(784, 500), nn.ReLU(), *drop, nn.Linear(500, 500), nn.ReLU(), *drop]
    return nn.Sequential(*hidden, nn.Linear(500, 10))


def plain(x: torch.Tensor, y: torch.Tensor) -> float:
    """Seconds of one plain step."""
    module = net(0.5)
    optimizer = torch.optim.Adam(module.parameters(), fused=True)
    order = torch.randperm(len(x))
    begin = time.perf_counter()
    for i in range(0, len(x), BATCH):
        chosen = order[i : i + BATCH]
        optimizer.zero_grad()
        F.cross_entropy(module(x[chosen]), y[chosen]).backward()
        optimizer.step()
    return (time.perf_counter() - begin) / (len(x) // BATCH)


def ours(method: credo.Method, x: torch.Tensor, y: torch.Tensor) -> float:
    """Seconds of one of our steps: the loop's own clock, which begins with the first."""
    model = credo.Model(net(0.5 if isinstance(method, credo.MCDropout) else 0.0), likelihoods.Categorical())
    posterior = credo.fit(model, (x, y), method, progress=False)
    return posterior.record.seconds / (len(x) // BATCH)


def main() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(BATCH * STEPS, 784), torch.randint(0, 10, (BATCH * STEPS,))
    best = dict.fromkeys(["plain", *METHODS], float("inf"))
    for _ in range(REPEATS):
        best["plain"] = min(best["plain"], plain(x, y))
        for name, method in METHODS.items():
            best[name] = min(best[name], ours(method, x, y))
    print(HEADER)
    for name in METHODS:
        print(row(f"{name}: a step / a plain one with dropout", best[name], best["plain"], PROMISE))


if __name__ == "__main__":
    main()
