"""The same contract on a GPU, and steps by replay against steps launched one by one. Skipped where there is no GPU."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import credo
import credo.loop.run as loop
from credo import likelihoods
from credo.methods.base import Method

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device on this machine"),
    pytest.mark.filterwarnings("ignore:the weights miss the posterior:credo.CredoWarning"),
]

NUMBERS = {"epochs": 20, "batch_size": 10}
METHODS: dict[str, Method] = {
    "maximum likelihood": credo.MaximumLikelihood(**NUMBERS, schedule=credo.Cosine()),
    "map by sgd": credo.MAP(**NUMBERS, optimizer=credo.SGD(momentum=0.9), schedule=credo.StepDecay()),
    "deep ensemble": credo.DeepEnsemble(members=4, **NUMBERS),
    "mc dropout": credo.MCDropout(rate=0.2, **NUMBERS),
    "mc dropout of weights": credo.MCDropout(rate=0.2, drops="weights", **NUMBERS),
    "concrete dropout": credo.ConcreteDropout(**NUMBERS, schedule=credo.Cosine()),
    "ensemble of concrete dropout": credo.Ensemble(credo.ConcreteDropout(**NUMBERS, sharing="unit"), 2),
    "bayes by backprop": credo.BayesByBackprop(**NUMBERS),
    "bayes by backprop, local": credo.Ensemble(credo.BayesByBackprop(**NUMBERS, estimator="local"), 2),
    "bayes by backprop, flipout": credo.BayesByBackprop(**NUMBERS, estimator="flipout"),
    "variational dropout": credo.Ensemble(credo.VariationalDropout(**NUMBERS, sharing="weight"), 2),
    "variational dropout, correlated": credo.VariationalDropout(**NUMBERS, sharing="unit", correlated=True),
    "variational dropout, sparse": credo.SparseVariationalDropout(**NUMBERS, schedule=credo.Cosine()),
    "metropolis": credo.Metropolis(draws=60, warmup=60, chains=3, thin=2),
    "simulated annealing": credo.SimulatedAnnealing(sweeps=120, moves=2),
    "sgld": credo.SGLD(**NUMBERS, draws=20, chains=3, preconditioner=credo.RMSPreconditioner(floor=1.0)),
    "cyclical sghmc": credo.SGHMC(**NUMBERS, draws=20, schedule=credo.Cyclical(cycles=2)),
    "importance sampling": credo.ImportanceSampling(draws=300, lanes=100),
    "annealed importance sampling": credo.AnnealedImportanceSampling(draws=40, rungs=120),
}
every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())

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


@every_method
@pytest.mark.parametrize("net", NETS)
def test_replayed_steps_are_the_launched_ones_to_the_bit(
    method: Method, net: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed = fit(method, net)
    assert not any("cannot be recorded" in note for note in replayed.notes), replayed.notes
    monkeypatch.setattr(loop, "WORTH_RECORDING", 10**9)
    launched = fit(method, net)
    for name, tensor in launched.tensors().items():
        assert torch.equal(tensor, replayed.tensors()[name]), name
    assert [row["log_likelihood"] for row in launched.history] == [row["log_likelihood"] for row in replayed.history]


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
