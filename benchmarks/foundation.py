"""The speed of the loop against plain torch: `make bench` prints a table of ratios.

The machine may be noisy: each row compares two things in one run, interleaved, best of several repeats.
"""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import credo
from credo import likelihoods
from credo.loop.progress import Report
from timing import HEADER, best_of, row


def dense(*sizes: int, dropout: float = 0.0) -> nn.Sequential:
    layers: list[nn.Module] = []
    for i, (wide, narrow) in enumerate(pairwise(sizes)):
        layers.append(nn.Linear(wide, narrow))
        if i < len(sizes) - 2:
            layers += [nn.ReLU()] + ([nn.Dropout(dropout)] if dropout else [])
    return nn.Sequential(*layers)


def torch_epochs(net: nn.Module, x: Tensor, y: Tensor, loss, epochs: int, batch: int, weight_decay: float = 0.0) -> int:
    """A training loop as people write it by hand."""
    optimizer = torch.optim.Adam(net.parameters(), weight_decay=weight_decay)
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for i in range(0, len(x), batch):
            chosen = order[i : i + batch]
            optimizer.zero_grad()
            loss(net(x[chosen]), y[chosen]).backward()
            optimizer.step()
    return epochs * -(-len(x) // batch)


def ensemble_step() -> str:
    """20 MLPs 13-50-50-1, batch 32: a step of the ensemble against 20 separate training steps."""
    x, y = torch.randn(320, 13), torch.randn(320, 1)
    model = credo.Model(dense(13, 50, 50, 1), likelihoods.Gaussian(1.0))
    method = credo.DeepEnsemble(members=20, epochs=30, batch_size=32)

    def ours() -> int:
        credo.fit(model, (x, y), method, progress=False)
        return 300

    def theirs() -> int:
        return sum(torch_epochs(dense(13, 50, 50, 1), x, y, F.mse_loss, 2, 32, 1e-4) for _ in range(20)) // 20

    best = best_of({"ours": ours, "theirs": theirs})
    return row("ensemble of 20 MLPs 13-50-50-1: one step / 20 steps", best["ours"], best["theirs"], 1 / 6)


def single_step() -> str:
    """One MLP 784-400-400-10, batch 128, through fit against a loop by hand."""
    x, y = torch.randn(128 * 40, 784), torch.randint(0, 10, (128 * 40,))
    model = credo.Model(dense(784, 400, 400, 10), likelihoods.Categorical())

    def ours() -> int:
        credo.fit(model, (x, y), credo.MaximumLikelihood(epochs=2), progress=False)
        return 80

    def theirs() -> int:
        return torch_epochs(dense(784, 400, 400, 10), x, y, F.cross_entropy, 2, 128)

    best = best_of({"ours": ours, "theirs": theirs})
    return row("one MLP 784-400-400-10: a step of fit / by hand", best["ours"], best["theirs"], 1.1)


def dropout_draws() -> str:
    """500 MC-dropout draws at 1500 inputs of the sine net against 500 forward passes in train mode."""
    net = dense(1, 20, 20, 1, dropout=0.1)
    x = torch.linspace(-1.5, 1.5, 1500).unsqueeze(1)
    model = credo.Model(net, likelihoods.Gaussian(1.0))
    posterior = credo.fit(model, (x, x), credo.MCDropout(epochs=1), progress=False)

    def ours() -> int:
        posterior.draw(500)(x)
        return 1

    def theirs() -> int:
        net.train()
        with torch.no_grad():
            torch.stack([net(x) for _ in range(500)])
        return 1

    best = best_of({"ours": ours, "theirs": theirs})
    return row("500 MC-dropout draws at 1500 inputs: together / a loop", best["ours"], best["theirs"], 1 / 6)


def import_time() -> str:
    code = "import time, torch; t = time.perf_counter(); import credo; print(time.perf_counter() - t)"
    times = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
    verdict = "met" if min(times) <= 0.3 else "MISSED"
    return f"import credo after import torch: {min(times):.3f} s (promise 0.3 s)  {verdict}"


def first_step() -> str:
    """Time from the call of fit to the end of the first step of the sine ensemble, in a fresh process' state."""
    x = torch.linspace(-0.5, 0.5, 32).unsqueeze(1)
    begin, first = time.perf_counter(), []

    def listen(report: Report) -> None:
        first.append(time.perf_counter() - begin)

    model = credo.Model(dense(1, 20, 20, 1), likelihoods.Gaussian(1.0))
    credo.fit(model, (x, x), credo.DeepEnsemble(members=5, epochs=1, batch_size=None), progress=listen)
    verdict = "met" if first[0] <= 1.0 else "MISSED"
    return f"the sine ensemble's first step is done after {first[0]:.3f} s (promise 1 s)  {verdict}"


def main() -> None:
    torch.manual_seed(0)
    print(first_step())
    print(import_time())
    print(HEADER)
    for measure in (ensemble_step, single_step, dropout_draws):
        print(measure(), flush=True)


if __name__ == "__main__":
    main()
