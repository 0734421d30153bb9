"""Variational dropout as a method: its bound, its gradient, its optimum, and what it tells people."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

import credo
from credo import likelihoods, priors
from credo.core.optimizers import Schedule
from credo.core.trees import Variables
from credo.decide import compression, log_alpha, prune_noise
from credo.methods.base import Tick
from credo.methods.dropout.log_uniform import Polynomial, Sigmoid
from credo.methods.dropout.noisy import NoisyState, NoisyWeights
from credo.model import Batch, Target
from credo.posteriors import DiagonalGaussian

METHODS: dict[str, NoisyWeights] = {
    "layer": credo.VariationalDropout(epochs=1),
    "unit": credo.VariationalDropout(epochs=1, sharing="unit"),
    "weight": credo.VariationalDropout(epochs=1, sharing="weight"),
    "correlated": credo.VariationalDropout(epochs=1, sharing="unit", correlated=True),
    "sparse": credo.SparseVariationalDropout(epochs=1, initial_scale=0.2),
}
every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())


@dataclass(frozen=True)
class Always(Schedule):
    """The same factor in the whole run."""

    value: float

    def factor(self, fraction: float) -> float:
        return self.value


def data(count: int = 30, inputs: int = 4) -> Batch:
    x = credo.Stream(1).normal(count, inputs, dtype=torch.float64)
    return Batch(x, x[:, :1].sin())


def start(method: NoisyWeights, size: int = 30) -> tuple[Target, NoisyState]:
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    target = Target(credo.Model(net, likelihoods.Gaussian(0.5)), size)
    variables = target.model.network.initial(1, credo.Stream(2))
    return target, method.init(target, variables, credo.Stream(3))


def slopes(method: NoisyWeights, batch: Batch, size: int = 30, seed: int = 4) -> list[Tensor]:
    target, state = start(method, size)
    by_mean, by_level, _ = method._slopes(target, state, batch, Tick(0, 1, credo.Stream(seed)))
    return [*by_mean, *by_level]


def bound(method: NoisyWeights, target: Target, state: NoisyState, batch: Batch, draws: int) -> Tensor:
    """The negative bound per example, by drawn weights and the divergence alone: nothing of the step."""
    posterior = method.noise.posterior(target.model, state.mean, state.level)
    fit = posterior.predict(batch.x, draws, seed=5)
    likely = likelihoods.Gaussian(0.5).log_prob(fit.draws, batch.y, {}).mean(0).sum()
    kl = torch.zeros((), dtype=torch.float64)
    points = {name: w for name, w in state.mean.params.items() if name not in state.level}
    for name, level in state.level.items():
        weight = state.mean.params[name]
        kl = kl + method.noise.kl(weight, level).sum()
    return (kl - likely - target.model.prior.log_prob(points, target.layout).sum()) / target.size


@every_method
def test_the_slope_by_the_noise_is_that_of_the_bound(method: NoisyWeights) -> None:
    """Averaged over 200 steps' noise, against differences of the bound with the same 20,000 drawn functions."""
    method = replace(method, annealing=credo.Constant())
    batch, draws, step = data(), 20_000, 0.02
    target, state = start(method)
    name = "2.weight"
    found = []
    for seed in range(200):
        tick = Tick(0, 1, credo.Stream(seed))
        found.append(method._slopes(target, state, batch, tick)[1][list(state.level).index(name)].sum())
    sample = torch.stack(found)
    ends = []
    for sign in (1.0, -1.0):
        level = {**state.level, name: state.level[name] + sign * step}
        ends.append(bound(method, target, replace(state, level=level), batch, draws))
    expected = float(ends[0] - ends[1]) / (2 * step)
    # 5 standard errors of the average, and the error of the differences (two runs with the same noise, 1 % of it)
    tolerance = 5.0 * float(sample.std()) / math.sqrt(len(sample)) + 0.01 * abs(expected) + 1e-4
    assert abs(float(sample.mean()) - expected) < tolerance
    without = sample.mean() - of_divergence(method, state, name).sum() / 30
    assert abs(float(without) - expected) > tolerance  # the twin without a KL
    flipped = 2 * without - sample.mean()
    assert abs(float(flipped) - expected) > tolerance  # the twin with its sign wrong


