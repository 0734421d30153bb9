"""The speed of variational inference against plain torch: ratios in one run, interleaved, best of several repeats.

A step of a net 784-400-400-10 on batches of 128, by each estimator, against a plain deterministic step of the same net
with the same kind of optimizer; and 100 draws at 1000 inputs against 100 plain forward passes. A step is what a longer
run takes more than a shorter one, on both sides, so what happens once (checks, first weights) is not part of it. It is
processor time on one thread. The promises are for a normal prior and torch's default optimizer; its fused one, a prior
without a closed divergence and a step of `local` written out for this one network (`by_hand.py`) are for comparison.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

import credo
from by_hand import local_step
from credo import likelihoods, priors
from timing import HEADER, best_of, per_step, row

STEPS = 40
"""Of an epoch."""
SHORT, LONG = 1, 4
"""Epochs of the two runs whose difference is taken: what a run does once, such as a look at the data, is no step."""
REPEATS = 7
PROMISES = {"reparameterization": 2.4, "local": 2.7, "flipout": 3.2}


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 10))


def steps(prior: priors.Prior, *, fused: bool) -> list[str]:
    """A step of each estimator / a plain step, with torch's default Adam or its fused one."""
    model = credo.Model(net(), likelihoods.Categorical(), prior)

    x, y = torch.randn(128 * STEPS, 784), torch.randint(0, 10, (128 * STEPS,))

    def ours(estimator: str, steps: int) -> None:
        method = credo.BayesByBackprop(epochs=steps // STEPS, estimator=estimator)
        credo.fit(model, (x, y), method, progress=False)

    def plain(steps: int) -> None:
        module = net()
        optimizer = torch.optim.Adam(module.parameters(), fused=fused)
        for _ in range(steps // STEPS):
            order = torch.randperm(len(x))
            for i in range(0, len(x), 128):
                chosen = order[i : i + 128]
                optimizer.zero_grad()
                F.cross_entropy(module(x[chosen]), y[chosen]).backward()
                optimizer.step()

    def by_hand(steps: int) -> None:
        step = local_step(x, y)
        for _ in range(steps // STEPS):
            for chosen in torch.randperm(len(x)).split(128):
                step(chosen)

    runs = {"plain": plain, "by hand": by_hand, **{name: partial(ours, name) for name in PROMISES}}
    best = per_step(runs, SHORT * STEPS, LONG * STEPS, REPEATS)
    kind = "fused Adam" if fused else "default Adam"
    promised = isinstance(prior, priors.Normal) and not fused  # the others are for comparison
    lines = [
        row(
            f"{name}, {type(prior).__name__}: a step / a plain one ({kind})",
            best[name],
            best["plain"],
            promise if promised else None,
        )
        for name, promise in PROMISES.items()
    ]
    if isinstance(prior, priors.Normal):
        lines.append(row(f"local by hand, Normal: a step / a plain one ({kind})", best["by hand"], best["plain"], None))
    return lines


def draws() -> str:
    """100 draws at 1000 inputs / 100 forward passes of the plain net."""
    module, x = net(), torch.randn(1000, 784)
    data = (x, torch.randint(0, 10, (1000,)))
    posterior = credo.fit(
        credo.Model(module, likelihoods.Categorical()), data, credo.BayesByBackprop(epochs=1), progress=False
    )

    def ours() -> int:
        posterior.draw(100)(x)
        return 100

    def plain() -> int:
        with torch.no_grad():
            torch.stack([module(x) for _ in range(100)])
        return 100

    best = best_of({"ours": ours, "plain": plain}, repeats=5)
    return row("a draw at 1000 inputs / a plain forward pass", best["ours"], best["plain"], 1.3)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(HEADER)
    for prior, fused in ((priors.Normal(), False), (priors.Normal(), True), (priors.ScaleMixture(), False)):
        print(*steps(prior, fused=fused), sep="\n", flush=True)
    print(draws(), flush=True)


if __name__ == "__main__":
    main()
