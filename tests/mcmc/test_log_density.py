"""The gradient written out for dense nets is autograd's, for every likelihood, prior, activation and temperature."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import kernels, likelihoods, priors
from credo.core.trees import Variables
from credo.methods.mcmc.log_density import LogDensity
from credo.model import Batch, Target

X = credo.Stream(0, ("x",)).normal(9, 3, dtype=torch.float64)
REAL = credo.Stream(0, ("y",)).normal(9, 2, dtype=torch.float64)
TARGETS: dict[str, tuple[credo.likelihoods.base.Likelihood, Tensor, int]] = {
    "gaussian": (likelihoods.Gaussian(0.3), REAL, 2),
    "learned noise": (likelihoods.LearnedGaussian(0.7), REAL, 2),
    "noise of x": (likelihoods.HeteroscedasticGaussian(), REAL, 4),
    "classes": (likelihoods.Categorical(), torch.arange(9) % 4, 4),
    "yes or no": (likelihoods.Bernoulli(), (REAL[:, :1] > 0).double(), 1),
    "standardized": (likelihoods.Standardized(likelihoods.Gaussian(0.3), (3.0, -1.0), (2.0, 0.5)), REAL, 2),
    "standardized, learned noise": (
        likelihoods.Standardized(likelihoods.LearnedGaussian(0.7), (3.0, -1.0), (2.0, 0.5)),
        REAL,
        2,
    ),
    "counts": (likelihoods.Poisson(), (REAL[:, :1] * 2).round().abs(), 1),
}
PRIORS = [
    priors.Normal(0.8, fan_in=True),
    priors.Normal(1.5),
    priors.StudentT(),
    priors.Laplace(),
    priors.ScaleMixture(),
]


def density(net: nn.Module, likelihood, prior, y: Tensor, outputs: int, temperature: float = 1.0) -> LogDensity:
    model = credo.Model(net.double(), likelihood, prior)
    variables = model.complete(model.network.initial(3, credo.Stream(1)), outputs)
    moved = {name: t + 0.1 * credo.Stream(2, (name,)).normal(*t.shape) for name, t in variables.params.items()}
    # 20 examples in all, of which the batch has nine: the fold must be right too
    return LogDensity(Target(model, 20, temperature), Batch(X, y), Variables(moved, variables.buffers))


def agree(density: LogDensity) -> bool:
    flat = density.flat(density.variables.params)
    value, gradient = density.value_and_gradient(flat)
    leaf = flat.clone().requires_grad_()
    expected = density(leaf)
    (slope,) = torch.autograd.grad(expected.sum(), leaf)
    return torch.allclose(value, expected, rtol=1e-10) and torch.allclose(gradient, slope, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_every_likelihood_and_prior(name: str, prior: priors.Prior) -> None:
    likelihood, y, outputs = TARGETS[name]
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, outputs))
    by_hand = density(net, likelihood, prior, y, outputs, temperature=0.7)
    assert (by_hand._kernel is not None) is kernels.enabled()
    assert agree(by_hand)


@pytest.mark.parametrize(
    ("net", "written_out"),
    [
        (nn.Linear(3, 2), True),
        (nn.Sequential(nn.Linear(3, 4, bias=False), nn.Sigmoid(), nn.Dropout(0.5), nn.Linear(4, 2, bias=False)), True),
        (nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), nn.Tanh()), True),
        (nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)), False),
        (nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2)), False),
        (nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)), False),
        (nn.Sequential(nn.Flatten(), nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), True),
    ],
    ids=str,
)
def test_every_shape_of_stack(net: nn.Module, written_out: bool) -> None:
    checked = density(net, likelihoods.Gaussian(0.5), priors.Normal(), REAL, 2)
    assert (checked._kernel is not None) is (written_out and kernels.enabled())
    assert agree(checked)


def test_some_chains_have_their_own_data_and_buffers() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    net[0].weight.requires_grad_(False)
    whole = density(net, likelihoods.Gaussian(0.5), priors.Normal(), REAL, 2)
    each = Batch(torch.stack([X, X + 1.0, X - 1.0]), torch.stack([REAL, -REAL, REAL + 2.0]), per_member=True)
    for checked in (whole, LogDensity(whole.target, each, whole.variables)):
        flat, chosen = checked.flat(checked.variables.params), torch.tensor([2, 0])
        value, gradient = checked.value_and_gradient(flat)
        some, slope = checked.of(chosen)(flat[chosen])
        torch.testing.assert_close(some, value[chosen])
        torch.testing.assert_close(slope, gradient[chosen])


def test_switched_off_there_is_no_kernel() -> None:
    with kernels.disabled():
        assert not kernels.enabled()
        checked = density(nn.Linear(3, 2), likelihoods.Gaussian(0.5), priors.Normal(), REAL, 2)
        assert checked._kernel is None
        assert agree(checked)


def test_frozen_weights_are_left_to_autograd() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    net[0].weight.requires_grad_(False)
    checked = density(net, likelihoods.Gaussian(0.5), priors.Normal(), REAL, 2)
    assert checked._kernel is None
    assert agree(checked)


def test_single_precision_keeps_six_digits_of_tanh() -> None:
    net = nn.Sequential(nn.Linear(3, 30), nn.Tanh(), nn.Linear(30, 2))
    double = density(net, likelihoods.Gaussian(0.5), priors.Normal(), REAL, 2)
    flat = double.flat(double.variables.params)
    model = credo.Model(net.float(), likelihoods.Gaussian(0.5), priors.Normal())
    params = {name: t.float() for name, t in double.variables.params.items()}
    single = LogDensity(Target(model, 20), Batch(X.float(), REAL.float()), Variables(params))
    value, gradient = single.value_and_gradient(flat.float())
    expected, slope = double.value_and_gradient(flat)
    torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=1e-5)  # float32
    torch.testing.assert_close(gradient.double(), slope, rtol=1e-4, atol=1e-4)  # float32 sums


@pytest.mark.parametrize("name", TARGETS)
def test_weights_of_examples_and_the_density_of_repeated_rows(name: str) -> None:
    likelihood, y, outputs = TARGETS[name]
    plain = density(nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, outputs)), likelihood, PRIORS[0], y, outputs)
    weight = torch.tensor([1, 2, 1, 0, 3, 1, 1, 2, 1]).double()
    twice = torch.repeat_interleave(torch.arange(9), weight.long())
    weighted = LogDensity(plain.target, Batch(X, y, weight=weight, factor=1.5), plain.variables)
    repeated = LogDensity(plain.target, Batch(X[twice], y[twice], factor=1.5), plain.variables)
    assert (weighted._kernel is not None) is kernels.enabled()
    assert agree(weighted)
    flat = plain.flat(plain.variables.params)
    for mine, theirs in zip(weighted.value_and_gradient(flat), repeated.value_and_gradient(flat), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)
    assert not torch.allclose(plain.value_and_gradient(flat)[0], weighted.value_and_gradient(flat)[0], rtol=1e-3)