def of_divergence(method: NoisyWeights, state: NoisyState, name: str) -> Tensor:
    """Its slope by the level, by autograd."""
    level = state.level[name].clone().requires_grad_()
    (slope,) = torch.autograd.grad(method.noise.kl(state.mean.params[name], level).sum(), level)
    return slope


@every_method
def test_the_divergence_counts_once_for_all_the_data(method: NoisyWeights) -> None:
    """Its part of the slope is KL / N, whatever the batch; per batch or not divided, it would be another number."""
    batch = data()
    few = Batch(batch.x[:10], batch.y[:10])
    for given in (batch, few):
        whole = slopes(replace(method, annealing=Always(1.0)), given)
        without = slopes(replace(method, annealing=Always(0.0)), given)
        target, state = start(method)
        parts = [of_divergence(method, state, name) for name in state.level]
        for part, with_kl, no_kl in zip(parts, whole[-len(parts) :], without[-len(parts) :], strict=True):
            torch.testing.assert_close(with_kl - no_kl, part / target.size)
            assert not torch.allclose(with_kl - no_kl, part / len(few.x))


@every_method
def test_the_history_tells_the_divergence_per_example(method: NoisyWeights) -> None:
    target, state = start(method)
    expected = sum(float(method.noise.kl(state.mean.params[name], state.level[name]).sum()) for name in state.level)
    info = method.summary(target, state, credo.Stream(0))
    assert float(info["kl"].sum()) * target.size == pytest.approx(expected)


LINE = torch.linspace(-2, 2, 40, dtype=torch.float64).unsqueeze(1)
CASES = {
    "a weight that matters": (1.5, credo.SparseVariationalDropout(initial_scale=0.1), Sigmoid()),
    "a weight that does not": (0.02, credo.SparseVariationalDropout(initial_scale=0.1), Sigmoid()),
    "multiplicative": (1.5, credo.VariationalDropout(), Polynomial()),
}


@pytest.mark.parametrize(("truth", "method", "prior"), CASES.values(), ids=CASES.keys())
def test_the_optimum_of_one_weight_is_that_of_the_bound(truth: float, method: NoisyWeights, prior) -> None:
    """One weight, y = w x + noise: the bound is known in closed form, and maximised by another program."""
    y, scale = truth * LINE + 0.5 * credo.Stream(8).normal(40, 1, dtype=torch.float64), 0.5

    def negative_bound(at: list[float]) -> float:
        theta, log_variance = at
        squares = float(((y - theta * LINE) ** 2).sum() + math.exp(log_variance) * (LINE**2).sum())
        level = torch.tensor(log_variance - math.log(theta**2 + 1e-16), dtype=torch.float64)
        return squares / (2 * scale**2) + float(prior.kl(level))

    best = min(
        (minimize(negative_bound, [1.0 * truth, s], method="Nelder-Mead") for s in (-6.0, -2.0)), key=lambda r: r.fun
    )
    model = credo.Model(nn.Linear(1, 1, bias=False).double(), likelihoods.Gaussian(scale))
    method = replace(method, epochs=700, batch_size=None, learning_rate=0.03, schedule=credo.Cosine())
    posterior = credo.fit(model, (LINE, y), method, start={"weight": torch.full((1, 1), truth, dtype=torch.float64)})
    assert isinstance(posterior, DiagonalGaussian)
    found = posterior.mean.params["weight"].item(), 2 * math.log(posterior.scale["weight"].item())
    # gradients by one draw per example leave the optimiser a little off: the bound itself must be as good to 0.03 nats
    assert negative_bound(list(found)) < best.fun + 0.03


