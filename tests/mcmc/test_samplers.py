"""HMC, NUTS, MCLMC and MAMS through `fit`: exact moments, exact resumption, words about trouble."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import exact, likelihoods, nets, priors
from credo.methods.base import SampledStates, Tick
from credo.methods.mcmc.mclmc import EnergySearch

SAMPLERS: dict[str, Any] = {
    "hmc": credo.HMC(draws=200, warmup=150, chains=8),
    "hmc dense": credo.HMC(draws=200, warmup=150, chains=8, dense=True),
    "hmc of one length": credo.HMC(draws=200, warmup=150, chains=8, length=2.0),
    "nuts": credo.NUTS(draws=200, warmup=150, chains=8),
    "nuts dense": credo.NUTS(draws=200, warmup=150, chains=8, dense=True),
    "mams": credo.MAMS(draws=200, warmup=150, chains=8),
    "mams dense": credo.MAMS(draws=200, warmup=150, chains=8, dense=True),
}
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)

X = credo.Stream(1, ("x",)).normal(12, 3, dtype=torch.float64)
X[:, 1] = 0.9 * X[:, 0] + 0.4 * X[:, 1]
Y = X @ torch.tensor([1.0, -2.0, 0.5]).double() + 0.5 * credo.Stream(1, ("y",)).normal(12, dtype=torch.float64)
LINE = exact.LinearRegression(exact.linear.with_intercept(X), Y, 0.5, exact.GaussianWeights.isotropic(4, scale=2.0))


def line(prior_scale: float = 2.0) -> credo.Model:
    return credo.Model(nn.Linear(3, 1).double(), likelihoods.Gaussian(0.5), priors.Normal(prior_scale))


def weights(posterior: credo.Posterior) -> Tensor:
    """By chain, (C, T, P)."""
    flat = torch.cat([t.flatten(1) for t in posterior.variables.params.values()], dim=1)
    return posterior.by_chain(flat)


def z_scores(values: Tensor, truth: Tensor) -> Tensor:
    """The mean over all draws, in standard errors that the chains' means give: t-distributed, C - 1 degrees."""
    means = values.mean(1)
    return (means.mean(0) - truth) / (means.std(0) / math.sqrt(len(means)))


def worst(posterior: credo.Posterior) -> float:
    """The largest of eight t-statistics: of the means, and of the variances, of the four weights."""
    centered = weights(posterior) - LINE.posterior.mean
    spread = centered.square() / LINE.posterior.covariance.diagonal()
    return float(torch.cat([z_scores(centered, torch.zeros(4)), z_scores(spread, torch.ones(4))]).abs().max())


LIMIT = 7.9
"""Of eight t-statistics with seven degrees of freedom, the largest is above this in one of a thousand runs."""


@every_sampler
def test_linear_regression_has_its_exact_moments(sampler: Any) -> None:
    assert worst(credo.fit(line(), (X, Y), sampler, progress=False)) < LIMIT


def test_a_posterior_of_another_prior_has_not() -> None:
    assert worst(credo.fit(line(1.0), (X, Y), SAMPLERS["hmc dense"], progress=False)) > LIMIT


def test_temperature_widens_the_posterior() -> None:
    sampler = SAMPLERS["hmc"]
    hot = weights(credo.fit(line(), (X, Y), sampler, temperature=4.0, progress=False)).flatten(0, 1)
    ratio = hot.var(0) / LINE.posterior.covariance.diagonal()
    torch.testing.assert_close(ratio, torch.full((4,), 4.0).double(), rtol=0.25, atol=0)  # 1600 draws, some correlated


def variance_ratio(energy_variance: float) -> float:
    sampler = credo.MCLMC(draws=300, warmup=150, chains=16, energy_variance=energy_variance)
    posterior = credo.fit(line(), (X, Y), sampler, progress=False)
    draws = weights(posterior).flatten(0, 1) - LINE.posterior.mean
    white = torch.linalg.solve_triangular(torch.linalg.cholesky(LINE.posterior.covariance), draws.T, upper=False)
    return float(white.square().mean())


