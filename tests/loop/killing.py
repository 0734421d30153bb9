"""Runs that are killed: a script of its own, so that what dies is a real process.

`python killing.py TASK FOLDER` prints one line of JSON. Runs happen in forked children; the parent forks, kills and
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
from credo import generative, likelihoods, nets
from credo.core import storage

N = 40


def table(width: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    x = credo.Stream(3, ("killing",)).normal(N, width)
    return x, x.sum(1, keepdim=True).sin()


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))


LENGTH = {"epochs": 30, "batch_size": 4, "learning_rate": 1e-2}
"""Epochs of ten steps: longer than the time between two checkpoints, which would fall in step with shorter ones."""
NOISE = likelihoods.LearnedGaussian()
RUNS: dict[str, tuple[credo.Model, credo.Method]] = {
    "map": (credo.Model(nets.MLP(2, 1, (6,)), NOISE), credo.MAP(**LENGTH, schedule=credo.Cosine())),
    "ensemble": (credo.Model(nets.MLP(2, 1, (6,)), NOISE), credo.DeepEnsemble(members=3, **LENGTH)),
    "dropout": (credo.Model(nets.MLP(2, 1, (6,)), NOISE), credo.MCDropout(rate=0.2, **LENGTH)),
    "variational": (credo.Model(nets.MLP(2, 1, (6,)), NOISE), credo.BayesByBackprop(**LENGTH)),
    "autoencoder": (credo.Model(nets.Autoencoder((2,), 1, hidden=(4,)), NOISE), generative.AutoEncodingBayes(**LENGTH)),
    "batch norm": (credo.Model(normed(), NOISE), credo.DeepEnsemble(members=2, **LENGTH)),
}


def fit(name: str, **around: Any) -> credo.Posterior:
    model, method = RUNS[name]
    x, y = table()
    return credo.fit(model, (x, x if name == "autoencoder" else y), method, seed=7, progress=False, **around)


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


def step_of(folder: Path) -> int:
    while True:
        try:
            path = storage.find(folder, "checkpoint.safetensors")
            return -1 if path is None else int(storage.read_tensors(folder, "checkpoint.safetensors")[1]["step"])
        except storage.StorageError:  # the run moved the file between the look and the reading
            time.sleep(0.001)


def killed_at_random(folder: Path, name: str) -> dict[str, Any]:
    """Kill a run again and again; what it becomes in the end, beside a run that was left alone."""
    assert wait(child(lambda: fit(name).save(folder / "whole"))) == 0
    wish, chance, steps = credo.Checkpoint(folder / "run", seconds=0.005), random.Random(name), []
    for _ in range(5):
        before = step_of(folder / "run")
        number = child(lambda: fit(name, checkpoint=wish, resume=True))
        while step_of(folder / "run") <= before + 5:
            assert is_running(number), "the run was over before it was killed"
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.02))
        os.kill(number, signal.SIGKILL)
        assert wait(number) == -signal.SIGKILL
        steps.append(step_of(folder / "run"))
    finished = wait(child(lambda: fit(name, checkpoint=wish, resume=True).save(folder / "resumed")))
    return {"steps": steps, "finished": finished}


def dying_at(call: int) -> None:
    """From now on, die just before the given number of changes to the disk."""
    left = iter(range(call))

    def before(change: Callable[..., Any]) -> Callable[..., Any]:
        def mortal(*args: Any, **kwargs: Any) -> Any:
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return change(*args, **kwargs)

        return mortal

    for name in ("mkdir", "rename", "replace", "rmdir", "unlink", "fsync"):
        setattr(os, name, before(getattr(os, name)))
    storage.save_file = before(storage.save_file)


def killed_while_checkpointing(folder: Path) -> dict[str, Any]:
    """Kill a run before the first, second, third ... change to the disk, resuming what the one before left."""
    assert wait(child(lambda: fit("map").save(folder / "whole"))) == 0
    wish, steps = credo.Checkpoint(folder / "run", seconds=0.0), []

    def run(call: int) -> None:
        dying_at(call)
        fit("map", checkpoint=wish, resume=True)

    for call in range(25):
        assert wait(child(lambda call=call: run(call))) == -signal.SIGKILL
        steps.append(step_of(folder / "run"))
    finished = wait(child(lambda: fit("map", checkpoint=folder / "run", resume=True).save(folder / "resumed")))
    return {"steps": steps, "finished": finished}


def write_in_place(folder: Path, texts: dict[str, str], tensors: dict[str, Any]) -> None:
    """The broken twin: each file replaced on its own, as if one rename could commit them all."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (values, metadata) in tensors.items():
        part = folder / f"{name}.part"
        storage.save_file({key: t.clone() for key, t in values.items()}, part, metadata=metadata)
        os.replace(part, folder / name)
    for name, text in texts.items():
        (folder / f"{name}.part").write_text(text)
        os.replace(folder / f"{name}.part", folder / name)


def killed_while_saving(folder: Path, *, broken: bool) -> dict[str, Any]:
    """Save a new posterior over an old one and die before the k-th change to the disk; then see who can be loaded."""
    run, seen = folder / "run", []

    def save(seed: int, call: int | None = None) -> None:
        model, _ = RUNS["map"]
        posterior = credo.fit(model, table(), credo.MAP(epochs=1), seed=seed)
        if broken:
            credo.posteriors.writing.write_folder = write_in_place
        if call is not None:
            dying_at(call)
        posterior.save(run)

    def look() -> None:
        loaded = credo.load(run)
        expected = fit_once(loaded.record.seed)
        same = all(torch.equal(expected[name], tensor) for name, tensor in loaded.tensors().items())
        (folder / "seen").write_text(str(loaded.record.seed) if same else "mixed")

    def fit_once(seed: int | None) -> dict[str, torch.Tensor]:
        return credo.fit(RUNS["map"][0], table(), credo.MAP(epochs=1), seed=seed).tensors()

    for call in range(40):
        (folder / "seen").write_text("unreadable")
        assert wait(child(lambda: save(0))) == 0
        died = wait(child(lambda call=call: save(1, call))) == -signal.SIGKILL
        wait(child(look))
        seen.append((folder / "seen").read_text())
        if not died:
            break
    return {"seen": seen, "died": died, "left": sorted(path.name for path in run.iterdir())}


def main() -> None:
    task, folder = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(1)
    if task in RUNS:
        result = killed_at_random(folder, task)
    elif task == "checkpointing":
        result = killed_while_checkpointing(folder)
    else:
        result = killed_while_saving(folder, broken=task == "saving in place")
    print(json.dumps(result))


main()
