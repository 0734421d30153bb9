"""Samplers that are killed: a script of its own, so that what dies is a real process.

`python sampling.py NAME FOLDER` prints one line of JSON. Runs happen in forked children; the parent forks, kills and
counts, and never computes, so that forking is safe.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import credo
from credo import likelihoods
from credo.core import storage

X = credo.Stream(3, ("sampling",)).normal(40, 2)
Y = X.sum(1, keepdim=True).sin()


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1))


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))


RUNS: dict[str, tuple[Callable[[], nn.Module], credo.Method]] = {
    "metropolis": (plain, credo.Metropolis(draws=250, warmup=250, chains=3, moves=1)),
    "sghmc": (
        normed,
        credo.SGHMC(epochs=100, batch_size=8, draws=50, chains=2, preconditioner=credo.RMSPreconditioner()),
    ),
}


def fit(name: str, **around: Any) -> credo.Posterior:
    net, method = RUNS[name]
    return credo.fit(credo.Model(net, likelihoods.LearnedGaussian()), (X, Y), method, seed=7, progress=False, **around)


def child(task: Callable[[], object]) -> int:
    """Run a task in a forked child; its process number."""
    number = os.fork()
    if number:
        return number
    code = 1
    try:
        torch.set_num_threads(1)
        task()
        code = 0
    finally:
        os._exit(code)


def wait(number: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def is_running(number: int) -> bool:
    return os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def seen(folder: Path) -> tuple[int, int]:
    """Step and kept draws of the checkpoint."""
    if storage.find(folder, "checkpoint.safetensors") is None:
        return -1, 0
    text = storage.read_tensors(folder, "checkpoint.safetensors")[1]
    return int(text["step"]), json.loads(text["draws"])["count"]


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(1)
    assert wait(child(lambda: fit(name).save(folder / "whole"))) == 0
    wish, chance, marks = credo.Checkpoint(folder / "run", seconds=0.02), random.Random(name), []
    for goal in (20, 100, 260, 290, 320):
        number = child(lambda: fit(name, checkpoint=wish, resume=True))
        # once there are draws, each kill comes after more of them than the one before, however fast the machine is
        before = marks[-1][1] if marks and marks[-1][1] else -1
        while seen(folder / "run")[0] < goal + chance.randrange(10) or seen(folder / "run")[1] <= before:
            assert is_running(number), "the run was over before it was killed"
            time.sleep(0.005)
        time.sleep(chance.uniform(0.0, 0.03))
        os.kill(number, signal.SIGKILL)
        assert wait(number) == -signal.SIGKILL
        marks.append(seen(folder / "run"))
    finished = wait(child(lambda: fit(name, checkpoint=wish, resume=True).save(folder / "resumed")))
    print(json.dumps({"marks": marks, "finished": finished}))


main()
