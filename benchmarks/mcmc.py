"""Effective draws of function values per second: credo's samplers against NumPyro's NUTS, one after the other.

A net 13-50-1 with tanh, weights N(0, 1 / fan-in) and biases N(0, 1), normal noise of a fixed standard deviation, on the
first split of the Boston housing set (455 rows, standardized), four chains. Effective draws: median over the 51 test
inputs of ArviZ's rank-normalized bulk ESS. Seconds count warm-up and sampling. What NumPyro takes for a run of two
iterations is its compilation, and is taken off. CPU seconds are the better measure on a machine that has other work.

    CREDO_DATA=... python benchmarks/mcmc.py [--noise 1.0] [--threads 1] [--device cpu] [--chains 4]

NumPyro needs an environment of its own, since jax brings its own numerics:

    python -m venv numpyro && numpyro/bin/pip install numpyro==0.22.0
    CREDO_DATA=... python benchmarks/mcmc.py --numpyro numpyro/bin/python

Without `--numpyro` only credo's rows are printed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import arviz
import numpy as np
import torch
from torch import Tensor, nn

import credo
from credo import likelihoods, priors
from credo.data import sets
from credo.experiments.uci.problem import splits_of

COLUMNS = (
    ("draws", 7),
    ("seconds", 8),
    ("CPU s", 8),
    ("ESS", 7),
    ("min", 7),
    ("R-hat", 6),
    ("ESS/s", 8),
    ("ESS/CPU s", 9),
)
HEADER = " ".join([" " * 28, *(f"{name:>{width}s}" for name, width in COLUMNS)])


def data() -> tuple[Tensor, Tensor, Tensor]:
    """Training inputs, targets and test inputs of the first split."""
    splits = splits_of(sets.load("uci-boston"))
    return splits.x[0], splits.y[0], splits.x_test[0]


def model(noise: float) -> credo.Model:
    net = nn.Sequential(nn.Linear(13, 50), nn.Tanh(), nn.Linear(50, 1))
    return credo.Model(net, likelihoods.Gaussian(noise), priors.Normal(1.0, fan_in=True))


def row(name: str, functions: np.ndarray, seconds: float, cpu: float) -> str:
    """One line of the table, for function values (C, T, inputs)."""
    data = arviz.convert_to_dataset({"f": functions})
    ess, rhat = arviz.ess(data)["f"].to_numpy(), arviz.rhat(data)["f"].to_numpy()
    median, draws = float(np.median(ess)), functions.shape[0] * functions.shape[1]
    return (
        f"{name:28s} {draws:7d} {seconds:8.2f} {cpu:8.2f} {median:7.0f} {ess.min():7.0f} {rhat.max():6.3f} "
        f"{median / seconds:8.1f} {median / cpu:9.1f}"
    )


def ours(name: str, sampler: credo.Method, noise: float, device: str) -> str:
    x, y, x_test = data()
    begin, cpu = time.perf_counter(), time.process_time()
    posterior = credo.fit(model(noise), (x, y), sampler, device=device, progress=False)
    if device != "cpu":
        torch.cuda.synchronize()
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    functions = posterior.by_chain(posterior.predict(x_test).draws.squeeze(2)).cpu().numpy()
    return row(name, functions, seconds, cpu)


def theirs(python: str, noise: float, threads: int, arguments: list[int]) -> list[str]:
    """NumPyro's rows, by numpyro_nuts.py in its own interpreter."""
    x, y, x_test = data()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        np.savez(path / "data.npz", x=x, y=y, x_test=x_test)
        numbers = [str(noise), str(threads), *map(str, arguments)]
        script = Path(__file__).with_name("numpyro_nuts.py")
        subprocess.run([python, str(script), folder, *numbers], check=True)
        times = json.loads((path / "times.json").read_text())
        functions = np.load(path / "functions.npy")
    return [
        row("NumPyro NUTS", functions, times["seconds"], times["cpu"]),
        f"{'':28s} (and {times['compilation']:.1f} s of compilation; {times['steps']:.0f} leapfrog steps per draw)",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numpyro", help="the Python of an environment that has NumPyro")
    parser.add_argument("--noise", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--warmup", type=int, default=300)
    parser.add_argument("--only", nargs="*", default=["mclmc", "mams", "hmc", "nuts"])
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    numbers = {"draws": given.draws, "warmup": given.warmup, "chains": given.chains}
    samplers: dict[str, credo.Method] = {
        "mclmc": credo.MCLMC(**numbers),
        "mams": credo.MAMS(**numbers),
        "hmc": credo.HMC(**numbers),
        "nuts": credo.NUTS(**numbers),
    }
    print(HEADER)
    for name in given.only:
        print(ours(f"credo {type(samplers[name]).__name__}", samplers[name], given.noise, given.device), flush=True)
    if given.numpyro is None:
        print(
            "NumPyro was not run: give --numpyro, the Python of an environment that has it (see the head of this file)"
        )
        return
    arguments = [given.warmup, given.draws, given.chains]
    print(*theirs(given.numpyro, given.noise, given.threads, arguments), sep="\n", flush=True)


if __name__ == "__main__":
    main()
