"""The same contract on a GPU, and steps by replay against steps launched one by one. Skipped where there is no GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

import credo
import credo.loop.run as loop
from credo import likelihoods
from credo.methods.base import Info, Method, Tick
from methods_table import methods

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device on this machine"),
    pytest.mark.filterwarnings("ignore:the weights miss the posterior:credo.CredoWarning"),
]

METHODS = methods(epochs=20, iterations=120)
"""So many steps that all are worth recording."""

every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
RECORDED = {name: method for name, method in METHODS.items() if method.graph_safe}
every_recorded_method = pytest.mark.parametrize("method", RECORDED.values(), ids=RECORDED.keys())

X = torch.linspace(-1, 1, 64).unsqueeze(1)
NETS = {
    "dense": lambda: credo.nets.MLP(1, 1, (20, 20)),
    "batch norm": lambda: nn.Sequential(nn.Linear(1, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Linear(20, 1)),
}


def fit(method: Method, net: str = "dense", device: str = "cuda") -> credo.Posterior:
    if net == "batch norm" and method.whole_data:
        pytest.skip("a sampler of one density refuses batch norm")
    model = credo.Model(NETS[net], likelihoods.LearnedGaussian())
    return credo.fit(model, (X, X.sin()), method, seed=3, device=device, progress=False, plan=credo.Plan.TOGETHER)


@every_recorded_method
@pytest.mark.parametrize("net", NETS)
def test_replayed_steps_are_the_launched_ones_to_the_bit(
    method: Method, net: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert method.graph_safe is not isinstance(method, credo.ImportanceSampling)
    replayed = fit(method, net)
    assert not any("launched one kernel" in note for note in replayed.notes), replayed.notes
    monkeypatch.setattr(loop, "WORTH_RECORDING", 10**9)
    launched = fit(method, net)
    for name, tensor in launched.tensors().items():
        assert torch.equal(tensor, replayed.tensors()[name]), name
    assert [row["log_likelihood"] for row in launched.history] == [row["log_likelihood"] for row in replayed.history]


NUMBERS = {"epochs": 20, "batch_size": 10}


@dataclass(frozen=True)
class Falling(credo.MAP):
    """A learning rate that falls by plain numbers, which a recording would freeze."""

    def step(self, target: Any, state: Any, batch: Any, tick: Tick) -> tuple[Any, Info]:
        rate = 0.01 * (1.0 - 0.9 * tick.fraction)
        now = credo.MAP(epochs=self.epochs, batch_size=self.batch_size, learning_rate=rate)
        return now.step(target, state, batch, tick)


@dataclass(frozen=True)
class Claiming(Falling):
    graph_safe: ClassVar[bool] = True


def test_a_step_that_depends_on_its_number_in_plain_python_is_not_frozen() -> None:
    plain, caught = fit(Falling(**NUMBERS)), fit(Claiming(**NUMBERS))
    assert not any("launched one kernel" in note for note in plain.notes)
    assert any("may read tick.step in plain Python" in note for note in caught.notes)
    for name, tensor in plain.tensors().items():
        assert torch.equal(tensor, caught.tensors()[name]), name


@every_method
def test_a_posterior_on_the_gpu_predicts_there_and_moves(method: Method, tmp_path) -> None:
    posterior = fit(method)
    prediction = posterior.predict(X.numpy(), draws=6)
    assert prediction.mean.device.type == "cuda"
    assert bool((prediction.interval(0.9)[0] < prediction.interval(0.9)[1]).all())
    assert prediction.log_prob(X.sin()).shape == (64,)
    assert prediction.sample(3).shape == (3, 64, 1)
    posterior.save(tmp_path / "run")
    here = credo.load(tmp_path / "run", net=NETS["dense"]())
    assert here.predict(X).mean.device.type == "cpu"
    back = here.to("cuda").predict(X, draws=6)
    assert torch.equal(back.draws, prediction.draws)


def test_a_deterministic_run_agrees_with_the_cpu() -> None:
    method = credo.MAP(epochs=50, batch_size=None, learning_rate=0.01)
    there, here = fit(method).predict(X).mean.cpu(), fit(method, device="cpu").predict(X).mean
    torch.testing.assert_close(there, here, rtol=1e-3, atol=1e-3)  # float32 sums in another order, fifty steps on


def test_a_killed_gpu_run_resumes_to_the_same_bits(tmp_path) -> None:
    method = credo.MAP(epochs=30, batch_size=10)
    model = credo.Model(NETS["dense"], likelihoods.LearnedGaussian())
    whole = credo.fit(model, (X, X.sin()), method, device="cuda", progress=False)
    checkpoint = credo.Checkpoint(tmp_path / "run", seconds=0.0)
    with pytest.warns(credo.CredoWarning, match="stopped"):
        credo.fit(model, (X, X.sin()), method, device="cuda", progress=False, checkpoint=checkpoint, seconds=0.02)
    resumed = credo.fit(model, (X, X.sin()), method, device="cuda", progress=False, checkpoint=checkpoint, resume=True)
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, resumed.tensors()[name]), name
