"""Random-walk Metropolis against exact moments, and annealing against a greedy climber."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy.special import polygamma
from scipy.stats import kstest, loggamma
from torch import Tensor, nn

import credo
import credo.methods.mcmc.metropolis as metropolis
from credo.methods.mcmc.metropolis import Particles, full_log_likelihood, metropolis_step
from credo.nets.network import Network

A = 2.0
CHAINS = 300
LIMIT = 4.0
"""Of each |z|: a right sampler fails one of the 6 with probability 4e-4."""


def skewed(w: Tensor) -> Tensor:
    """exp(w_1) ~ Gamma(A), which is skewed to the left; w_2 | w_1 ~ N(0.8 w_1, 0.5^2), which is correlated with it."""
    first, second = w.unbind(1)
    return A * first - first.exp() - 0.5 * ((second - 0.8 * first) / 0.5).square()


MEAN, VARIANCE, THIRD = (float(polygamma(order, A)) for order in (0, 1, 2))
MOMENTS = torch.tensor([MEAN, 0.8 * MEAN, VARIANCE, 0.64 * VARIANCE + 0.25, 0.8 * VARIANCE, THIRD]).double()


def moments(w: Tensor) -> Tensor:
    """What MOMENTS are the expectations of, (..., 2) to (..., 6)."""
    a, b = w[..., 0] - MEAN, w[..., 1] - 0.8 * MEAN
    return torch.stack([w[..., 0], w[..., 1], a**2, b**2, a * b, a**3], dim=-1)


def chains_of(posterior: credo.Posterior) -> Tensor:
    """Weights of a linear layer, (C, T, P)."""
    return posterior.by_chain(posterior.variables.params["weight"].flatten(1))


METHOD = credo.Metropolis(draws=40, warmup=60, chains=CHAINS, moves=5)


def always(terms: Any, particles: Particles, density: Any, jump: Tensor, uniform: Tensor) -> tuple[Particles, Tensor]:
    """The broken twin: every proposal is accepted."""
    new = terms(particles.position + jump)
    return new, (density(new) - density(particles)).clamp_max(0.0).exp()


def lenient(terms: Any, particles: Particles, density: Any, jump: Tensor, uniform: Tensor) -> tuple[Particles, Tensor]:
    """Another: the root of the ratio is compared."""
    return metropolis_step(terms, particles, lambda at: 0.5 * density(at), jump, uniform)


def drifting(terms: Any, particles: Particles, density: Any, jump: Tensor, uniform: Tensor) -> tuple[Particles, Tensor]:
    """Another: proposals lean to one side, and nothing makes up for it."""
    return metropolis_step(terms, particles, density, jump + 0.4 * jump.abs(), uniform)


@pytest.mark.parametrize("spread", [True, False])
def test_moments_of_a_skewed_and_correlated_target(spread: bool, landscape: Callable, z_scores: Callable) -> None:
    model, data = landscape(skewed, 2)
    method = credo.Metropolis(draws=40, warmup=60, chains=CHAINS, moves=5, spread=spread)
    posterior = credo.fit(model, data, method, seed=1)
    assert bool((z_scores(moments(chains_of(posterior)).mean(1), MOMENTS).abs() < LIMIT).all())
    late = [row["acceptance_rate"] for row in posterior.history[60:]]
    assert abs(sum(late) / len(late) - 0.234) < 0.05, "what it was adapted to, up to the last steps of learning"
    assert posterior.statistics["acceptance_rate"].shape == (40, CHAINS)


@pytest.mark.parametrize("twin", [lenient, drifting])
def test_moments_notice_a_wrong_acceptance(
    twin: Callable, landscape: Callable, z_scores: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metropolis, "metropolis_step", twin)
    model, data = landscape(skewed, 2)
    posterior = credo.fit(model, data, METHOD, seed=1)
    assert float(z_scores(moments(chains_of(posterior)).mean(1), MOMENTS).abs().max()) > 2 * LIMIT


def test_a_tempered_target_is_explored_where_it_is_wide(line: Any, z_scores: Callable) -> None:
    posterior = credo.fit(line.model, line.data, METHOD, seed=2, temperature=4.0)
    w, truth = chains_of(posterior), line.exact.posterior.mean
    assert bool((z_scores(w.mean(1), truth).abs() < LIMIT).all())
    variance = (w - truth).square().mean(1)
    assert bool((z_scores(variance, 4.0 * line.scale.square()).abs() < LIMIT).all())
    assert float(z_scores(variance, line.scale.square()).abs().min()) > 2 * LIMIT


def exact_draws(count: int) -> Tensor:
    noise = credo.Stream(5, ("stationary",)).normal(count, dtype=torch.float64)
    first = torch.as_tensor(loggamma(A).rvs(count, random_state=7))
    return torch.stack([first, 0.8 * first + 0.5 * noise], dim=1)


@pytest.mark.parametrize(("twin", "right"), [(None, True), (always, False)])
def test_exact_draws_stay_exact(
    twin: Callable | None, right: bool, landscape: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chains that begin in the target's distribution are still in it, after any number of steps."""
    if twin is not None:
        monkeypatch.setattr(metropolis, "metropolis_step", twin)
    model, data = landscape(skewed, 2)
    method = credo.Metropolis(draws=1, warmup=0, chains=2000, moves=20, scale=0.7)
    start = {"weight": exact_draws(2000).unsqueeze(1)}
    w = chains_of(credo.fit(model, data, method, seed=3, start=start))[:, -1]
    assert not torch.equal(w, start["weight"].squeeze(1))
    first, second = w.unbind(1)
    rest = (second - 0.8 * first) / 0.5
    values = [kstest(first.numpy(), loggamma(A).cdf).pvalue, kstest(rest.numpy(), "norm").pvalue]
    assert bool(min(values) > 1e-4) is right  # of a right one 2e-4 fail


