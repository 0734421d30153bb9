"""Laplace on a network for MNIST beside laplace-torch: fit and prediction, and agreement where both finish.

    python -m pip install "credo[bench]"
    python benchmarks/laplace_mnist.py

Each job runs in a process of its own, so that its peak memory is its own and that of a library which is killed is told.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES, EXAMPLES, NEW, SECONDS = 10, 5000, 1000, 200
JOBS = {
    "last layer, dense": ("dense", "last"),
    "last layer, Kronecker": ("kronecker", "last"),
    "all weights, Kronecker": ("kronecker", "all"),
}
"""Structure and subset."""


def problem() -> tuple[nn.Module, torch.Tensor, torch.Tensor, torch.Tensor]:
    """784-400-400-10 on noise with linear labels: the arithmetic does not depend on the pictures."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, CLASSES))
    x = torch.randn(EXAMPLES + NEW, 784, generator=generator)
    y = (x[:EXAMPLES] @ torch.randn(784, CLASSES, generator=generator)).argmax(1)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(30):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[:EXAMPLES]), y).backward()
        optimizer.step()
    return net.eval(), x[:EXAMPLES], y, x[EXAMPLES:]


def ours(structure: str, subset: str) -> tuple[float, float, torch.Tensor]:
    import credo

    net, x, y, new = problem()
    model = credo.Model(net, credo.likelihoods.Categorical(), credo.priors.Normal(1.0))
    method = credo.Laplace(structure=structure, subset=subset, precision="model", prediction="probit")
    begin = time.perf_counter()
    posterior = credo.fit(model, (x, y), method, progress=False)
    fitted = time.perf_counter()
    return fitted - begin, *predicted(lambda: posterior.predict(new).probs, fitted)


def theirs(structure: str, subset: str) -> tuple[float, float, torch.Tensor]:
    from laplace import Laplace

    net, x, y, new = problem()
    kind = {"dense": "full", "kronecker": "kron"}[structure]
    loader = DataLoader(TensorDataset(x, y), batch_size=128)
    peer = Laplace(
        net, "classification", subset_of_weights=subset + "_layer" * (subset == "last"), hessian_structure=kind
    )
    begin = time.perf_counter()
    peer.fit(loader)
    fitted = time.perf_counter()
    return fitted - begin, *predicted(lambda: peer(new, link_approx="probit"), fitted)


def predicted(predict: object, begin: float) -> tuple[float, torch.Tensor]:
    probs = predict().detach()  # type: ignore[operator]
    return time.perf_counter() - begin, probs


def measure(name: str, who: str) -> None:
    """The work of a process: a line of JSON."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    fit, predict, probs = {"credo": ours, "laplace-torch": theirs}[who](*JOBS[name])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"fit": fit, "predict": predict, "peak": peak, "probs": probs[:50].tolist()}))


def run(name: str, who: str) -> dict[str, object] | None:
    """None for one that was killed, or took too long."""
    command = [sys.executable, __file__, name, who]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def main() -> None:
    print("seconds on one thread, and peak memory of the process in GiB")
    for name in JOBS:
        found = {who: run(name, who) for who in ("credo", "laplace-torch")}
        for who, result in found.items():
            if result is None:
                print(f"{name:24s} {who:14s} killed, or more than {SECONDS} seconds")
            else:
                times = f"fit {result['fit']:6.2f}  predict {result['predict']:6.2f}"
                print(f"{name:24s} {who:14s} {times}  peak {result['peak']:.2f}")
        both = [result for result in found.values() if result is not None]
        if len(both) == 2:
            total = [r["fit"] + r["predict"] for r in both]
            apart = (torch.tensor(both[0]["probs"]) - torch.tensor(both[1]["probs"])).abs().max()
            print(
                f"{'':24s} {total[1] / total[0]:.1f} times as fast; probabilities differ by {float(apart):.1e} at most"
            )


if __name__ == "__main__":
    measure(*sys.argv[1:]) if len(sys.argv) > 1 else main()
