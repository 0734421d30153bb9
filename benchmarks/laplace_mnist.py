"""Laplace on a network for MNIST beside laplace-torch: fit and prediction, and agreement where both finish.

What must agree are the covariances of the outputs, exactly for dense curvature. Kronecker factors differ a little:
those of laplace-torch are products of averages in each batch. Its probit takes the variance of each logit alone, here
it is that around their average, so that probabilities are not to be compared.

    python -m pip install "credo[bench]"
    python benchmarks/laplace_mnist.py [repeats] [seconds]

Each job runs in a process of its own on one thread, so that its peak memory is its own and that of a library which is
killed is told; the two take turns, and the best of the repeats counts. Seconds are those of the processor: other
programs on the machine disturb them little. A process that wants more than so many seconds (200 when not said, its
start and training included) or than `GIB` is ended.

One job has 1000 classes on 512 features.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EXAMPLES, NEW, SECONDS, GIB = 5000, 1000, 200, 10
MNIST, IMAGENET = (784, 400, 400, 10), (512, 512, 1000)
JOBS = {
    "last layer, Kronecker": (MNIST, "kronecker", "last"),
    "all weights, Kronecker": (MNIST, "kronecker", "all"),
    "1000 classes, Kronecker": (IMAGENET, "kronecker", "last"),
    "last layer, dense": (MNIST, "dense", "last"),
}
"""Widths of the layers, structure and subset."""
SHOWN = 5
"""Inputs whose covariances are compared, by their first outputs."""

Sizes = tuple[int, ...]
Job = tuple[float, float, Callable[[], torch.Tensor]]
"""Seconds of the fit, and of the prediction, and what gives covariances of outputs."""


def problem(sizes: Sizes) -> tuple[nn.Module, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A trained net on noise with linear labels: the arithmetic does not depend on the pictures."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for width, following in pairwise(sizes):
        layers += [nn.Linear(width, following), nn.ReLU()]
    net = nn.Sequential(*layers[:-1])
    x = torch.randn(EXAMPLES + NEW, sizes[0], generator=generator)
    y = (x[:EXAMPLES] @ torch.randn(sizes[0], sizes[-1], generator=generator)).argmax(1)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(30):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[:EXAMPLES]), y).backward()
        optimizer.step()
    return net.eval(), x[:EXAMPLES], y, x[EXAMPLES:]


def ours(sizes: Sizes, structure: str, subset: str) -> Job:
    import credo

    net, x, y, new = problem(sizes)
    model = credo.Model(net, credo.likelihoods.Categorical(), credo.priors.Normal(1.0))
    method = credo.Laplace(structure=structure, subset=subset, precision="model", prediction="probit")
    begin = time.process_time()
    posterior = credo.fit(model, (x, y), method, progress=False)
    fitted = time.process_time()
    seconds = predicted(lambda: posterior.predict(new).probs, fitted)
    return fitted - begin, seconds, lambda: posterior.output_normal(new[:SHOWN]).covariance[0]


def theirs(sizes: Sizes, structure: str, subset: str) -> Job:
    from laplace import Laplace

    net, x, y, new = problem(sizes)
    kind = {"dense": "full", "kronecker": "kron"}[structure]
    loader = DataLoader(TensorDataset(x, y), batch_size=128)
    peer = Laplace(
        net, "classification", subset_of_weights=subset + "_layer" * (subset == "last"), hessian_structure=kind
    )
    begin = time.process_time()
    peer.fit(loader)
    fitted = time.process_time()
    seconds = predicted(lambda: peer(new, link_approx="probit"), fitted)
    return fitted - begin, seconds, lambda: peer._glm_predictive_distribution(new[:SHOWN])[1]


def predicted(predict: Callable[[], torch.Tensor], begin: float) -> float:
    predict().detach()
    return time.process_time() - begin


def measure(name: str, who: str, seconds: int) -> None:
    """The work of a process: a line of JSON."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_DATA, (GIB * 2**30, GIB * 2**30))
    fit, predict, covariance = {"credo": ours, "laplace-torch": theirs}[who](*JOBS[name])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    first = covariance().detach()[:, :10, :10].tolist()
    print(json.dumps({"fit": fit, "predict": predict, "peak": peak, "covariance": first}))


def run(name: str, who: str, seconds: int) -> dict[str, Any] | None:
    """None for one that was ended."""
    command = [sys.executable, __file__, name, who, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[str, Any] | None = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    return found


def best(name: str, repeats: int, seconds: int) -> dict[str, dict[str, Any] | None]:
    """The best of interleaved repeats of each library; one that was ended is not asked again."""
    found: dict[str, dict[str, Any] | None] = {}
    for _ in range(repeats):
        for who in ("credo", "laplace-torch"):
            if found.get(who, {}) is None:
                continue
            once, before = run(name, who, seconds), found.get(who)
            found[who] = once if once is None or before is None else min(once, before, key=total)
    return found


def total(result: dict[str, Any]) -> float:
    return float(result["fit"] + result["predict"])


def main(repeats: int = 3, seconds: int = SECONDS) -> None:
    print(f"processor seconds on one thread, best of {repeats}, and peak memory of the process in GiB", flush=True)
    for name in JOBS:
        found = best(name, repeats, seconds)
        for who, result in found.items():
            said = f"ended: more than {seconds} seconds, or than {GIB} GiB"
            if result is not None:
                said = f"fit {result['fit']:7.2f}  predict {result['predict']:7.2f}  peak {result['peak']:.2f}"
            print(f"{name:24s} {who:14s} {said}", flush=True)
        both = [result for result in found.values() if result is not None]
        if len(both) == 2:
            ratio = total(both[1]) / total(both[0])
            mine, other = (torch.tensor(result["covariance"]) for result in both)
            apart = float((mine - other).abs().max() / other.abs().max())
            print(f"{'':24s} {ratio:.1f} times as fast; covariances differ by {apart:.1e} of the largest", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in JOBS:
        measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    else:
        main(*map(int, sys.argv[1:]))
