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
from credo.methods.ascent import leaves_of
from credo.methods.base import Tick
from credo.methods.dropout.log_uniform import cubic_kl, sigmoid_kl
from credo.methods.dropout.objective import elbo
from credo.methods.dropout.variational import VariationalDropoutBase, VariationalDropoutState
from credo.model import Batch, Target
from credo.posteriors import DiagonalGaussian

METHODS: dict[str, VariationalDropoutBase] = {
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


def start(method: VariationalDropoutBase, size: int = 30) -> tuple[Target, VariationalDropoutState]:
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    target = Target(credo.Model(net, likelihoods.Gaussian(0.5)), size)
    variables = target.model.network.initial(1, credo.Stream(2))
    return target, method.init(target, variables, credo.Stream(3))


def gradients(
    method: VariationalDropoutBase, batch: Batch, kl_weight: float = 1.0, seed: int = 4
) -> tuple[list[Tensor], list[Tensor]]:
    """Of the negative bound per example, by the means and by the noise."""
    target, state = start(method)
    params, log_noise = leaves_of(state.mean.params), leaves_of(state.log_noise)
    bound, _ = elbo(target, method.noise_model, Variables(params), log_noise, batch, credo.Stream(seed), kl_weight)
    found = torch.autograd.grad(-bound.sum() / target.size, [*params.values(), *log_noise.values()])
    return list(found[: len(params)]), list(found[len(params) :])


def negative_bound(
    method: VariationalDropoutBase, target: Target, state: VariationalDropoutState, batch: Batch, draws: int
) -> Tensor:
    """Per example, by drawn weights and the KL alone: nothing of the step."""
    posterior = method.noise_model.posterior(target.model, state.mean, state.log_noise)
    fit = posterior.predict(batch.x, draws, seed=5)
    likely = likelihoods.Gaussian(0.5).log_prob(fit.draws, batch.y, {}).mean(0).sum()
    kl = torch.zeros((), dtype=torch.float64)
    points = {name: w for name, w in state.mean.params.items() if name not in state.log_noise}
    for name, values in state.log_noise.items():
        kl = kl + method.noise_model.kl(state.mean.params[name], values).sum()
    return (kl - likely - target.model.prior.log_prob(points, target.layout).sum()) / target.size


@every_method
def test_the_gradient_by_the_noise_is_that_of_the_bound(method: VariationalDropoutBase) -> None:
    """Averaged over 200 steps' noise, against differences of the bound with the same 20,000 drawn functions."""
    batch, draws, step = data(), 20_000, 0.02
    target, state = start(method)
    name = "2.weight"
    index = list(state.log_noise).index(name)
    sample = torch.stack([gradients(method, batch, seed=seed)[1][index].sum() for seed in range(200)])
    ends = []
    for sign in (1.0, -1.0):
        log_noise = {**state.log_noise, name: state.log_noise[name] + sign * step}
        ends.append(negative_bound(method, target, replace(state, log_noise=log_noise), batch, draws))
    expected = float(ends[0] - ends[1]) / (2 * step)
    # 5 standard errors of the average, and the error of the differences (two runs with the same noise, 1 % of it)
    tolerance = 5.0 * float(sample.std()) / math.sqrt(len(sample)) + 0.01 * abs(expected) + 1e-4
    assert abs(float(sample.mean()) - expected) < tolerance
    without = sample.mean() - kl_gradient(method, state, name).sum() / 30
    assert abs(float(without) - expected) > tolerance  # the twin without a KL
    flipped = 2 * without - sample.mean()
    assert abs(float(flipped) - expected) > tolerance  # the twin with its sign wrong


def kl_gradient(method: VariationalDropoutBase, state: VariationalDropoutState, name: str) -> Tensor:
    """By the noise."""
    values = state.log_noise[name].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(method.noise_model.kl(state.mean.params[name], values).sum(), values)
    return gradient


@every_method
def test_the_kl_counts_once_for_all_the_data(method: VariationalDropoutBase) -> None:
    """Its part of the gradient is KL / N, whatever the batch; per batch or not divided, it would be another number."""
    batch = data()
    few = Batch(batch.x[:10], batch.y[:10])
    for given in (batch, few):
        (_, whole), (_, without) = gradients(method, given, 1.0), gradients(method, given, 0.0)
        target, state = start(method)
        parts = [kl_gradient(method, state, name) for name in state.log_noise]
        for part, with_kl, no_kl in zip(parts, whole, without, strict=True):
            torch.testing.assert_close(with_kl - no_kl, part / target.size)
            assert not torch.allclose(with_kl - no_kl, part / len(few.x))


def test_the_bound_is_the_formula() -> None:
    """One linear layer and one noise, written out; temperature and annealing have their place."""
    batch, temperature, kl_weight = data(12), 2.0, 0.3
    net = nn.Linear(4, 1).double()
    prior = priors.Normal(0.7)
    target = Target(credo.Model(net, likelihoods.Gaussian(0.5), prior), 36, temperature)
    mean = target.model.network.given()
    theta, bias = mean.params["weight"], mean.params["bias"]
    log_alpha = torch.linspace(-3.0, -0.1, 4, dtype=torch.float64).reshape(1, 1, 4)
    method = credo.VariationalDropout(sharing="unit")
    rng = credo.Stream(9)
    found, log_likelihood = elbo(target, method.noise_model, mean, {"weight": log_alpha}, batch, rng, kl_weight)
    noise = rng.child("layers").normal(1, 12, 1, dtype=torch.float64)[0]
    variance = batch.x.square() @ (log_alpha.exp() * theta.square())[0].T
    outputs = batch.x @ theta[0].T + bias[0] + variance.sqrt() * noise
    likely = torch.distributions.Normal(outputs, 0.5).log_prob(batch.y).sum() * (36 / 12)
    of_bias = torch.distributions.Normal(0.0, 0.7).log_prob(bias).sum()
    torch.testing.assert_close(log_likelihood, likely[None])
    torch.testing.assert_close(found, ((likely + of_bias) / temperature - kl_weight * cubic_kl(log_alpha)))
    of_theta = torch.distributions.Normal(0.0, 0.7).log_prob(theta).sum()
    assert abs(float(of_theta)) > 0.1  # the twin that counts the model's prior of noisy weights is another number


def test_the_kl_comes_in_with_the_annealing() -> None:
    """Nothing of it in the first step, all of it in the last: the noise moves by the likelihood alone at first."""
    method = credo.VariationalDropout(annealing=Always(0.0), optimizer=credo.SGD(), learning_rate=1e-3)
    batch = data()
    for weight in (0.0, 1.0):
        target, state = start(replace(method, annealing=Always(weight)))
        before = {name: values.clone() for name, values in state.log_noise.items()}
        replace(method, annealing=Always(weight)).step(target, state, batch, Tick(0, 1, credo.Stream(4)))
        _, expected = gradients(method, batch, weight)
        for (name, values), gradient in zip(state.log_noise.items(), expected, strict=True):
            torch.testing.assert_close(values, before[name] - 0.01 * gradient)


@every_method
def test_noise_stays_where_its_model_holds(method: VariationalDropoutBase) -> None:
    target, state = start(method)
    for values in state.log_noise.values():
        values.fill_(5.0)
    state, _ = method.step(target, state, data(), Tick(0, 1, credo.Stream(4)))
    assert all(bool((values <= 0.0).all()) for values in state.log_noise.values())


@every_method
def test_the_history_has_the_kl_per_example(method: VariationalDropoutBase) -> None:
    target, state = start(method)
    pairs = [(state.mean.params[name], values) for name, values in state.log_noise.items()]
    expected = sum(float(method.noise_model.kl(*pair).sum()) for pair in pairs)
    info = method.summary(target, state, credo.Stream(0))
    assert float(info["kl"].sum()) * target.size == pytest.approx(expected)


LINE = torch.linspace(-2, 2, 40, dtype=torch.float64).unsqueeze(1)
CASES = {
    "a weight that matters": (1.5, credo.SparseVariationalDropout(initial_scale=0.1), sigmoid_kl),
    "a weight that does not": (0.02, credo.SparseVariationalDropout(initial_scale=0.1), sigmoid_kl),
    "multiplicative": (1.5, credo.VariationalDropout(), cubic_kl),
}


@pytest.mark.parametrize(("truth", "method", "kl"), CASES.values(), ids=CASES.keys())
def test_the_optimum_of_one_weight_is_that_of_the_bound(truth: float, method: VariationalDropoutBase, kl) -> None:
    """One weight, y = w x + noise: the bound is known in closed form, and maximized by another program."""
    y, scale = truth * LINE + 0.5 * credo.Stream(8).normal(40, 1, dtype=torch.float64), 0.5

    def objective(at: list[float]) -> float:
        theta, log_variance = at
        squares = float(((y - theta * LINE) ** 2).sum() + math.exp(log_variance) * (LINE**2).sum())
        log_alpha = torch.tensor([[log_variance - math.log(theta**2 + 1e-16)]], dtype=torch.float64)
        return squares / (2 * scale**2) + float(kl(log_alpha))

    best = min((minimize(objective, [1.0 * truth, s], method="Nelder-Mead") for s in (-6.0, -2.0)), key=lambda r: r.fun)
    model = credo.Model(nn.Linear(1, 1, bias=False).double(), likelihoods.Gaussian(scale))
    method = replace(method, epochs=700, batch_size=None, learning_rate=0.03, schedule=credo.Cosine())
    posterior = credo.fit(model, (LINE, y), method, start={"weight": torch.full((1, 1), truth, dtype=torch.float64)})
    assert isinstance(posterior, DiagonalGaussian)
    found = posterior.mean.params["weight"].item(), 2 * math.log(posterior.scale["weight"].item())
    # gradients by one draw per example leave the optimizer a little off: the bound itself must be as good to 0.03 nats
    assert objective(list(found)) < best.fun + 0.03


def ten_inputs() -> tuple[Tensor, Tensor]:
    """Of ten inputs the first two matter."""
    x = credo.Stream(9).normal(300, 10)
    return x, x[:, :2].sum(1, keepdim=True) + 0.3 * credo.Stream(10).normal(300, 1)


def noise_of_ten(method: VariationalDropoutBase) -> tuple[DiagonalGaussian, Tensor]:
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
def test_alpha_of_the_multiplicative_forms_is_at_most_one(method: VariationalDropoutBase) -> None:
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
    for name, weight in trained.members().params.items():
        torch.testing.assert_close(again.members().params[name], weight, rtol=1e-5, atol=1e-6)  # one step of 1e-9


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
    assert isinstance(posterior.members(), Variables)
    assert float(posterior.members().buffers["1.num_batches_tracked"]) == 1
    assert any(name.startswith("likelihood.") for name in posterior.members().params)


# --- networks of other kinds ---


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTM(3, 5, batch_first=True), nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cell(x)[0][:, -1])


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(3, 4), nn.Linear(4, 1)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        return self.head(self.attention(h, h, h, need_weights=False)[0].mean(1))