def test_the_bias_of_microcanonical_draws_is_small_as_tuned_and_grows_with_the_step() -> None:
    """Mean of chi-square: one; its standard error over 4800 x 4 numbers, of which a fifth are independent, is 0.02."""
    assert variance_ratio(5e-4) == pytest.approx(1.0, abs=0.08)
    assert abs(variance_ratio(1.0) - 1.0) > 0.15


SHORT = {
    "hmc": credo.HMC(draws=6, warmup=30, chains=2),
    "nuts": credo.NUTS(draws=6, warmup=30, chains=2, dense=True, thin=2),
    "mclmc": credo.MCLMC(draws=6, warmup=30, chains=2),
    "mams": credo.MAMS(draws=6, warmup=30, chains=2),
}
every_short = pytest.mark.parametrize("sampler", SHORT.values(), ids=SHORT)


@every_short
@pytest.mark.parametrize("at", [9, 28, 32])
def test_a_run_that_was_cut_off_resumes_to_the_same_bits(sampler: Any, at: int, tmp_path) -> None:
    """Cut off before the first metric, after it, and among the draws."""
    checkpoint = credo.Checkpoint(tmp_path / "run", seconds=0.0)
    whole = credo.fit(line(), (X, Y), sampler, progress=False)
    with pytest.MonkeyPatch.context() as patch:
        cut_off(patch, type(sampler), at)
        with pytest.raises(KeyboardInterrupt):
            credo.fit(line(), (X, Y), sampler, progress=False, checkpoint=checkpoint)
    resumed = credo.fit(line(), (X, Y), sampler, progress=False, checkpoint=checkpoint, resume=True)
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, resumed.tensors()[name]), name


def cut_off(patch: pytest.MonkeyPatch, kind: type, at: int) -> None:
    original = kind.step

    def step(self, target, state, batch, tick):
        if tick.step == at:
            raise KeyboardInterrupt
        return original(self, target, state, batch, tick)

    patch.setattr(kind, "step", step)


@every_short
def test_chains_that_start_alike_part_at_once(sampler: Any) -> None:
    """Four chains never share a stream: none of their weights agree after a short warm-up."""
    start = {"weight": torch.zeros(1, 3).double(), "bias": torch.zeros(1).double()}
    four = dataclasses.replace(sampler, chains=4, warmup=20, draws=1, thin=1)
    draws = weights(credo.fit(line(), (X, Y), four, start=start, progress=False))[:, -1]
    apart = (draws[:, None] - draws[None]).abs().amax(-1) + torch.eye(4)
    assert bool((apart > 1e-6).all())


@every_short
def test_statistics_have_the_names_that_arviz_knows(sampler: Any) -> None:
    posterior = credo.fit(line(), (X, Y), sampler, progress=False)
    names = {"diverging", "lp", "n_steps", "step_size"}
    assert names < set(posterior.statistics)
    assert all(value.shape == (6, 2) for value in posterior.statistics.values())
    last = credo.model.Target(posterior.model, 12).log_joint(posterior.variables, credo.Batch(X, Y[:, None]))
    torch.testing.assert_close(posterior.statistics["lp"].flatten(), last)


def test_a_single_weight_has_no_direction_to_turn_to() -> None:
    model = credo.Model(nn.Linear(1, 1, bias=False).double(), likelihoods.Gaussian(0.5))
    with pytest.raises(ValueError, match="at least two"):
        credo.fit(model, (X[:, :1], Y), SHORT["mclmc"])
    with pytest.raises(ValueError, match="MAMS turns in the space of weights"):
        credo.fit(model, (X[:, :1], Y), SHORT["mams"])


@every_short
def test_batch_norm_is_refused(sampler: Any) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double()
    with pytest.raises(ValueError, match="batch norm"):
        credo.fit(credo.Model(net, likelihoods.Gaussian()), (X, Y), sampler)