def ten_inputs() -> tuple[Tensor, Tensor]:
    """Of ten inputs the first two matter."""
    x = credo.Stream(9).normal(300, 10)
    return x, x[:, :2].sum(1, keepdim=True) + 0.3 * credo.Stream(10).normal(300, 1)


def noise_of_ten(method: NoisyWeights) -> tuple[DiagonalGaussian, Tensor]:
    """A fit, and the log alphas of its ten weights."""
    model = credo.Model(nn.Linear(10, 1), likelihoods.Gaussian(0.3))
    method = replace(method, epochs=250, batch_size=100, learning_rate=0.02, schedule=credo.Cosine())
    posterior = credo.fit(model, ten_inputs(), method)
    assert isinstance(posterior, DiagonalGaussian)
    return posterior, log_alpha(posterior)["weight"][0, 0]


def test_weights_that_the_data_cannot_tell_from_zero_are_noise() -> None:
    x, y = ten_inputs()
    signal = torch.linalg.lstsq(x, y).solution[:, 0].abs() / (0.3 / math.sqrt(300))  # in standard errors
    posterior, noise = noise_of_ten(credo.SparseVariationalDropout())
    assert bool((noise[signal > 10] < -5).all())
    assert int((signal < 0.6).sum()) >= 2
    assert bool((noise[signal < 0.6] > 3).all())
    assert bool((noise[signal < 2] > -2).all())
    assert compression(prune_noise(posterior)).kept == int((noise <= 3).sum()) < 10


def test_without_its_divergence_hardly_any_is() -> None:
    """The twin: no KL."""
    _, noise = noise_of_ten(credo.SparseVariationalDropout(annealing=Always(0.0)))
    assert int((noise > 3).sum()) <= 1


@every_method
def test_alpha_of_the_multiplicative_forms_is_at_most_one(method: NoisyWeights) -> None:
    x = credo.Stream(11).normal(50, 4)
    y = credo.Stream(12).normal(50, 1)  # nothing to learn: all weights would be noise
    posterior = credo.fit(
        credo.Model(credo.nets.MLP(4, 1, (6,)), likelihoods.Gaussian(1.0)), (x, y), replace(method, epochs=60)
    )
    if isinstance(method, credo.VariationalDropout) and isinstance(posterior, DiagonalGaussian):
        assert all(bool((a < 1e-4).all()) for a in log_alpha(posterior).values())  # rounding of a square root
        assert 0.0 < posterior.history[-1]["alpha"] <= 1.0


def test_a_draw_is_one_function_and_draws_differ() -> None:
    model, x = credo.Model(credo.nets.MLP(2, 1, (8,)), likelihoods.Gaussian(1.0)), credo.Stream(13).normal(12, 2)
    for method in METHODS.values():
        functions = credo.fit(model, (x, x[:, :1]), method).draw(4)
        outputs = functions(x)
        torch.testing.assert_close(outputs, torch.cat([functions(row) for row in x.split(5)], 1))
        assert len({tuple(f.flatten().tolist()) for f in outputs}) == 4


def test_a_run_can_start_from_a_trained_net() -> None:
    x = credo.Stream(14).normal(60, 3)
    data = (x, (x[:, 0] > 0).long())
    trained = credo.fit(credo.nets.MLP(3, 2, (8,)), data, credo.MAP(epochs=40, learning_rate=0.02))
    again = credo.fit(
        credo.nets.MLP(3, 2, (8,)), data, credo.SparseVariationalDropout(epochs=1, learning_rate=1e-9), start=trained
    )
    for name, weight in trained.point().params.items():
        torch.testing.assert_close(again.point().params[name], weight, rtol=1e-5, atol=1e-6)  # one step of 1e-9


# --- what people are told ---


