"""A run that was killed at any instant goes on to the same bits, and never with another run's checkpoint."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset

import credo
from credo import likelihoods, nets, priors

Script = Callable[..., dict[str, Any]]
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
X = credo.Stream(3, ("resume",)).normal(20, 2)
Y = X.sum(1, keepdim=True)
MODEL = credo.Model(nets.MLP(2, 1, (6,)), likelihoods.Gaussian(0.5))
METHOD = credo.MAP(epochs=4, batch_size=5)


def assert_same_run(first: credo.Posterior, second: credo.Posterior) -> None:
    ours, theirs = first.tensors(), second.tensors()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    for one, other in zip(first.history, second.history, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
    assert first.notes == second.notes


@forks
@pytest.mark.parametrize("run", ["map", "ensemble", "dropout", "variational", "autoencoder", "batch norm"])
def test_killed_again_and_again_a_run_ends_in_the_same_bits(run: str, folder: Path, script: Script) -> None:
    report = script("killing.py", run, str(folder))
    assert report["finished"] == 0
    assert len(set(report["steps"])) == 5, "five kills, each further on"
    assert max(report["steps"]) < 300, "before the end"
    assert any(step % 10 for step in report["steps"]), "in the middle of an epoch, too"
    net = None if run != "batch norm" else nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))
    assert_same_run(credo.load(folder / "whole", net), credo.load(folder / "resumed", net))


@forks
def test_killed_at_every_instant_of_writing_a_checkpoint(folder: Path, script: Script) -> None:
    report = script("killing.py", "checkpointing", str(folder))
    assert report["finished"] == 0
    assert report["steps"] == sorted(report["steps"]), "no checkpoint is lost"
    assert report["steps"][-1] > 10
    assert_same_run(credo.load(folder / "whole"), credo.load(folder / "resumed"))


def halfway(folder: Path, **changes: Any) -> None:
    """A checkpoint of a run that was stopped after its first step."""
    given = {"model": MODEL, "data": (X, Y), "method": METHOD, **changes}
    with pytest.warns(credo.CredoWarning, match="stopped after"):
        credo.fit(**given, checkpoint=folder, seconds=1e-9)


@pytest.mark.parametrize(
    "data",
    [(X, Y), DataLoader(TensorDataset(X, Y), batch_size=5, shuffle=True)],
    ids=["table", "loader"],
)
@pytest.mark.parametrize("method", [METHOD, credo.Ensemble(METHOD, members=2)], ids=["one", "two"])
def test_stopped_after_every_single_step_a_run_ends_in_the_same_bits(data: Any, method: Any, tmp_path: Path) -> None:
    whole = credo.fit(MODEL, data, method, validation=(X, Y))
    for _ in range(15):
        with pytest.warns(credo.CredoWarning, match="stopped after"):
            credo.fit(MODEL, data, method, validation=(X, Y), checkpoint=tmp_path, resume=True, seconds=1e-9)
    assert_same_run(whole, credo.fit(MODEL, data, method, validation=(X, Y), checkpoint=tmp_path, resume=True))


@pytest.mark.parametrize("part", ["state/optimizer/0", "history/log_likelihood"])
def test_forgetting_the_optimizer_or_half_an_epochs_history_would_be_noticed(part: str, tmp_path: Path) -> None:
    """The broken twin of the test above: a checkpoint that lost part of its memory leads elsewhere."""
    whole = credo.fit(MODEL, (X, Y), METHOD)
    halfway(tmp_path)
    with safe_open(tmp_path / "checkpoint.safetensors", "pt") as file:
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    save_file({**tensors, part: torch.zeros_like(tensors[part])}, tmp_path / STATE, metadata=metadata(tmp_path))
    with pytest.raises(AssertionError):
        assert_same_run(whole, credo.fit(MODEL, (X, Y), METHOD, checkpoint=tmp_path, resume=True))


def test_resuming_a_finished_run_returns_at_once_with_the_same_posterior(tmp_path: Path) -> None:
    first = credo.fit(MODEL, (X, Y), METHOD, checkpoint=tmp_path)
    before = (tmp_path / "checkpoint.safetensors").stat()
    steps: list[int] = []
    again = credo.fit(MODEL, (X, Y), METHOD, checkpoint=tmp_path, resume=True, progress=lambda r: steps.append(r.step))
    assert_same_run(first, again)
    assert again.record.finished
    assert steps == [16]
    after = (tmp_path / "checkpoint.safetensors").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert again.history == first.history


def test_resume_without_a_checkpoint_begins(tmp_path: Path) -> None:
    fresh = credo.fit(MODEL, (X, Y), METHOD, checkpoint=tmp_path / "new" / "folder", resume=True)
    assert_same_run(fresh, credo.fit(MODEL, (X, Y), METHOD))


def test_seconds_add_up_over_a_resumption_and_the_limit_counts_from_the_call(tmp_path: Path) -> None:
    halfway(tmp_path)
    with safe_open(tmp_path / "checkpoint.safetensors", "pt") as file:
        spent = float(file.metadata()["seconds"])
    resumed = credo.fit(MODEL, (X, Y), METHOD, checkpoint=tmp_path, resume=True, seconds=1e6)
    assert resumed.record.seconds > spent > 0
    assert resumed.record.finished


OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "seed": ("its seed was 0, and now it is 1", {"seed": 1}),
    "method": ("its method was", {"method": credo.MAP(epochs=5, batch_size=5)}),
    "kind of method": ("its method was", {"method": credo.BayesByBackprop(epochs=4, batch_size=5)}),
    "inputs": ("its data was", {"data": (X + 1e-6, Y)}),
    "targets": ("its data was", {"data": (X, Y + 1e-6)}),
    "rows": ("its data was", {"data": (X[1:], Y[1:])}),
    "width": ("its model was", {"model": credo.Model(nets.MLP(2, 1, (7,)), likelihoods.Gaussian(0.5))}),
    "activation": ("its model was", {"model": credo.Model(nets.MLP(2, 1, (6,), "tanh"), likelihoods.Gaussian(0.5))}),
    "precision": ("its", {"model": credo.Model(nets.MLP(2, 1, (6,)).double(), likelihoods.Gaussian(0.5))}),
    "likelihood": ("its model was", {"model": credo.Model(nets.MLP(2, 1, (6,)), likelihoods.Gaussian(0.6))}),
    "prior": ("its model was", {"model": credo.Model(nets.MLP(2, 1, (6,)), MODEL.likelihood, priors.Normal(2.0))}),
    "temperature": ("its temperature was 1.0", {"temperature": 0.5}),
    "start": ("its start was None", {"start": nets.MLP(2, 1, (6,))}),
}


@pytest.mark.parametrize(("sentence", "change"), OTHERS.values(), ids=OTHERS.keys())
def test_another_runs_checkpoint_is_refused(sentence: str, change: dict[str, Any], tmp_path: Path) -> None:
    halfway(tmp_path)
    before = (tmp_path / "checkpoint.safetensors").read_bytes()
    given = {"model": MODEL, "data": (X, Y), "method": METHOD, **change}
    with pytest.raises(credo.StorageError, match=re.escape(f"holds the checkpoint of another run: {sentence}")):
        credo.fit(**given, checkpoint=tmp_path, resume=True)
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == before


SHORT = TensorDataset(X, Y)
LONG = ConcatDataset([SHORT] * 20)


class Rows(Dataset):
    """Examples that are made when they are asked for."""

    def __init__(self, shift: float, *, noisy: bool = False) -> None:
        self.shift, self.noisy = shift, noisy

    def __len__(self) -> int:
        return 20

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        noise = np.random.default_rng().normal() if self.noisy else 0.0  # a generator that no seed of ours repeats
        return (X[row] + self.shift + noise).numpy(), {"number": Y[row]}["number"]


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (TensorDataset(X, Y), TensorDataset(X, Y + 1e-6)),
        (Subset(TensorDataset(X, Y), range(15)), Subset(TensorDataset(X, Y), range(1, 16))),
        (Rows(0.0), Rows(0.1)),
        (ConcatDataset([LONG, SHORT]), ConcatDataset([LONG, TensorDataset(X, torch.cat([Y[:9], -Y[9:10], Y[10:]]))])),
    ],
    ids=["tensors", "subset", "examples", "parts"],
)
def test_a_loader_over_other_data_is_refused(first: Dataset, other: Dataset, tmp_path: Path) -> None:
    halfway(tmp_path, data=DataLoader(first, batch_size=5))
    with pytest.raises(credo.StorageError, match="its data was"):
        credo.fit(MODEL, DataLoader(other, batch_size=5), METHOD, checkpoint=tmp_path, resume=True)
    resumed = credo.fit(MODEL, DataLoader(first, batch_size=5), METHOD, checkpoint=tmp_path, resume=True)
    assert resumed.record.finished


@pytest.mark.parametrize("change", [{"batch_size": 6}, {"batch_size": 5, "shuffle": True}], ids=["size", "order"])
def test_a_loader_that_makes_other_batches_of_the_same_data_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    halfway(tmp_path, data=DataLoader(TensorDataset(X, Y), batch_size=5))
    with pytest.raises(credo.StorageError, match="its data was"):
        credo.fit(MODEL, DataLoader(TensorDataset(X, Y), **change), METHOD, checkpoint=tmp_path, resume=True)


def test_a_loader_whose_examples_change_by_themselves_can_be_resumed(tmp_path: Path) -> None:
    halfway(tmp_path, data=DataLoader(Rows(0.0, noisy=True), batch_size=5))
    loader = DataLoader(Rows(0.0, noisy=True), batch_size=5)
    assert credo.fit(MODEL, loader, METHOD, checkpoint=tmp_path, resume=True).record.finished


def test_a_checkpoint_is_not_overwritten_without_resume(tmp_path: Path) -> None:
    halfway(tmp_path)
    with pytest.raises(credo.StorageError, match="pass resume=True"):
        credo.fit(MODEL, (X, Y), METHOD, checkpoint=tmp_path)


def metadata(folder: Path) -> dict[str, str]:
    with safe_open(folder / "checkpoint.safetensors", "pt") as file:
        return dict(file.metadata())


def history(folder: Path, **changes: Any) -> dict[str, str]:
    """The text of a checkpoint whose history says something else."""
    text = metadata(folder)
    return {**text, "history": json.dumps({**json.loads(text["history"]), **changes})}


def rewrite(folder: Path, text: dict[str, str], drop: str = "", spoil: str = "/") -> None:
    with safe_open(folder / "checkpoint.safetensors", "pt") as file:
        kept = {name: file.get_tensor(name).clone() for name in file.keys() if name != drop}  # noqa: SIM118
    kept = {name: t * torch.nan if name.startswith(spoil) else t for name, t in kept.items()}
    save_file(kept, folder / "checkpoint.safetensors", metadata=text)


def change_run(folder: Path, **changes: Any) -> None:
    (folder / "run.json").write_text(json.dumps({**json.loads((folder / "run.json").read_text()), **changes}))


STATE = "checkpoint.safetensors"
DAMAGE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "truncated": ("truncated", lambda f: (f / STATE).write_bytes((f / STATE).read_bytes()[:-7])),
    "empty": ("truncated", lambda f: (f / STATE).write_bytes(b"")),
    "foreign": ("truncated, damaged or not a safetensors file", lambda f: (f / STATE).write_bytes(b"PK\x03\x04" * 99)),
    "another's": ("is not a checkpoint of credo's", lambda f: save_file({"a": torch.ones(1)}, f / STATE)),
    "no plan": ("is not a checkpoint", lambda f: rewrite(f, {k: v for k, v in metadata(f).items() if k != "plan"})),
    "odd step": ("is not a checkpoint", lambda f: rewrite(f, {**metadata(f), "step": "ten"})),
    "step below zero": ("is not a checkpoint", lambda f: rewrite(f, {**metadata(f), "step": "-5"})),
    "step beyond the end": ("speaks of step 17, and", lambda f: rewrite(f, {**metadata(f), "step": "17"})),
    "no seconds": ("is not a checkpoint", lambda f: rewrite(f, {**metadata(f), "seconds": "nan"})),
    "endless seconds": ("is not a checkpoint", lambda f: rewrite(f, {**metadata(f), "seconds": "inf"})),
    "texts in rows": ("is not a checkpoint", lambda f: rewrite(f, history(f, rows=[{"epoch": "one"}]))),
    "rows of rows": ("is not a checkpoint", lambda f: rewrite(f, history(f, rows=[[1.0]]))),
    "counts of nothing": ("is not a checkpoint", lambda f: rewrite(f, history(f, counts={"log_prior": 0}))),
    "odd draws": ("is not a checkpoint", lambda f: rewrite(f, {**metadata(f), "draws": '{"count": -3}'})),
    "weights of NaN": ("weights are not finite", lambda f: rewrite(f, metadata(f), spoil="state/variables/params")),
    "odd plan": ("is not a checkpoint", lambda f: rewrite(f, {**metadata(f), "plan": "sideways"})),
    "odd history": ("is not a checkpoint", lambda f: rewrite(f, {**metadata(f), "history": "[{"})),
    "lost tensor": ("does not fit the method", lambda f: rewrite(f, metadata(f), "state/optimizer/0")),
    "lost sums": ("is not a checkpoint", lambda f: rewrite(f, metadata(f), "history/log_prior")),
    "no run.json": ("run.json does not exist", lambda f: (f / "run.json").unlink()),
    "garbage": ("not readable JSON", lambda f: (f / "run.json").write_text("{not json")),
    "a list": ("holds no JSON object", lambda f: (f / "run.json").write_text("[1]")),
    "no schema": ("no schema version", lambda f: change_run(f, schema=None)),
    "newer": ("install a newer credo", lambda f: change_run(f, schema=99)),
    "no identity": ("another run", lambda f: change_run(f, identity=None)),
}


@pytest.mark.parametrize(("sentence", "damage"), DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_checkpoint_is_refused(sentence: str, damage: Callable[[Path], object], tmp_path: Path) -> None:
    halfway(tmp_path)
    damage(tmp_path)
    with pytest.raises(credo.StorageError, match=re.escape(sentence)):
        credo.fit(MODEL, (X, Y), METHOD, checkpoint=tmp_path, resume=True)


def test_a_checkpoint_and_a_saved_posterior_share_a_folder(tmp_path: Path) -> None:
    credo.fit(MODEL, (X, Y), METHOD, checkpoint=tmp_path).save(tmp_path)
    assert_same_run(credo.load(tmp_path), credo.fit(MODEL, (X, Y), METHOD, checkpoint=tmp_path, resume=True))


def test_an_interval_below_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="zero or more"):
        credo.Checkpoint(tmp_path, seconds=-1.0)
