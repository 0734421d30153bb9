"""The same promises on a GPU; skipped where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import credo
from credo import likelihoods, nets

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

X = credo.Stream(12, ("device",)).normal(50, 2)
Y = X.sum(1, keepdim=True).sin()
LENGTH = {"epochs": 20, "batch_size": 8, "learning_rate": 1e-2}
NOISE = likelihoods.LearnedGaussian()


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))


RUNS = {
    "map": (credo.Model(nets.MLP(2, 1, (6,)), NOISE), credo.MAP(**LENGTH, schedule=credo.Cosine())),
    "ensemble": (credo.Model(nets.MLP(2, 1, (6,)), NOISE), credo.DeepEnsemble(members=3, **LENGTH)),
    "dropout": (credo.Model(nets.MLP(2, 1, (6,)), NOISE), credo.MCDropout(rate=0.2, **LENGTH)),
    "variational": (credo.Model(nets.MLP(2, 1, (6,)), NOISE), credo.BayesByBackprop(**LENGTH)),
    "batch norm": (credo.Model(normed(), NOISE), credo.DeepEnsemble(members=2, **LENGTH)),
}
every_run = pytest.mark.parametrize(("model", "method"), RUNS.values(), ids=RUNS.keys())


def same(first: credo.Posterior, second: credo.Posterior) -> bool:
    return all(torch.equal(second.tensors()[name], tensor) for name, tensor in first.tensors().items())


@every_run
def test_one_seed_one_run(model: credo.Model, method: credo.Method) -> None:
    first, again = (credo.fit(model, (X, Y), method, device="cuda", seed=2) for _ in range(2))
    assert first.device.type == "cuda"
    assert same(first, again)


@every_run
def test_stopped_and_resumed_it_ends_in_the_same_bits(model: credo.Model, method: credo.Method, tmp_path: Path) -> None:
    whole = credo.fit(model, (X, Y), method, device="cuda", validation=(X, Y))
    given = {"device": "cuda", "validation": (X, Y), "checkpoint": tmp_path, "resume": True}
    for _ in range(4):
        with pytest.warns(credo.CredoWarning, match="stopped after"):
            credo.fit(model, (X, Y), method, **given, seconds=1e-9)
    resumed = credo.fit(model, (X, Y), method, **given)
    assert same(whole, resumed)
    assert [{**row, "seconds": 0} for row in whole.history] == [{**row, "seconds": 0} for row in resumed.history]


@every_run
def test_saved_and_loaded_it_predicts_the_same_bits(model: credo.Model, method: credo.Method, tmp_path: Path) -> None:
    posterior = credo.fit(model, (X, Y), method, device="cuda")
    posterior.save(tmp_path)
    net = None if isinstance(model.network.module, nets.MLP) else normed()
    there, here = credo.load(tmp_path, net, device="cuda"), credo.load(tmp_path, net)
    assert there.device.type == "cuda"
    assert here.device.type == "cpu"
    assert same(posterior, there)
    assert torch.equal(posterior.predict(X, 5).draws, there.predict(X, 5).draws)
    assert same(here.to("cuda"), posterior)


@every_run
def test_a_checkpoint_moves_between_devices(model: credo.Model, method: credo.Method, tmp_path: Path) -> None:
    with pytest.warns(credo.CredoWarning, match="stopped after"):
        credo.fit(model, (X, Y), method, device="cuda", checkpoint=tmp_path, seconds=1e-9)
    assert credo.fit(model, (X, Y), method, checkpoint=tmp_path, resume=True).record.finished


def test_a_loader_feeds_the_gpu() -> None:
    model, method = RUNS["ensemble"]
    for workers in (0, 1):
        loader = DataLoader(
            TensorDataset(X.double(), Y), batch_size=8, shuffle=True, num_workers=workers, pin_memory=True
        )
        assert credo.fit(model, loader, method, device="cuda").members().params["layers.1.weight"].is_cuda


def test_convolutions_are_measured_and_both_plans_agree() -> None:
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3)).double()
    model = credo.Model(net, likelihoods.Categorical())
    images, classes = credo.Stream(1).normal(12, 1, 6, 6, dtype=torch.float64), torch.arange(12) % 3
    method = credo.DeepEnsemble(members=3, epochs=3, batch_size=5)
    measured, *asked = (credo.fit(model, (images, classes), method, device="cuda", plan=p) for p in (None, *credo.Plan))
    assert "measured" in measured.record.plan
    for name, tensor in asked[0].tensors().items():
        # Adam divides by the root of a second moment, which magnifies the rounding of small gradients
        torch.testing.assert_close(tensor, asked[1].tensors()[name], rtol=1e-7, atol=1e-9)


def test_divergence_is_noticed() -> None:
    wild = credo.MAP(epochs=500, learning_rate=1e8, optimizer=credo.SGD())
    with pytest.warns(credo.CredoWarning, match="diverged"):
        assert not credo.fit(RUNS["map"][0], (X, Y), wild, device="cuda").record.finished
