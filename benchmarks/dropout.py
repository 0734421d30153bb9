"""The speed and the memory of dropout against plain torch: ratios in one run, interleaved, best of several repeats.

A step of a net 784-500-500-10 on batches of 100 against a plain step of the same net with `nn.Dropout`; draws at 1000
images against a Python loop of as many forward passes; and the peak memory of predictions for a million inputs.
"""

from __future__ import annotations

import resource
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import credo
from credo import likelihoods
from timing import HEADER, best_of, row

STEPS, BATCH, HIDDEN, RATE, REPEATS, DRAWS = 20, 100, 500, 0.5, 5, 200
LINE, LOOP = 1.6, 0.5
"""What is promised of a step, and of many draws."""
METHODS = {
    "MC dropout": credo.MCDropout(epochs=1, batch_size=BATCH),
    "concrete dropout, a rate per layer": credo.ConcreteDropout(epochs=1, batch_size=BATCH),
    "concrete dropout, a rate per unit": credo.ConcreteDropout(epochs=1, batch_size=BATCH, sharing="unit"),
}


def net(rate: float = RATE) -> nn.Sequential:
    hidden = [(nn.Linear(width, HIDDEN), nn.ReLU(), nn.Dropout(rate)) for width in (784, HIDDEN)]
    return nn.Sequential(*hidden[0], *hidden[1], nn.Linear(HIDDEN, 10))


def steps(*, fused: bool) -> list[str]:
    """A step of each method / a plain step with `nn.Dropout`, with torch's default Adam or its fused one.

    The time is that of the loop alone: what comes before a first step is paid once for a whole run.
    """
    x, y = torch.randn(BATCH * STEPS, 784), torch.randint(0, 10, (BATCH * STEPS,))
    model = credo.Model(net(), likelihoods.Categorical())
    best = dict.fromkeys(("plain", *METHODS), float("inf"))
    for _ in range(REPEATS):
        best["plain"] = min(best["plain"], _plain(x, y, fused) / STEPS)
        for name, method in METHODS.items():
            seconds = credo.fit(model, (x, y), method, progress=False).record.seconds
            best[name] = min(best[name], seconds / STEPS)
    kind = "fused Adam" if fused else "default Adam"
    return [row(f"{name}: a step / a plain one ({kind})", best[name], best["plain"], LINE) for name in METHODS]


def _plain(x: Tensor, y: Tensor, fused: bool) -> float:
    """Seconds of an epoch."""
    module = net()
    optimizer = torch.optim.Adam(module.parameters(), fused=fused)
    order = torch.randperm(len(x))
    begin = time.perf_counter()
    for i in range(0, len(x), BATCH):
        chosen = order[i : i + BATCH]
        optimizer.zero_grad()
        F.cross_entropy(module(x[chosen]), y[chosen]).backward()
        optimizer.step()
    return time.perf_counter() - begin


def draws(rate: float) -> str:
    """Draws at 1000 images / a loop over as many forward passes with dropout on."""
    module, x = net(rate), torch.randn(1000, 784)
    data = (x, torch.randint(0, 10, (1000,)))
    posterior = credo.fit(
        credo.Model(module, likelihoods.Categorical()), data, credo.MCDropout(epochs=1), progress=False
    )

    def ours() -> int:
        posterior.draw(DRAWS)(x)
        return DRAWS

    def plain() -> int:
        with torch.no_grad():
            torch.stack([module(x) for _ in range(DRAWS)])
        return DRAWS

    best = best_of({"ours": ours, "plain": plain}, repeats=2)
    return row(f"a draw at 1000 images, rate {rate} / a forward pass", best["ours"], best["plain"], LOOP)


def memory() -> str:
    """Peak memory of the means of a million inputs by 100 draws, above what the process had before."""
    module = nn.Sequential(nn.Linear(10, 50), nn.ReLU(), nn.Dropout(0.1), nn.Linear(50, 10))
    x = torch.randn(1_000_000, 10)
    data = (x[:1000], torch.randint(0, 10, (1000,)))
    posterior = credo.fit(
        credo.Model(module, likelihoods.Categorical()), data, credo.MCDropout(epochs=1), progress=False
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    mean = torch.cat([prediction.mean for prediction in posterior.predict_batches(x, draws=100)])
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    whole = 100 * mean.numel() * mean.element_size() / 2**20
    return f"means of 1,000,000 inputs by 100 draws: {(after - before) / 1024:.0f} MiB (all draws: {whole:.0f} MiB)"


def main() -> None:
    torch.manual_seed(0)
    print(memory(), flush=True)
    print(HEADER)
    for fused in (False, True):
        print(*steps(fused=fused), sep="\n", flush=True)
    for rate in (0.5, 0.1):
        print(draws(rate), flush=True)


if __name__ == "__main__":
    main()