def test_a_step_that_was_halved_to_nothing_does_not_hang() -> None:
    """A density that is nowhere a number halves the step at every iteration: without a bound, paths never end."""
    sampler, target, batch = credo.MCLMC(warmup=1), credo.Target(line(), 12), credo.Batch(X, Y[:, None])
    state = sampler.init(target, target.model.network.initial(2, credo.Stream(0)), credo.Stream(1))
    state, _ = sampler.step(target, state, batch, Tick(0, 3, credo.Stream(2)))
    tiny = dataclasses.replace(state, search=EnergySearch.around(0.0))
    _, info = sampler.step(target, tiny, batch, Tick(1, 3, credo.Stream(3)))
    assert info["n_steps"].tolist() == [1000.0, 1000.0]


def test_divergences_are_told_in_a_sentence_with_advice() -> None:
    sampler = credo.NUTS(draws=2, warmup=0, chains=2)
    model, state = line(), None
    variables = model.network.initial(4, credo.Stream(0))
    statistics = {"diverging": torch.tensor([[0.0, 1.0], [1.0, 0.0]]), "tree_depth": torch.full((2, 2), 10.0)}
    posterior = sampler.from_draws(credo.Target(model, 12), state, SampledStates(variables, statistics))
    first, second = posterior.notes
    assert first.startswith("2 of 4 draws")
    assert "target_acceptance (now 0.8, try 0.92)" in first
    assert "max_depth=10" in second
    quiet = {"diverging": torch.zeros(2, 2), "tree_depth": torch.full((2, 2), 3.0)}
    assert sampler.from_draws(credo.Target(model, 12), state, SampledStates(variables, quiet)).notes == ()


def test_what_went_wrong_reaches_the_user_and_the_folder(tmp_path) -> None:
    x = torch.linspace(-1, 1, 40)[:, None]
    model = credo.Model(nets.MLP(1, 1, (8,)), likelihoods.Gaussian(0.5))
    posterior = credo.fit(model, (x, x.sin()), credo.NUTS(draws=10, warmup=50, chains=2, max_depth=1))
    assert sum("max_depth=1" in note for note in posterior.notes) == 1
    assert len(set(posterior.notes)) == len(posterior.notes)
    posterior.save(tmp_path / "run")
    assert credo.load(tmp_path / "run").notes == posterior.notes


def test_a_plan_is_chosen_by_a_gradient_and_not_by_whole_trajectories(monkeypatch) -> None:
    calls: list[int] = []
    plain = credo.NUTS.step

    def counted(self, *args):
        calls.append(1)
        return plain(self, *args)

    monkeypatch.setattr(credo.NUTS, "step", counted)
    net = torch.nn.Sequential(torch.nn.Conv1d(1, 2, 3), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(8, 1))
    x = credo.Stream(0).normal(12, 1, 6)
    posterior = credo.fit(net, (x, x.sum((1, 2))), credo.NUTS(draws=2, warmup=3, chains=2, max_depth=2))
    assert posterior.length == 2
    assert len(calls) == 5


def test_a_step_that_was_tuned_too_early_is_told() -> None:
    sampler, model = credo.MCLMC(draws=2, warmup=1, chains=2), line()
    variables = model.network.initial(4, credo.Stream(0))

    def notes(diverging: float, change: float) -> tuple[str, ...]:
        statistics = {"diverging": torch.full((2, 2), diverging), "energy_variance": torch.full((2, 2), change)}
        return sampler.from_draws(credo.Target(model, 12), None, SampledStates(variables, statistics)).notes

    assert notes(0.0, 6e-4) == ()
    assert "variance of 0.01 per step and weight, not 0.0005" in notes(0.0, 1e-2)[0]
    assert "in 4 of 4 iterations" in notes(1.0, 1e-2)[0]


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (lambda: credo.HMC(draws=0), "draws"),
        (lambda: credo.HMC(length=-1.0), "length"),
        (lambda: credo.NUTS(target_acceptance=1.0), "target_acceptance"),
        (lambda: credo.NUTS(max_depth=0), "max_depth"),
        (lambda: credo.NUTS(thin=0), "thin"),
        (lambda: credo.MCLMC(energy_variance=0.0), "energy_variance"),
        (lambda: credo.MCLMC(warmup=0), "warmup"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(wrong: Any, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        wrong()
