"""Draws that survive: kept as they come, beside the checkpoint, through kills, full disks and damaged files."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import credo
import credo.loop.run as loop
from credo import likelihoods, nets
from credo.core.storage import read_tensors
from credo.loop.draws import Collector, InMemory, OnDisk
from credo.loop.progress import Report, progress_text

Script = Callable[..., dict[str, Any]]
X = credo.Stream(3, ("draws",)).normal(20, 2)
Y = X.sum(1, keepdim=True)
MODEL = credo.Model(nets.MLP(2, 1, (4,)), likelihoods.LearnedGaussian())
METHOD = credo.Metropolis(draws=6, warmup=4, chains=2, moves=2)
METHODS: dict[str, credo.Method] = {
    "metropolis": METHOD,
    "sgld": credo.SGLD(epochs=3, batch_size=5, draws=4, chains=2, schedule=credo.Polynomial()),
    "cyclical sghmc": credo.SGHMC(epochs=4, batch_size=10, draws=4, schedule=credo.Cyclical(2, exploration=0.5)),
    "preconditioned": credo.SGLD(epochs=3, batch_size=5, preconditioner=credo.RMSPreconditioner()),
    "importance": credo.ImportanceSampling(draws=50, draws_per_step=10),
    "annealed": credo.AnnealedImportanceSampling(draws=30, temperatures=8),
    "annealing": credo.SimulatedAnnealing(sweeps=8, moves=2),
}
pytestmark = pytest.mark.filterwarnings("ignore:the weights miss:credo.CredoWarning")
"""Importance sampling of so few draws says so; here only its bits matter."""


def fit(method: credo.Method = METHOD, **around: Any) -> credo.Posterior:
    return credo.fit(MODEL, (X, Y), method, **around)


def assert_same_run(first: credo.Posterior, second: credo.Posterior) -> None:
    ours, theirs = first.tensors(), second.tensors()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    for one, other in zip(first.history, second.history, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
    assert first.notes == second.notes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
@pytest.mark.parametrize("name", ["metropolis", "sghmc"])
def test_killed_in_warm_up_and_in_sampling_a_run_ends_in_the_same_bits(name: str, folder: Path, script: Script) -> None:
    report = script("sampling.py", name, str(folder))
    assert report["finished"] == 0
    steps, kept = zip(*report["marks"], strict=True)
    assert list(steps) == sorted(steps)
    assert steps[-1] < 500, "before the end"
    assert kept[0] == 0, "in the warm-up"
    assert 0 < kept[-2] < kept[-1], "and while draws were kept"
    nets = {
        "metropolis": nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)),
        "sghmc": nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1)),
    }
    assert_same_run(*(credo.load(folder / run, nets[name]) for run in ("whole", "resumed")))


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_stopped_after_every_single_step_a_run_ends_in_the_same_bits(method: credo.Method, tmp_path: Path) -> None:
    whole = fit(method)
    for _ in range(100):
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            part = fit(method, checkpoint=tmp_path, resume=True, seconds=1e-9)
        if part.record.finished:
            break
    assert_same_run(whole, part)


def test_forgetting_the_draws_before_a_kill_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: a collector that begins anew when a run is resumed."""
    whole = fit()
    halfway(tmp_path)
    monkeypatch.setattr(Collector, "resume", lambda self, mark, variables: None)
    with pytest.raises(AssertionError):
        assert_same_run(whole, fit(checkpoint=tmp_path, resume=True))


def test_draws_on_disk_are_those_in_memory(tmp_path: Path) -> None:
    assert_same_run(fit(), fit(checkpoint=tmp_path))


def test_thinning_keeps_every_so_many_of_the_same_chain() -> None:
    """Two steps of one proposal and one of two are not the same noise, so the draws of a minibatch sampler are used."""
    long, short = (credo.SGLD(epochs=8, warmup=4, batch_size=None, draws=n) for n in (4, 2))
    every, second = (fit(method).draw().variables.params["layers.1.weight"] for method in (long, short))
    assert len(every) == 4
    assert torch.equal(every[1::2], second)


