"""Ctrl-C, time limits and divergence end a run and keep what there is."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import credo
from credo import likelihoods, nets
from credo.core.optimizers import Schedule
from credo.loop.interrupts import Interrupts

Script = Callable[..., dict[str, Any]]
X = credo.Stream(5, ("interrupts",)).normal(32, 2)
Y = X.sum(1, keepdim=True)
MODEL = credo.Model(nets.MLP(2, 1, (5,)), likelihoods.Gaussian())
FOREVER = credo.MAP(epochs=10**7, batch_size=8)


def test_ctrl_c_keeps_what_there_is_and_the_run_can_go_on(folder: Path, script: Script) -> None:
    told = script("interrupting.py", "once", str(folder))
    assert told["notes"] == ["interrupted at step 19 of 48: the result is what there was by then"]
    assert told["warnings"] == told["notes"]
    assert told["finished"] is False
    assert told["handler"], "Python's own handler is back"
    stopped, resumed, whole = (credo.load(folder / name) for name in ("stopped", "resumed", "whole"))
    assert stopped.predict(X).mean.isfinite().all()
    assert len(stopped.history) == 1
    assert not any(torch.equal(stopped.tensors()[name], t) for name, t in whole.tensors().items() if "params" in name)
    assert all(torch.equal(resumed.tensors()[name], t) for name, t in whole.tensors().items())
    assert [{**row, "seconds": 0} for row in resumed.history] == [{**row, "seconds": 0} for row in whole.history]


def test_a_second_ctrl_c_stops_at_once(folder: Path, script: Script) -> None:
    assert script("interrupting.py", "twice", str(folder)) == {"stopped": True, "handler": True}


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="signals of POSIX systems")
def test_ctrl_c_reaches_the_loop_and_not_the_workers_of_a_loader(folder: Path, script: Script) -> None:
    told = script("interrupting.py", "workers", str(folder))
    assert told["finished"] is False
    assert told["notes"][0].startswith("interrupted at step")


def test_in_a_thread_a_run_is_the_same_and_signals_are_left_alone() -> None:
    method, results = credo.MAP(epochs=3, batch_size=8), []
    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=lambda: results.append(credo.fit(MODEL, (X, Y), method, seconds=1e6)))
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is before
    here = credo.fit(MODEL, (X, Y), method).tensors()
    assert all(torch.equal(here[name], t) for name, t in results[0].tensors().items())


@dataclass(frozen=True)
class PressedAtTheEnd(Schedule):
    """Somebody presses Ctrl-C while the last of four steps is made."""

    def factor(self, fraction: float) -> float:
        if fraction == 0.75:
            signal.raise_signal(signal.SIGINT)
        return 1.0


def test_a_ctrl_c_in_the_last_step_is_told_for_whoever_has_more_to_do() -> None:
    method = credo.MAP(epochs=4, batch_size=None, schedule=PressedAtTheEnd())
    with pytest.warns(credo.CredoWarning, match="interrupted in the last step"):
        posterior = credo.fit(MODEL, (X, Y), method)
    assert posterior.notes == ("interrupted in the last step: the run is whole",)
    assert posterior.record.finished
    assert posterior.record.interrupted  # as a value, for whoever has more to do


def test_the_handler_is_put_back_when_a_step_fails() -> None:
    before = signal.getsignal(signal.SIGINT)

    def broken(report: object) -> None:
        raise RuntimeError("the listener's own trouble")

    with pytest.raises(RuntimeError, match="own trouble"):
        credo.fit(MODEL, (X, Y), FOREVER, progress=broken, seconds=60)
    assert signal.getsignal(signal.SIGINT) is before


def test_interrupts_are_counted_only_while_active() -> None:
    with Interrupts() as interrupts:
        assert not interrupts.requested
        signal.raise_signal(signal.SIGINT)
        assert interrupts.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_time_limit_ends_a_run_that_would_not_end() -> None:
    with pytest.warns(credo.CredoWarning, match=r"stopped after \d+\.\d seconds at step \d+ of 40000000"):
        posterior = credo.fit(MODEL, (X, Y), FOREVER, seconds=0.3)
    assert not posterior.record.finished
    assert posterior.record.seconds >= 0.3
    assert "stopped after" in posterior.notes[-1]
    assert posterior.predict(X).mean.isfinite().all()


def test_a_limit_that_is_not_reached_leaves_no_trace() -> None:
    posterior = credo.fit(MODEL, (X, Y), credo.MAP(epochs=2), seconds=1e6)
    assert posterior.record.finished
    assert posterior.notes == ()


DIVERGING = {
    "map": credo.MAP(epochs=50, batch_size=8, learning_rate=1e8, optimizer=credo.SGD()),
    "one of two members": credo.DeepEnsemble(members=2, epochs=50, learning_rate=1e8, optimizer=credo.SGD()),
    "bayes by backprop": credo.BayesByBackprop(epochs=50, learning_rate=1e8, optimizer=credo.SGD()),
}


@pytest.mark.parametrize("method", DIVERGING.values(), ids=DIVERGING.keys())
def test_divergence_is_a_status_with_a_sentence(method: credo.Method, tmp_path: Path) -> None:
    with pytest.warns(credo.CredoWarning, match="diverged in epoch"):
        posterior = credo.fit(MODEL, (X, Y), method, checkpoint=credo.Checkpoint(tmp_path, seconds=0.0))
    assert not posterior.record.finished
    assert "lower learning_rate" in posterior.notes[-1]
    assert posterior.predict(X).mean.shape == (32, 1)


def test_weights_that_break_in_the_very_last_step_are_noticed() -> None:
    narrow = credo.Model(nets.MLP(2, 1, (5,)), likelihoods.Gaussian(0.01))
    leap = credo.MAP(epochs=1, batch_size=None, learning_rate=3e38, optimizer=credo.SGD())
    with pytest.warns(credo.CredoWarning, match="diverged in epoch 1"):
        posterior = credo.fit(narrow, (X, Y), leap)
    assert all(value == value for value in posterior.history[0].values()), "the loss before the step was finite"


def test_a_diverged_run_stops_early_and_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    wild = credo.MAP(epochs=10**7, learning_rate=1e8, optimizer=credo.SGD())
    with pytest.warns(credo.CredoWarning, match="diverged in epoch"):
        credo.fit(MODEL, (X, Y), wild, checkpoint=credo.Checkpoint(tmp_path, seconds=0.0))
    tensors = credo.core.storage.read_tensors(tmp_path, "checkpoint.safetensors")[0]
    assert all(bool(t.isfinite().all()) for t in tensors.values())


def test_the_epoch_of_divergence_is_the_first_that_broke() -> None:
    steep = credo.MAP(epochs=10**7, learning_rate=30.0, batch_size=None, optimizer=credo.SGD())
    with pytest.warns(credo.CredoWarning, match="diverged in epoch"):
        posterior = credo.fit(MODEL, (X, Y), steep)
    broken = [row["epoch"] for row in posterior.history if row["log_likelihood"] - row["log_likelihood"] != 0]
    assert f"diverged in epoch {broken[0]:g}:" in posterior.notes[-1]


def test_infinite_validation_is_not_divergence() -> None:
    far = (X * 1e15, Y * 1e30)
    posterior = credo.fit(MODEL, (X, Y), credo.MAP(epochs=2), validation=far)
    assert posterior.record.finished
    assert posterior.history[-1]["validation_log_likelihood"] == -torch.inf