def test_notes_say_what_becomes_of_prior_points_and_layers() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Dropout(0.1), nn.Flatten(), nn.Linear(8, 2))
    x = credo.Stream(15).normal(10, 1, 4, 4)
    model = credo.Model(net, likelihoods.Categorical(), priors.Normal(1.0))
    notes = credo.fit(model, (x, torch.arange(10) % 2), credo.VariationalDropout(epochs=1)).notes
    assert any("takes the place of Normal(scale=1.0" in note and "0.weight, 4.weight" in note for note in notes)
    assert any(note == "points, without noise: 0.bias, 4.bias" for note in notes)
    assert any("correlation" in note and "0.weight" in note for note in notes)
    assert any("own dropout stays on in training" in note for note in notes)
    correlated = credo.fit(model, (x, torch.arange(10) % 2), credo.VariationalDropout(epochs=1, correlated=True)).notes
    assert not any("correlation" in note for note in correlated)


def test_a_weight_outside_of_layers_is_drawn_in_weight_space() -> None:
    x = torch.arange(12).remainder(5).unsqueeze(1)
    net = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(3, 1))
    for correlated in (False, True):
        posterior = credo.fit(
            credo.Model(net, likelihoods.Gaussian(1.0)),
            (x, x.float()),
            credo.VariationalDropout(epochs=2, correlated=correlated),
        )
        assert "drawn once for a batch, in weight space: 0.weight" in posterior.notes
        assert float(posterior.predict(x).epistemic.max()) > 0


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: credo.VariationalDropout(initial_alpha=2.0), "initial_alpha must be at most 1"),
        (lambda: credo.VariationalDropout(sharing="row"), "sharing must be one of layer, unit, weight"),
        (lambda: credo.VariationalDropout(sharing="weight", correlated=True), "cannot have an alpha each"),
        (lambda: credo.SparseVariationalDropout(initial_scale=0.0), "initial_scale must be a positive number"),
        (lambda: credo.SparseVariationalDropout(noise_learning_rate=-1.0), "noise_learning_rate must be a positive"),
    ],
)
def test_misuse_is_refused_in_a_sentence(make, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_patterns_that_match_nothing_and_groups_are_refused() -> None:
    x = credo.Stream(16).normal(6, 4, 5)
    with pytest.raises(ValueError, match=r"matches no weight of the network.*layers.1.weight"):
        credo.fit(credo.nets.MLP(4, 1), (x[:, :, 0], x[:, :1, 0]), credo.VariationalDropout(noisy="conv*"))
    for half in ("conv*", "layers.1.bias"):
        method = credo.SparseVariationalDropout(noisy=("layers.1.weight", half))
        with pytest.raises(ValueError, match=rf"noisy has the pattern '{re.escape(half)}'.*layers\.1\.weight"):
            credo.fit(credo.nets.MLP(4, 1), (x[:, :, 0], x[:, :1, 0]), method)
    net = nn.Sequential(nn.Conv1d(4, 4, 3, groups=2), nn.Flatten(), nn.Linear(12, 1))
    with pytest.raises(ValueError, match="convolution with groups"):
        credo.fit(net, (x, x[:, 0, :1]), credo.VariationalDropout(sharing="unit", correlated=True))


def test_only_the_named_weights_get_noise() -> None:
    x = credo.Stream(17).normal(10, 4)
    posterior = credo.fit(credo.nets.MLP(4, 1), (x, x[:, :1]), credo.SparseVariationalDropout(epochs=1, noisy="*.1.*"))
    assert isinstance(posterior, DiagonalGaussian)
    assert list(posterior.scale) == ["layers.1.weight"]


def test_buffers_and_the_likelihoods_own_parameters_come_along() -> None:
    x = credo.Stream(18).normal(40, 3)
    net = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))
    posterior = credo.fit(credo.Model(net, likelihoods.LearnedGaussian()), (x, x[:, :1]), METHODS["sparse"])
    assert isinstance(posterior.point(), Variables)
    assert float(posterior.point().buffers["1.num_batches_tracked"]) == 1
    assert any(name.startswith("likelihood.") for name in posterior.point().params)
