"""What `at_mean()` and `members()` of each posterior are, by hand; and where a run that starts from one begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import likelihoods, priors
from credo.core.trees import Variables
from credo.posteriors import Chains, DiagonalGaussian, Draws, Dropout, Functions, Posterior, UnitNoise, Weighted
from credo.predictive import Predictive

MODEL = credo.Model(nn.Linear(1, 1, bias=False).double(), likelihoods.Gaussian(1.0), priors.Normal(1.0))
VALUES = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
WEIGHTS = torch.tensor([0.2, 0.26, 0.54], dtype=torch.float64)
AVERAGE, WEIGHTED = 7 / 3, 0.2 * 1 + 0.26 * 2 + 0.54 * 4


def networks(values: Tensor = VALUES) -> Variables:
    return Variables({"weight": values.double().view(-1, 1, 1)})


def weights(found: Posterior | Variables) -> list[float]:
    variables = found.variables if isinstance(found, Draws) else found
    return variables.params["weight"].flatten().tolist()


NOISE = {"weight": torch.full((3, 1, 1), 0.5, dtype=torch.float64)}
UNIFORM = Draws.uniform(networks()).double()
CASES: dict[str, tuple[Posterior, list[float], list[float]]] = {
    "an ensemble": (Draws(MODEL, networks(), UNIFORM), [1, 2, 4], [1, 2, 4]),
    "a weighted ensemble": (Draws(MODEL, networks(), WEIGHTS.log()), [1, 2, 4], [1, 4, 4]),
    "chains": (Chains(MODEL, networks(), torch.tensor([0, 0, 0]), {}), [AVERAGE], [1, 2, 4]),
    "importance sampling": (
        Weighted(MODEL, networks(), WEIGHTS.log() + 50.0, torch.tensor(0.1)),
        [WEIGHTED],
        [1, 4, 4],  # the middles of thirds, 1/6, 1/2 and 5/6, against 0.2, 0.46 and 1
    ),
    "normal weights": (DiagonalGaussian(MODEL, networks(), NOISE), [1, 2, 4], [1, 2, 4]),
    "unit noise": (UnitNoise(MODEL, networks(), NOISE), [1, 2, 4], [1, 2, 4]),
    "dropout": (Dropout(MODEL, networks()), [1, 2, 4], [1, 2, 4]),
}


@pytest.mark.parametrize(("posterior", "means", "members"), CASES.values(), ids=CASES.keys())
def test_every_component_at_its_expectation(posterior: Posterior, means: list[float], members: list[float]) -> None:
    assert weights(posterior.members()) == members
    found = posterior.at_mean()
    assert weights(found) == pytest.approx(means, abs=1e-12)
    assert found.record is posterior.record
    assert found.predict(X).draws[:, 0, 0].tolist() == pytest.approx(means, abs=1e-12)


def test_a_weighted_ensemble_keeps_its_weights_at_its_means() -> None:
    posterior = CASES["a weighted ensemble"][0]
    assert float(posterior.at_mean().predict(X).mean[0]) == pytest.approx(WEIGHTED, abs=1e-12)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("importance sampling", "a weighted ensemble")])
def test_components_and_draws_are_members_in_turn(name: str) -> None:
    posterior = CASES[name][0]
    assert weights(posterior.members(5)) == [1, 2, 4, 1, 2]
    assert weights(posterior.members(1)) == [1]


@pytest.mark.parametrize("name", ["importance sampling", "a weighted ensemble"])
def test_members_of_weighted_draws_are_equally_weighted(name: str) -> None:
    """Number s comes count * w_s times, whatever the scale of the weights, and at every call alike."""
    posterior = CASES[name][0]
    assert weights(posterior.members(10)) == [1, 1, 2, 2, 2, 4, 4, 4, 4, 4]
    assert len(weights(posterior.members())) == 3
    assert weights(posterior.members(1)) == [4]
    assert weights(posterior.members()) == weights(posterior.members())


def test_counters_and_frozen_weights_survive_an_average() -> None:
    buffers = {"count": torch.tensor([3, 3, 3]), "mean": torch.tensor([[1.0], [2.0], [6.0]])}
    variables = Variables(networks().params, buffers)
    found = Chains(MODEL, variables, torch.tensor([0, 0, 0]), {}).at_mean().variables
    assert found.buffers["count"].tolist() == [3]
    assert found.buffers["mean"].tolist() == [[3.0]]


X = torch.ones(4, 1, dtype=torch.float64)
Y = torch.full((4, 1), 2.5, dtype=torch.float64)
PRECISION, MEAN = 5.0, 2.0
"""Of the weight of MODEL under four observations of 2.5 at x = 1: 1 + 4 and 4 * 2.5 / 5."""


def starting_weights(start: Posterior, members: int) -> Tensor:
    """Where the members of a run begin."""
    still = credo.Ensemble(credo.MAP(epochs=1, learning_rate=1e-300), members)
    return credo.fit(MODEL, (X, Y), still, start=start).members().params["weight"].flatten()


def importance() -> Weighted:
    found = credo.fit(MODEL, (X, Y), credo.ImportanceSampling(draws=4000, draws_per_step=4000), seed=1)
    assert isinstance(found, Weighted)
    return found


def unweighted(posterior: Weighted) -> Chains:
    """The broken twin: draws of the proposal, whatever they weigh."""
    return Chains(MODEL, posterior.variables, Chains.numbered(posterior.variables, 1), {})


def z_score(start: Posterior, members: int) -> float:
    """Of the mean of first weights, by the standard error of independent draws: above 4 for one seed in 15,000.

    Systematic resampling does better than independent draws, and the members stand for many more draws.
    """
    return float((starting_weights(start, members).mean() - MEAN).abs() / (1 / PRECISION / members) ** 0.5)


def test_a_run_that_starts_from_importance_sampling_starts_at_the_posterior() -> None:
    posterior = importance()
    assert float(posterior.at_mean().variables.params["weight"]) == pytest.approx(MEAN, abs=0.1)  # 1000 draws' worth
    assert z_score(posterior, 400) < 4
    assert z_score(unweighted(posterior), 400) > 20


def test_single_starts_from_importance_sampling_are_draws_of_the_posterior() -> None:
    """Over 200 seeds the one member has the posterior's mean; the broken twin, the first draw, has the proposal's."""
    starts, firsts = [], []
    for seed in range(200):
        drawn = credo.Stream(seed, ("proposal",)).normal(2000).double()
        posterior = Weighted(MODEL, networks(drawn), -2.0 * (2.5 - drawn).square(), torch.tensor(0.1))
        starts.append(weights(posterior.members(1))[0])
        firsts.append(float(drawn[0]))
    error = (1 / PRECISION / 200) ** 0.5
    assert abs(sum(starts) / 200 - MEAN) < 4 * error  # one seed in 15,000
    assert abs(sum(firsts) / 200 - MEAN) > 20 * error


@pytest.mark.parametrize("posterior", [case[0] for case in CASES.values()], ids=CASES.keys())
def test_a_representation_is_short_and_shows_no_tensor(posterior: Posterior) -> None:
    shown = repr(posterior)
    assert shown.startswith(f"{type(posterior).__name__}(members=3, parameters=1, likelihood=Gaussian(scale=1.0)")
    assert "tensor" not in shown
    assert len(shown) < 200
    assert "tensor" not in repr(posterior.draw(2))


def test_a_representation_says_how_the_posterior_came_about() -> None:
    posterior = credo.fit(MODEL, (X, Y), credo.DeepEnsemble(members=2, epochs=1))
    assert repr(posterior) == (
        "Draws(members=2, parameters=1, likelihood=Gaussian(scale=1.0), method=Ensemble of MAP, status=finished)"
    )


class Doubled(Functions):
    """A drawn function that is no network: f(x) + g(x)."""

    def __init__(self, one: Functions, other: Functions) -> None:
        self.one, self.other, self.log_weights = one, other, one.log_weights

    @property
    def likelihood_params(self) -> dict[str, Tensor]:
        return self.one.likelihood_params

    def __call__(self, x: Tensor) -> Tensor:
        return self.one(x) + self.other(x)


@dataclass(frozen=True, eq=False)
class Doubling(Posterior):
    """An ensemble of which every drawn function counts twice."""

    inner: Draws

    def draw(self, count: int | None = None, seed: int = 0) -> Functions:
        functions = self.inner.draw(count, seed)
        return Doubled(functions, functions)

    def at_mean(self) -> Draws:
        return self.inner

    def members(self, count: int | None = None) -> Variables:
        return self.inner.members(count)


def test_drawn_functions_need_not_be_networks() -> None:
    inner = Draws(MODEL, networks(), UNIFORM)
    twice = Doubling(MODEL, inner)
    torch.testing.assert_close(twice.predict(X).draws, 2 * inner.predict(X).draws, rtol=0, atol=0)
    parts = torch.cat([part.mean for part in twice.predict_batches(X, rows=3)])
    torch.testing.assert_close(parts, 2 * inner.predict(X).mean, rtol=0, atol=0)


@dataclass(frozen=True, eq=False)
class Closed(Posterior):
    """A posterior whose predictions need no draws: here those of its mean."""

    inner: Draws

    def draw(self, count: int | None = None, seed: int = 0) -> Functions:
        raise AssertionError("no draw is needed")

    def predictor(self, draws: int | None = None, seed: int = 0) -> Callable[[Tensor], Predictive]:
        return self.inner.at_mean().predictor(draws, seed)

    def at_mean(self) -> Draws:
        return self.inner

    def members(self, count: int | None = None) -> Variables:
        return self.inner.members(count)


def test_predictions_need_not_come_from_draws() -> None:
    inner = Draws(MODEL, networks(), UNIFORM)
    closed = Closed(MODEL, inner)
    assert torch.equal(closed.predict(X).mean, inner.predict(X).mean)
    assert torch.equal(torch.cat([part.mean for part in closed.predict_batches(X, rows=3)]), inner.predict(X).mean)
