"""Runs that hear Ctrl-C: a script of its own, so that signals reach nobody else.

`python interrupting.py TASK FOLDER` interrupts itself and prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import credo
from credo import likelihoods, nets
from credo.loop.loaders import COMPARED

N = 64


class Slow(Dataset):
    """Rows that take their time and tell when they are asked for."""

    def __init__(self, seconds: float, asked: Callable[[int], object]) -> None:
        self.seconds, self.asked, self.count = seconds, asked, 0

    def __len__(self) -> int:
        return N

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        self.count += 1
        self.asked(self.count)
        time.sleep(self.seconds)
        return torch.full((2,), row / N), torch.full((1,), row / N)


def interrupt(group: bool = False) -> None:
    """What the terminal does at Ctrl-C: to this process, or to it and its children."""
    if group:
        os.killpg(0, signal.SIGINT)
    else:
        os.kill(os.getpid(), signal.SIGINT)


def fit(data: Any, **around: Any) -> credo.Posterior:
    model = credo.Model(nets.MLP(2, 1, (4,)), likelihoods.Gaussian())
    return credo.fit(model, data, credo.MAP(epochs=3), seed=2, **around)


def loader(seconds: float = 0.0, asked: Callable[[int], object] = lambda count: None, workers: int = 0) -> DataLoader:
    return DataLoader(Slow(seconds, asked), batch_size=4, shuffle=True, num_workers=workers)


def told(posterior: credo.Posterior, caught: list[Any]) -> dict[str, Any]:
    return {
        "notes": posterior.notes,
        "finished": posterior.record.finished,
        "warnings": [str(w.message) for w in caught if w.category is credo.CredoWarning],
        "handler": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    }


def once(folder: Path) -> dict[str, Any]:
    """Interrupted in the middle of the second epoch, then resumed; beside a run that was left alone."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # 4 rows for the first look at the data, some to tell them from others, 64 in the first epoch
        stopped = fit(
            loader(asked=lambda count: count == 4 + 2 * COMPARED + 64 + 10 and interrupt()), checkpoint=folder / "run"
        )
    stopped.save(folder / "stopped")
    fit(loader(), checkpoint=folder / "run", resume=True).save(folder / "resumed")
    fit(loader()).save(folder / "whole")
    return told(stopped, caught)


def twice(folder: Path) -> dict[str, Any]:
    """Interrupted twice while one step takes a minute."""

    def impatient(count: int) -> None:
        if count == 10:
            threading.Timer(0.1, interrupt).start()
            threading.Timer(0.3, interrupt).start()
            time.sleep(60)

    try:
        fit(loader(asked=impatient))
    except KeyboardInterrupt:
        return {"stopped": True, "handler": signal.getsignal(signal.SIGINT) is signal.default_int_handler}
    return {"stopped": False}


def workers(folder: Path) -> dict[str, Any]:
    """Ctrl-C as a terminal sends it: to the workers of the loader as well."""
    os.setpgrp()
    seen = []

    def listen(report: Any) -> None:
        if not seen:
            interrupt(group=True)
        seen.append(report.step)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stopped = fit(loader(seconds=0.05, workers=1), progress=listen)
    return {**told(stopped, caught), "reports": seen}


TASKS = {"once": once, "twice": twice, "workers": workers}
torch.set_num_threads(1)
print(json.dumps(TASKS[sys.argv[1]](Path(sys.argv[2]))))
