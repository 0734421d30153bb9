"""The speed of variational dropout against plain torch: ratios in one run, interleaved, best of several repeats.

A step of a net 784-500-500-10 on batches of 100, against a plain step of the same net with `nn.Dropout` behind both
hidden layers, with torch's default Adam and with its fused one. Beside them a plain step in which every layer makes two
products, of x and of x^2, as it must where each weight has noise of its own. Processor time is taken, on one thread, so
that other programs on the machine disturb little. A fit looks at the network once before its first step: two fits of
different length tell the steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import credo
from credo import likelihoods
from timing import HEADER, row

SHORT, LONG, BATCH, REPEATS = 10, 50, 100, 6
Data = tuple[Tensor, Tensor]
PROMISE = 2.7
"""The most that a step may cost, in plain steps with torch's default Adam."""
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


class TwoProducts(nn.Module):
    """x W + x^2 V, with as many V as W: what noise on every weight costs at least."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return torch.add(self.first(x), self.second(x * x))


def two_products() -> nn.Sequential:
    return nn.Sequential(TwoProducts(784, 500), nn.ReLU(), TwoProducts(500, 500), nn.ReLU(), TwoProducts(500, 10))


def plain(module: Callable[[], nn.Module], *, fused: bool) -> Callable[[Data], None]:
    """An epoch of plain steps."""

    def epoch(data: Data) -> None:
        network = module()
        optimizer = torch.optim.Adam(network.parameters(), fused=fused)
        for chosen in torch.randperm(len(data[0])).split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(network(data[0][chosen]), data[1][chosen]).backward()
            optimizer.step()

    return epoch


def ours(method: credo.Method) -> Callable[[Data], None]:
    """An epoch of one of our methods."""
    model = credo.Model(net(0.5 if isinstance(method, credo.MCDropout) else 0.0), likelihoods.Categorical())

    def epoch(data: Data) -> None:
        credo.fit(model, data, method, progress=False)

    return epoch


def processor_seconds(epoch: Callable[[Data], None], data: Data) -> float:
    """Seconds of the processor."""
    begin = time.process_time()
    epoch(data)
    return time.process_time() - begin


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    short, long = ((torch.randn(BATCH * n, 784), torch.randint(0, 10, (BATCH * n,))) for n in (SHORT, LONG))
    tasks = {
        "default Adam": plain(lambda: net(0.5), fused=False),
        "fused Adam": plain(lambda: net(0.5), fused=True),
        "two products a layer, no noise (fused Adam)": plain(two_products, fused=True),
        **{name: ours(method) for name, method in METHODS.items()},
    }
    best = {name: [float("inf"), float("inf")] for name in tasks}
    for _ in range(REPEATS):
        for name, epoch in tasks.items():
            best[name] = [
                min(old, processor_seconds(epoch, data)) for old, data in zip(best[name], (short, long), strict=True)
            ]
    step = {name: (longer - shorter) / (LONG - SHORT) for name, (shorter, longer) in best.items()}
    print(HEADER)
    for kind in ("default Adam", "fused Adam"):
        for name in METHODS:
            promise = PROMISE if kind == "default Adam" else None
            print(row(f"{name}: a step / a plain one ({kind})", step[name], step[kind], promise))
        name = "two products a layer, no noise (fused Adam)"
        print(row(f"{name} / a plain one", step[name], step[kind], None))


if __name__ == "__main__":
    main()