def anonymous() -> int:
    """Bytes of memory that this process holds for itself.

    Pages mapped from files are not among them, nor what was freed and the allocator had not yet given back.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    text = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"RssAnon:\s+(\d+) kB", text)[1])


@pytest.mark.skipif(
    not (Path("/proc/self/status").exists() and hasattr(ctypes.CDLL(None), "malloc_trim")),
    reason="reads Linux's count of memory, and needs glibc's allocator to give back what is free",
)
def test_draws_on_disk_take_no_memory(tmp_path: Path) -> None:
    wide = credo.Model(nets.MLP(2, 1, (15_000,)), likelihoods.Gaussian())  # 240 kB a draw
    method = credo.SGLD(epochs=250, warmup=10, batch_size=None, draws=240)

    def taken(**around: Any) -> int:
        credo.fit(wide, (X, Y), credo.SGLD(epochs=3, batch_size=None))
        before = anonymous()
        posterior = credo.fit(wide, (X, Y), method, **around)
        assert posterior.predict(X[:1]).draws.shape[0] == 240
        return anonymous() - before

    draws = 240 * 4 * (2 * 15_000 + 15_000 + 15_000 + 1)
    # torch's own caches may grow meanwhile
    assert taken(checkpoint=credo.Checkpoint(tmp_path / "run", seconds=60.0)) < 0.1 * draws
    assert taken() > 0.9 * draws, "and the test would notice if they did"


def halfway(folder: Path) -> credo.Posterior:
    """A run that was stopped after each of its first six steps, when it had kept two draws of each chain."""
    for _ in range(6):
        with pytest.warns(credo.CredoWarning, match="stopped after"):
            posterior = fit(checkpoint=folder, resume=True, seconds=1e-9)
    return posterior


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    halfway(tmp_path)
    (tmp_path / "draws.bin").write_bytes((tmp_path / "draws.bin").read_bytes()[:-1])
    with pytest.raises(credo.StorageError, match=r"draws\.bin holds \d+ bytes .* the file is truncated"):
        fit(checkpoint=tmp_path, resume=True)


@pytest.mark.parametrize("place", [0, -1])
def test_a_damaged_or_foreign_file_is_refused(place: int, tmp_path: Path) -> None:
    halfway(tmp_path)
    data = bytearray((tmp_path / "draws.bin").read_bytes())
    data[place] ^= 1
    (tmp_path / "draws.bin").write_bytes(data)
    with pytest.raises(credo.StorageError, match="damaged or another run's"):
        fit(checkpoint=tmp_path, resume=True)


def test_a_lost_file_is_refused(tmp_path: Path) -> None:
    halfway(tmp_path)
    (tmp_path / "draws.bin").unlink()
    with pytest.raises(credo.StorageError, match="truncated"):
        fit(checkpoint=tmp_path, resume=True)


def test_somebody_elses_draws_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "draws.bin").write_bytes(b"not ours")
    with pytest.raises(credo.StorageError, match="no checkpoint that speaks of them"):
        fit(checkpoint=tmp_path)
    assert (tmp_path / "draws.bin").read_bytes() == b"not ours"


def test_draws_behind_the_checkpoint_are_written_again(tmp_path: Path) -> None:
    """As after a kill between a draw and the next checkpoint; even what is nonsense there does not matter."""
    halfway(tmp_path)
    with (tmp_path / "draws.bin").open("ab") as file:
        file.write(b"half a draw")
    assert_same_run(fit(), fit(checkpoint=tmp_path, resume=True))


def test_a_posterior_stays_good_while_its_run_goes_on(tmp_path: Path) -> None:
    early = halfway(tmp_path)
    before = {name: t.clone() for name, t in early.tensors().items()}
    fit(checkpoint=tmp_path, resume=True)
    assert all(torch.equal(t, before[name]) for name, t in early.tensors().items())


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """As if the disk were full: files cannot grow beyond this many bytes."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("draws", [25, 21], ids=["in between", "at the last draw"])
def test_a_full_disk_loses_nothing(draws: int, tmp_path: Path) -> None:
    wide = credo.Model(nets.MLP(2, 1, (200,)), likelihoods.Gaussian())
    method = credo.SGLD(epochs=draws + 1, warmup=1, batch_size=None, draws=draws)
    wish = credo.Checkpoint(tmp_path, seconds=0.0)
    whole = credo.fit(wide, (X, Y), method)
    row = 4 * (2 * 200 + 200 + 200 + 1 + len(whole.statistics))
    # the 21st draw is cut in the middle; a checkpoint is smaller than that
    with no_file_above(20 * row + 7), pytest.warns(credo.CredoWarning, match="draws cannot be written .* make room"):
        stopped = credo.fit(wide, (X, Y), method, checkpoint=wish)
    assert not stopped.record.finished
    kept, all_of_them = (p.draw().variables.params["layers.1.weight"] for p in (stopped, whole))
    assert len(kept) == 20
    assert torch.equal(kept, all_of_them[:20])
    assert_same_run(whole, credo.fit(wide, (X, Y), method, checkpoint=wish, resume=True))


