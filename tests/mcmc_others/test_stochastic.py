"""Samplers on minibatches: the scale of their noise, their bias, their balance of friction and noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import likelihoods, priors
from credo.core.rng import Stream
from credo.methods import Tick
from credo.methods.mcmc.sgmcmc import SGHMC, SGLD, StochasticSampler, _draw_steps, _gradient

LIMIT = 4.0
"""Of each |z|: a right sampler fails with probability 6e-5 for each number."""
CHAINS, MANY, N = 500, 1000, 10
X = torch.linspace(-1.0, 1.0, N).double().unsqueeze(1)
Y = 0.7 * X
NOISE = 0.5
MODEL = credo.Model(nn.Linear(1, 1, bias=False).double(), likelihoods.Gaussian(NOISE), priors.Normal(1.0))
PRECISION = float(X.square().sum()) / NOISE**2 + 1.0
MEAN = float((X * Y).sum()) / NOISE**2 / PRECISION
"""Of the exact posterior of the single weight."""


def chains_of(method: StochasticSampler, seed: int = 0, **around: Any) -> Tensor:
    """The single weight, (C, T)."""
    posterior = credo.fit(MODEL, (X, Y), method, seed=seed, **around)
    return posterior.by_chain(posterior.variables.params["weight"].flatten(1)).squeeze(2)


def variance_z(w: Tensor, variance: float) -> float:
    """How many standard errors the average squared deviation is off; chains are independent, draws in one are not."""
    each = (w - MEAN).square().mean(1)
    return float((each.mean() - variance) / (each.std() / math.sqrt(len(w))))


def langevin(rate: float, chains: int = CHAINS) -> SGLD:
    """Full batches; long enough to forget the start and to draw almost independently."""
    relaxation = math.ceil(N / (rate * PRECISION))
    draws = 10
    warmup = 8 * relaxation
    return SGLD(warmup + 2 * draws * relaxation, rate, None, draws, warmup, chains)


def discretized(rate: float) -> float:
    """Variance of Langevin steps of this size: 1 / (precision (1 - l precision / 2 N))."""
    return 1.0 / (PRECISION * (1.0 - 0.5 * rate * PRECISION / N))


RATES = (0.15, 0.3, 0.6)


def test_the_bias_of_langevin_steps_falls_with_the_step_size() -> None:
    """The precision is off by l precision / 2 N: a slope of one."""
    biases = []
    for rate in RATES:
        w = chains_of(langevin(rate, MANY))
        assert abs(variance_z(w, discretized(rate))) < LIMIT
        assert abs(float((w.mean() - MEAN) / (w.mean(1).std() / math.sqrt(MANY)))) < LIMIT
        biases.append(1.0 - 1.0 / (PRECISION * float((w - MEAN).square().mean())))
    slope = math.log(biases[-1] / biases[0]) / math.log(RATES[-1] / RATES[0])
    assert abs(slope - 1.0) < 0.35  # the smallest bias, 13 %, has a standard error of 1.4 %: four of them either way


def quieter(
    self: SGLD, weights: Tensor, velocity: Any, gradient: Tensor, step: Tensor, noise: Tensor, size: int
) -> None:
    """The broken twin: noise turned down by a hundred, as some libraries do."""
    right_langevin(self, weights, velocity, gradient, step, 0.01 * noise, size)


def halved(
    self: SGLD, weights: Tensor, velocity: Any, gradient: Tensor, step: Tensor, noise: Tensor, size: int
) -> None:
    """Another: eps noise for eps drift, a variance of one half."""
    right_langevin(self, weights, velocity, gradient, step, math.sqrt(0.5) * noise, size)


right_langevin = SGLD.move


@pytest.mark.parametrize("twin", [quieter, halved])
def test_noise_of_another_scale_would_be_noticed(twin: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SGLD, "move", twin)
    assert abs(variance_z(chains_of(langevin(0.4)), discretized(0.4))) > 3 * LIMIT


def test_a_temperature_widens_the_posterior() -> None:
    w = chains_of(langevin(0.4), temperature=2.0)
    assert abs(variance_z(w, 2.0 / (PRECISION * (1.0 - 0.25 * 0.4 * PRECISION / N)))) < LIMIT


FRICTIONS = (0.05, 0.5, 1.0)


def hamiltonian(friction: float, rate: float = 0.5, **numbers: Any) -> SGHMC:
    return SGHMC(260, rate, None, 10, 60, CHAINS, friction=friction, **numbers)


@pytest.mark.parametrize("friction", FRICTIONS)
def test_friction_and_noise_balance_at_any_friction(friction: float) -> None:
    """With full batches the variance of a normal posterior is exact, whatever friction and step size."""
    assert abs(variance_z(chains_of(hamiltonian(friction)), 1.0 / PRECISION)) < LIMIT


def whole_move(
    self: SGHMC, weights: Tensor, velocity: Tensor, gradient: Tensor, step: Tensor, noise: Tensor, size: int
) -> None:
    """The broken twin: one move after the friction, whose variance is off by half the friction at any step size."""
    left, root = 1.0 - self.friction, (step / size).sqrt()
    velocity.mul_(left).add_(root * size * gradient).add_(math.sqrt(1.0 - left * left) * noise)
    weights.add_(root * velocity)


def unbalanced(
    self: SGHMC, weights: Tensor, velocity: Tensor, gradient: Tensor, step: Tensor, noise: Tensor, size: int
) -> None:
    """Another: the noise of half the friction."""
    right_hamiltonian(self, weights, velocity, gradient, step, math.sqrt(0.5) * noise, size)


right_hamiltonian = SGHMC.move


@pytest.mark.parametrize("twin", [whole_move, unbalanced])
def test_another_balance_would_be_noticed(twin: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SGHMC, "move", twin)
    assert abs(variance_z(chains_of(hamiltonian(0.5, rate=0.1)), 1.0 / PRECISION)) > 2 * LIMIT


def test_a_changing_step_size_leaves_the_balance_alone() -> None:
    w = chains_of(hamiltonian(0.2, schedule=credo.Polynomial()))
    assert abs(variance_z(w, 1.0 / PRECISION)) < LIMIT


def test_minibatches_are_unbiased(line: Any) -> None:
    """The gradients of the batches of an epoch average to that of all the data."""
    y, tick = line.y.unsqueeze(1), Tick(0, 1, Stream(0))
    variables, target = line.model.network.initial(2, Stream(3)), credo.Target(line.model, 12, temperature=1.5)

    def gradient(rows: slice, size: int = 12) -> Tensor:
        batch = credo.Batch(line.x[rows], y[rows])
        return _gradient(credo.Target(line.model, size, 1.5), variables, batch, tick)[0]["weight"]

    whole = gradient(slice(0, 12))
    parts = torch.stack([gradient(slice(i, i + 4)) for i in (0, 4, 8)])
    torch.testing.assert_close(parts.mean(0), whole)
    wrong = torch.stack([gradient(slice(i, i + 4), size=4) for i in (0, 4, 8)])
    assert not torch.allclose(wrong.mean(0), whole, rtol=0.1), "without the factor N / B they do not"
    assert target.size == 12


def test_minibatches_find_the_same_posterior() -> None:
    """The noise of batches of half the data adds little where steps are small."""
    w = chains_of(SGHMC(150, 0.02, 5, 60, 30, 100, friction=0.3))
    assert abs(float((w.mean() - MEAN) / (w.mean(1).std() / math.sqrt(len(w))))) < LIMIT
    each = (w - MEAN).square().mean(1) * PRECISION
    error = LIMIT * float(each.std()) / math.sqrt(len(w))
    assert 1.0 - error < float(each.mean()) < 1.1 + error  # batches add a few percent


STRETCHED = torch.tensor([[3.0, 0.0], [0.0, 0.1]]).double().repeat(10, 1)


def stretched(preconditioner: credo.RMSPreconditioner | None, rate: float) -> Tensor:
    """Squared deviations over exact variances, (C, 2), of two weights whose precisions differ 400 fold."""
    y = torch.zeros(20).double()
    model = credo.Model(nn.Linear(2, 1, bias=False).double(), likelihoods.Gaussian(1.0), priors.Normal(3.0))
    truth = credo.exact.LinearRegression(
        STRETCHED, y, 1.0, credo.exact.GaussianWeights.isotropic(2, scale=3.0)
    ).posterior
    method = SGHMC(300, rate, None, 10, 100, 500, friction=0.3, preconditioner=preconditioner)
    posterior = credo.fit(model, (STRETCHED, y), method)
    w = posterior.by_chain(posterior.variables.params["weight"].flatten(1))
    return w.square().mean(1) / truth.covariance.diagonal()


def test_a_preconditioner_speeds_up_flat_directions_and_leaves_the_posterior_alone() -> None:
    ratio = stretched(credo.RMSPreconditioner(), 0.02)
    z = (ratio.mean(0) - 1.0) / (ratio.std(0) / math.sqrt(500))
    assert bool((z.abs() < LIMIT).all())
    plain = stretched(None, 0.02)
    assert float(((plain.mean(0) - 1.0) / (plain.std(0) / math.sqrt(500))).abs().max()) > LIMIT, "not there yet"


def test_the_preconditioner_is_held_while_draws_are_kept() -> None:
    method = SGLD(10, 0.1, None, 5, 5, 2, preconditioner=credo.RMSPreconditioner(decay=0.5))
    target, batch = credo.Target(MODEL, N), credo.Batch(X, Y)
    state = method.init(target, MODEL.network.initial(2, Stream(0)), Stream(1))
    seen = []
    for step in range(10):
        state, _ = method.step(target, state, batch, Tick(step, 10, Stream(2).child(step)))
        seen.append(state.squares["weight"].clone())
    assert all(not torch.equal(a, b) for a, b in pairwise(seen[:5]))
    assert all(torch.equal(seen[4], later) for later in seen[5:])


METHODS = {"sgld": SGLD(1, 0.01, None, 1, 0, 4), "sghmc": SGHMC(1, 0.01, None, 1, 0, 4)}


def increments(method: StochasticSampler, noise: Callable[[Stream, dict[str, Tensor]], dict[str, Tensor]]) -> Tensor:
    """What one step adds to 2000 weights of four chains from one place, (4, 2000), where nothing else pulls."""
    net = nn.Linear(2000, 1, bias=False)
    model = credo.Model(net, likelihoods.Gaussian(1.0), priors.Normal(1e6))
    start = {"weight": torch.zeros(1, 2000)}
    data = (torch.zeros(1, 2000), torch.zeros(1))
    return credo.fit(model, data, method, start=start).variables.params["weight"].flatten(1)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_four_chains_never_share_a_stream(method: StochasticSampler, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = 4.5 / math.sqrt(2000)  # of independent ones 8e-5 exceed it
    away = ~torch.eye(4, dtype=torch.bool)
    assert float(torch.corrcoef(increments(method, Stream.normal_like))[away].abs().max()) < bound
    right = Stream.normal_like

    def shared(self: Stream, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: t[:1].expand_as(t).clone() for name, t in right(self, tensors).items()}

    monkeypatch.setattr(Stream, "normal_like", shared)
    assert float(torch.corrcoef(increments(method, shared))[away].abs().max()) > bound


def test_draws_are_even_in_the_time_of_the_diffusion() -> None:
    schedule = credo.Polynomial(power=1.0, decay=9.0)
    method = SGLD(1000, 0.1, None, 20, 100, 1, schedule=schedule)
    kept = sorted(_draw_steps(method, 1000))
    assert len(kept) == 20
    assert kept[0] >= 100
    assert kept[-1] == 999
    times = [sum(schedule.factor(i / 1000) for i in range(a, b)) for a, b in pairwise(kept)]
    assert max(times) - min(times) < 1.01, "up to one step"
    gaps = [b - a for a, b in pairwise(kept)]
    assert gaps[-1] > 2 * gaps[0], "smaller steps, so more of them"
    even = sorted(_draw_steps(SGLD(1000, 0.1, None, 20, 100, 1), 1000))
    assert {b - a for a, b in pairwise(even)} == {45}


def test_every_step_is_kept_where_more_draws_are_asked_for() -> None:
    assert _draw_steps(SGLD(10, 0.1, None, 100, 4), 10) == frozenset(range(4, 10))
    assert _draw_steps(SGLD(1, 0.1, None, 100), 1) == frozenset({0}), "a run of one step has one draw"


CYCLES = credo.Cyclical(cycles=4, exploration=0.75)


def test_cycles_explore_without_noise_and_sample_with_it() -> None:
    method = SGLD(80, 0.1, None, 8, chains=3, schedule=CYCLES)
    kept = sorted(_draw_steps(method, 80))
    assert all(step % 20 >= 15 for step in kept)
    assert len({step // 20 for step in kept}) == 4, "in every cycle"
    assert CYCLES.factor(0.0) == CYCLES.factor(0.25) == 1.0
    assert CYCLES.factor(0.249) < 1e-3
    start = {"weight": torch.zeros(1, 1).double()}
    explored = credo.fit(MODEL, (X, Y), SGLD(80, 0.1, None, 80, chains=3, schedule=CYCLES), start=start)
    first = explored.by_chain(explored.variables.params["weight"].flatten(1))[:, 0]
    assert len(set(first.flatten().tolist())) == 3, "with noise the chains part"
    target, batch, short = credo.Target(MODEL, N), credo.Batch(X, Y), method
    state = short.init(target, MODEL.network.given().repeat(3), Stream(1))
    for step in range(15):
        state, _ = short.step(target, state, batch, Tick(step, 80, Stream(2).child(step)))
    assert len(set(state.variables.params["weight"].flatten().tolist())) == 1, "and before it they do not"


def test_dropout_is_off_and_batch_norm_is_kept_with_every_draw() -> None:
    net = nn.Sequential(nn.Linear(1, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 1))
    x = torch.linspace(-1, 1, 16).unsqueeze(1)
    posterior = credo.fit(net, (x, x), SGLD(epochs=6, batch_size=4, draws=4, chains=2, warmup=2))
    assert any("dropout is off" in note for note in posterior.notes)
    assert any("batch norm sees one batch at a time" in note for note in posterior.notes)
    running = posterior.by_chain(posterior.variables.buffers["1.running_mean"])  # (C, T, 5)
    assert running.shape == (2, 4, 5)
    assert len({tuple(row) for row in running.flatten(0, 1).tolist()}) == 8


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: SGLD(epochs=0), "epochs must be"),
        (lambda: SGLD(learning_rate=0.0), "learning_rate must be a positive number"),
        (lambda: SGLD(batch_size=0), "batch_size must be"),
        (lambda: SGLD(epochs=5, warmup=5), r"warmup must be less than epochs \(5\)"),
        (lambda: SGLD(warmup=5, schedule=credo.Cyclical()), "with a Cyclical schedule warmup must be None"),
        (lambda: SGHMC(friction=0.0), "friction must lie"),
        (lambda: SGLD(warmup=0, preconditioner=credo.RMSPreconditioner()), "it needs a warm-up, or cycles"),
        (lambda: credo.RMSPreconditioner(decay=1.0), "decay must lie"),
        (lambda: credo.RMSPreconditioner(floor=0.0), "floor must be a positive number"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()