def test_nothing_is_learned_once_draws_are_kept(landscape: Callable) -> None:
    """A longer run has the same scale from its first draw on: the first draws of both are the same."""
    model, data = landscape(skewed, 2)
    short, long = (credo.Metropolis(draws=n, warmup=10, chains=3, moves=2) for n in (5, 9))
    ours, theirs = (chains_of(credo.fit(model, data, method)) for method in (short, long))
    assert torch.equal(ours, theirs[:, :5])
    none = credo.Metropolis(warmup=0)
    assert none._learning(credo.methods.Tick(0, 10, credo.Stream(0))) == 0.0


def test_four_chains_from_one_place_go_four_ways(landscape: Callable) -> None:
    model, data = landscape(lambda w: -0.5 * w.square().sum(1), 20)
    method = credo.Metropolis(draws=200, warmup=0, chains=4, moves=1, scale=1e-3)
    w = chains_of(credo.fit(model, data, method, start={"weight": torch.zeros(1, 20).double()}))
    moves = w.diff(dim=1).flatten(1)
    correlation = torch.corrcoef(moves)[~torch.eye(4, dtype=torch.bool)]
    assert float(correlation.abs().max()) < 4.5 / math.sqrt(moves.shape[1])  # of independent ones 8e-5 exceed it
    assert len({tuple(row) for row in w[:, 0].tolist()}) == 4


def test_batch_norm_is_refused() -> None:
    net = nn.Sequential(nn.Linear(1, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    x = torch.zeros(4, 1)
    for method in (METHOD, credo.SimulatedAnnealing(), credo.ImportanceSampling(), credo.AnnealedImportanceSampling()):
        with pytest.raises(ValueError, match=f"{type(method).__name__} needs a network without it"):
            credo.fit(net, (x, x), method)


def test_a_place_without_density_is_left_and_never_entered(landscape: Callable) -> None:
    model, data = landscape(lambda w: torch.where(w > 0, -w, math.nan).sum(1), 1)
    method = credo.Metropolis(draws=50, warmup=50, chains=4)
    w = chains_of(credo.fit(model, data, method, start={"weight": torch.ones(1, 1).double()}))
    assert bool((w > 0).all())


def test_the_likelihood_is_summed_in_parts(line: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = line.model.network.initial(5, credo.Stream(0))
    target, batch = credo.Target(line.model, 12), credo.Batch(line.x, line.y.unsqueeze(1))
    whole = full_log_likelihood(target, variables, batch)
    sizes: list[int] = []
    evaluate = Network.evaluate

    def counting(self: Network, variables: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        sizes.append(len(x))
        return evaluate(self, variables, x, *args, **kwargs)

    monkeypatch.setattr(Network, "evaluate", counting)
    monkeypatch.setattr(credo.methods.mcmc.metropolis, "ENTRIES", 20)
    torch.testing.assert_close(full_log_likelihood(target, variables, batch), whole)
    assert len(sizes) > 1
    assert sum(sizes) == 12


def two_peaks(w: Tensor) -> Tensor:
    """A peak at -2, and one at +2 that is higher by 8; the valley between them is 22 deep."""
    near, far = (-0.5 * ((w - at) / 0.3).square().sum(1) for at in (-2.0, 2.0))
    return torch.logsumexp(torch.stack([near, far + 8.0]), 0)


ANNEALING = credo.SimulatedAnnealing(sweeps=200, moves=5, temperature=30.0, schedule=credo.Geometric(1e-4))
GREEDY = credo.SimulatedAnnealing(sweeps=200, moves=5, temperature=1e-6, schedule=credo.Constant())


@pytest.mark.parametrize(("method", "finds"), [(ANNEALING, True), (GREEDY, False)], ids=["annealing", "greedy"])
def test_annealing_finds_the_higher_peak_where_a_greedy_climber_does_not(
    method: credo.Method, finds: bool, landscape: Callable
) -> None:
    model, data = landscape(two_peaks, 1)
    start = {"weight": torch.full((1, 1), -2.0).double()}
    found = credo.fit(model, data, credo.Ensemble(method, members=20), start=start)
    w = found.variables.params["weight"].flatten(1)
    arrived = int(((w - 2.0).abs() < 0.05).all(1).sum())
    assert arrived >= 18 if finds else arrived <= 2
    assert found.history[-1]["acceptance_rate"] > 0.1


def test_annealing_ends_at_the_posterior_mode(line: Any) -> None:
    found = credo.fit(line.model, line.data, credo.SimulatedAnnealing(sweeps=120, moves=8))
    w = found.variables.params["weight"].flatten()
    assert bool(((w - line.exact.map_weights).abs() < 0.1 * line.scale).all())  # a random walk stops short of the top


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: credo.Metropolis(draws=0), "draws must be a whole number of at least 1"),
        (lambda: credo.Metropolis(moves=0), "moves must be"),
        (lambda: credo.Metropolis(scale=-1.0), "scale must be a positive number"),
        (lambda: credo.Metropolis(acceptance=1.0), "acceptance must lie"),
        (lambda: credo.SimulatedAnnealing(temperature=0.0), "temperature must be a positive number"),
        (lambda: credo.SimulatedAnnealing(sweeps=0), "sweeps must be"),
        (lambda: credo.Geometric(final=0.0), "final must lie"),
        (lambda: credo.Polynomial(power=-1.0), "power must be zero or a positive number"),
        (lambda: credo.Cyclical(cycles=0), "cycles must be"),
        (lambda: credo.Cyclical(exploration=1.0), "exploration must lie"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()