class Normed(nn.Linear):
    """A layer with a forward of its own, whose product is not that of its weight."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight / self.weight.norm(), self.bias)


def half_frozen() -> nn.Module:
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 1))
    net[1].requires_grad_(False)
    net[3].weight.requires_grad_(False)
    return net


def in_place() -> nn.Module:
    rest = [
        nn.ReLU(inplace=True),
        nn.Linear(5, 5),
        nn.ELU(inplace=True),
        nn.Dropout(0.2, inplace=True),
        nn.Linear(5, 1),
    ]
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 5), *rest)


KINDS = {
    "recurrent": (Recurrent, {"cell.weight_ih_l0", "cell.weight_hh_l0"}),
    "attention": (Attention, {"attention.in_proj_weight", "attention.out_proj.weight"}),
    "a forward of its own": (
        lambda: nn.Sequential(nn.Flatten(), Normed(12, 4), nn.ReLU(), nn.Linear(4, 1)),
        {"1.weight"},
    ),
    "half frozen": (half_frozen, set()),
    "in place": (in_place, set()),
}


@pytest.mark.parametrize(("make", "drawn_once"), KINDS.values(), ids=KINDS.keys())
@pytest.mark.parametrize("method", [METHODS["layer"], METHODS["correlated"], METHODS["sparse"]], ids=str)
def test_other_networks_are_fitted_and_a_note_says_what_is_drawn_once(make, drawn_once: set[str], method) -> None:
    x = credo.Stream(1).normal(20, 4, 3)
    before = x.clone()
    posterior = credo.fit(credo.Model(make(), likelihoods.Gaussian(0.5)), (x, x[:, 0, :1]), replace(method, epochs=2))
    notes = [note for note in posterior.notes if note.startswith("drawn once")]
    assert {name for note in notes for name in note.rpartition(": ")[2].split(", ")} == drawn_once
    functions = posterior.draw(3)
    rows = torch.cat([functions(row) for row in x.split(1)], 1)
    torch.testing.assert_close(functions(x), rows)
    assert float(functions(x).var(0).max()) > 0.0
    assert torch.equal(x, before)