def interrupted_at(step: int, monkeypatch: pytest.MonkeyPatch, **around: Any) -> credo.Posterior:
    monkeypatch.setattr(loop, "REPORT_SECONDS", 0.0)

    def listen(report: Report) -> None:
        if report.step == step and not report.last:
            signal.raise_signal(signal.SIGINT)

    return fit(progress=listen, **around)


def test_ctrl_c_keeps_the_draws_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(credo.CredoWarning, match=r"interrupted at step 8 of 10: the result is the 8 draw\(s\)"):
        posterior = interrupted_at(7, monkeypatch)
    kept, whole = posterior.draw().variables.params, fit().draw().variables.params
    assert all(torch.equal(t, whole[name][:8]) for name, t in kept.items())


def test_ctrl_c_in_the_warm_up_says_that_no_draw_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(credo.CredoWarning, match="interrupted at step 2 of 10: there is no draw yet"):
        posterior = interrupted_at(1, monkeypatch, checkpoint=tmp_path)
    assert not posterior.record.finished
    assert len(posterior.draw()) == 2, "where the two chains stood"
    assert_same_run(fit(), fit(checkpoint=tmp_path, resume=True))


def test_progress_tells_the_stage_and_what_the_sampler_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "REPORT_SECONDS", 0.0)
    told: list[Report] = []
    fit(progress=told.append)
    assert [report.draws for report in told[:-1]] == [0, 0, 0, 0, 2, 4, 6, 8, 10]
    assert told[-1].draws == 12
    assert all(0.0 <= report.numbers["acceptance_rate"] <= 1.0 for report in told)
    assert "warm-up  acceptance_rate" in progress_text("Metropolis", told[0])
    assert "12 draws  acceptance_rate" in progress_text("Metropolis", told[-1])
    assert progress_text("Metropolis", told[-1]).endswith("0:00 elapsed")


def test_divergences_are_counted_over_a_resumption(tmp_path: Path) -> None:
    variables, rows = credo.Variables({"w": torch.ones(2, 3)}), OnDisk(tmp_path)
    collector = Collector(rows, ())
    assert collector.divergences is None
    for flags in ([1.0, 0.0], [1.0, 1.0], [0.0, 0.0]):
        collector.add(variables, {"diverging": torch.tensor(flags)})
    assert collector.divergences == 3
    again = Collector(OnDisk(tmp_path), ())
    again.resume(collector.mark(), variables)
    again.add(variables, {"diverging": torch.tensor([0.0, 1.0])})
    assert again.divergences == 4
    assert "8 draws, 4 divergences" in progress_text("HMC", Report(4, 8, 4.0, 1.0, {}, draws=8, divergences=4))


def test_a_long_chain_has_a_short_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "ROWS", 4)
    wish = credo.Checkpoint(tmp_path, seconds=0.0)
    posterior = fit(credo.SGLD(epochs=22, batch_size=None, draws=3), checkpoint=wish, validation=(X, Y))
    assert [row["epoch"] for row in posterior.history] == [5, 10, 15, 20, 22]
    assert all("validation_log_likelihood" in row for row in posterior.history)
    assert len(read_tensors(tmp_path, "checkpoint.safetensors")[1]["history"]) < 2000


def test_an_ensemble_of_chains_is_refused_rather_than_robbed_of_its_draws() -> None:
    with pytest.raises(ValueError, match=r"lose their draws: give SGLD\(chains=3, \.\.\.\)"):
        fit(credo.Ensemble(credo.SGLD(epochs=2), members=3))
    with pytest.raises(ValueError, match=r"ImportanceSampling\(draws=\.\.\.\) in place"):
        fit(credo.Ensemble(credo.ImportanceSampling(draws=10, draws_per_step=1), members=3))


def test_a_number_that_some_steps_do_not_report_is_missing_there() -> None:
    collector, variables = Collector(InMemory(), ()), credo.Variables({"w": torch.ones(2, 3)})
    collector.add(variables, {"a": torch.zeros(2), "b": torch.ones(2)})
    collector.add(variables, {"b": torch.ones(2), "c": torch.ones(2)})
    kept = collector.states(variables)
    assert set(kept.statistics) == {"a", "b"}
    assert kept.statistics["b"].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert kept.statistics["a"].isnan().tolist() == [[False, False], [True, True]]


def test_parameters_of_two_precisions_are_kept_in_the_finer() -> None:
    fine = torch.full((1, 1), 1.0 + 1e-12, dtype=torch.float64)
    variables = credo.Variables({"coarse": torch.ones(1, 2), "fine": fine})
    collector = Collector(InMemory(), ())
    collector.add(variables, {})
    kept = collector.states(variables).variables.params
    assert kept["coarse"].dtype == torch.float32
    assert torch.equal(kept["fine"], fine)
