"""The estimators against the moments that weight space gives them, exactly.

A layer is linear in its weights, h = J w + c, so under q its outputs have mean J mean + c and covariance
J diag(scale^2) J^T; the Jacobian J is taken by differentiation, without any formula of the estimators.

Every comparison allows 5 Monte Carlo standard errors: with about 400 comparisons of near-normal averages, a correct
estimator fails somewhere with a probability near 2e-4 over the choice of seeds; the seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

import credo
from credo import likelihoods, priors
from credo.core.trees import Params
from credo.methods.vi import BayesByBackprop, Estimator, Flipout, LocalReparameterization, Reparameterization
from credo.methods.vi.layers import Affine
from credo.methods.vi.mean_field import MeanFieldNormal

DRAWS, ERRORS, APART = 3000, 5.0, credo.Plan.ONE_BY_ONE


@dataclass(frozen=True)
class Probe(likelihoods.Categorical):
    """Not a density: hands the outputs through, so that what an estimator makes of a layer can be looked at."""

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return outputs


LAYERS = {
    "linear": (lambda: nn.Linear(5, 3), (5,)),
    "linear without bias": (lambda: nn.Linear(5, 3, bias=False), (5,)),
    "linear on a sequence": (lambda: nn.Linear(3, 2), (4, 3)),
    "conv1d, stride, groups": (lambda: nn.Conv1d(4, 6, 3, stride=2, groups=2), (4, 8)),
    "conv2d, padding, dilation": (lambda: nn.Conv2d(2, 3, 3, padding=2, dilation=2), (2, 5, 4)),
    "conv2d, depthwise": (lambda: nn.Conv2d(3, 6, (1, 3), groups=3, padding="same", bias=False), (3, 3, 4)),
    "conv2d, reflected": (lambda: nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect"), (1, 4, 4)),
    "conv3d, stride": (lambda: nn.Conv3d(2, 2, 2, stride=(1, 2, 1)), (2, 3, 4, 3)),
}
every_layer = pytest.mark.parametrize(("make", "shape"), LAYERS.values(), ids=LAYERS.keys())


class Scene:
    """A layer with some q over its weights, three examples, and the exact moments of its outputs."""

    def __init__(self, make, shape: tuple[int, ...], scale: float = 0.3) -> None:
        with credo.Stream(1).borrowed_global():
            net = nn.Sequential(make(), nn.Flatten()).double()
        self.x = credo.Stream(2).normal(3, *shape, dtype=torch.float64)
        self.model = credo.Model(net, Probe(), priors.Normal())
        self.mean = {name: p.detach() for name, p in net.named_parameters()}
        noise = credo.Stream(3).normal_like(self.mean)
        self.scale = {name: (3.0 if "bias" in name else 1.0) * scale * e.abs() for name, e in noise.items()}

        def outputs(params: Params) -> Tensor:
            return functional_call(net, params, (self.x,))

        jacobian = {name: j.flatten(2) for name, j in jacrev(outputs)(self.mean).items()}  # (B, E, P)
        self.outputs = outputs(self.mean)  # (B, E)
        weighted = [j * self.scale[name].flatten() for name, j in jacobian.items()]
        self.covariance = sum(w @ w.mT for w in weighted)  # (B, E, E)
        self.between = sum(weighted[i][0] @ weighted[i][1].T for i in range(len(weighted)))  # examples 0 and 1

    def q(self, members: int) -> MeanFieldNormal:
        mean = {name: w.expand(members, *w.shape).clone() for name, w in self.mean.items()}
        rho = {name: s.expand(members, *s.shape).expm1().log() for name, s in self.scale.items()}
        return MeanFieldNormal(mean, rho)

    def estimates(self, estimator: Estimator, members: int = DRAWS, plan: credo.Plan = APART) -> Tensor:
        """The outputs of so many independent passes, (S, B, E)."""
        target, batch = credo.Target(self.model, 3, plan=plan), credo.Batch(self.x, torch.zeros(3))
        with torch.no_grad():
            return estimator.log_likelihood(target, self.q(members), batch, credo.Stream(0))[0]


def mean_errors(draws: Tensor, mean: Tensor, variance: Tensor) -> float:
    return float(((draws.mean(0) - mean).abs() / (variance / len(draws)).sqrt().clamp_min(1e-12)).max())


def variance_errors(draws: Tensor, variance: Tensor) -> float:
    return float(((draws.var(0) / variance.clamp_min(1e-12) - 1.0).abs() / (2.0 / len(draws)) ** 0.5).max())


def covariance_errors(draws: Tensor, covariance: Tensor) -> float:
    """Of one example's outputs, (S, E)."""
    sample = torch.cov(draws.T)
    spread = covariance.diagonal()
    error = ((spread.unsqueeze(0) * spread.unsqueeze(1) + covariance.square()) / len(draws)).sqrt()
    return float(((sample - covariance).abs() / error.clamp_min(1e-12)).max())


@every_layer
def test_local_reparameterization_has_the_mean_and_variance_of_weight_space(make, shape) -> None:
    scene = Scene(make, shape)
    draws = scene.estimates(LocalReparameterization())
    variance = scene.covariance.diagonal(dim1=1, dim2=2)
    assert mean_errors(draws, scene.outputs, variance) < ERRORS
    assert variance_errors(draws, variance) < ERRORS


@every_layer
@pytest.mark.parametrize("estimator", [Reparameterization(), Flipout()], ids=["weight space", "flipout"])
def test_flipout_has_the_whole_covariance_of_an_example_in_weight_space(estimator: Estimator, make, shape) -> None:
    scene = Scene(make, shape)
    draws = scene.estimates(estimator)
    assert mean_errors(draws, scene.outputs, scene.covariance.diagonal(dim1=1, dim2=2)) < ERRORS
    assert max(covariance_errors(draws[:, b], scene.covariance[b]) for b in range(3)) < ERRORS


def test_flipout_and_local_reparameterization_decorrelate_examples_and_weight_space_does_not() -> None:
    scene = Scene(*LAYERS["linear"])
    spread = scene.covariance.diagonal(dim1=1, dim2=2)
    error = (spread[0].unsqueeze(1) * spread[1].unsqueeze(0) / DRAWS).sqrt()

    def between(estimator: Estimator) -> Tensor:
        draws = scene.estimates(estimator) - scene.outputs
        return draws[:, 0].T @ draws[:, 1] / DRAWS

    assert float((between(Flipout()).abs() / error).max()) < ERRORS
    assert float((between(LocalReparameterization()).abs() / error).max()) < ERRORS
    assert (
        float(((between(Reparameterization()) - scene.between).abs() / error).max()) < 1.5 * ERRORS
    )  # normal products
    assert float((between(Reparameterization()).abs() / error).max()) > 3 * ERRORS


def test_local_reparameterization_leaves_out_the_correlation_of_positions_and_says_so() -> None:
    make, shape = LAYERS["conv1d, stride, groups"]
    scene = Scene(make, shape)
    assert covariance_errors(scene.estimates(LocalReparameterization())[:, 0], scene.covariance[0]) > ERRORS
    network = scene.model.network
    notes = LocalReparameterization().notes(network, network.given(), scene.x, network.layout)
    assert "leaves out the correlation" in notes[-1]


@pytest.mark.parametrize(
    ("uncertain", "told"),
    [
        (("0.weight", "1.weight", "3.weight"), "'0.weight' (and of 1 more);"),
        (("0.weight", "3.weight"), "'0.weight';"),
        (("1.weight", "3.weight"), "'1.weight';"),
        (("3.weight",), None),
    ],
)
def test_the_note_names_the_uncertain_weights_that_positions_share(uncertain: Sequence[str], told: str | None) -> None:
    network = credo.Model(nn.Sequential(nn.Conv1d(1, 2, 3), nn.Conv1d(2, 2, 3), nn.Flatten(), nn.Linear(8, 1))).network
    notes = LocalReparameterization().notes(network, network.given(), credo.Stream(0).normal(3, 1, 8), uncertain)
    found = [note for note in notes if "correlation" in note]
    assert len(found) == (told is not None)
    assert told is None or f"share the weights of {told}" in found[0]


@every_layer
@pytest.mark.parametrize("estimator", [Reparameterization(), LocalReparameterization(), Flipout()])
def test_nothing_is_random_where_all_scales_are_zero(estimator: Estimator, make, shape) -> None:
    scene = Scene(make, shape, scale=0.0)
    draws = scene.estimates(estimator)
    torch.testing.assert_close(draws, scene.outputs.expand_as(draws), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("estimator", [LocalReparameterization(), Flipout()])
def test_both_plans_give_the_same_numbers(estimator: Estimator) -> None:
    scene = Scene(*LAYERS["conv2d, padding, dilation"])
    together, apart = (scene.estimates(estimator, 4, plan) for plan in credo.Plan)
    torch.testing.assert_close(together, apart)


class FlipoutWithTheMean(Flipout):
    """Broken: the perturbation contains the mean weights."""

    def __call__(
        self, affine: Affine, x: Tensor, weight: Tensor, bias: Tensor | None, tensors: Sequence[Tensor]
    ) -> Tensor:
        incoming, outgoing, delta, *_ = tensors
        return affine(x, weight, bias) + affine(x * incoming, weight + delta, None) * outgoing


class FlipoutByPosition(Flipout):
    """Broken: the positions of an example have signs of their own, so that they do not share weights any more."""

    def __call__(
        self, affine: Affine, x: Tensor, weight: Tensor, bias: Tensor | None, tensors: Sequence[Tensor]
    ) -> Tensor:
        incoming, outgoing, *delta = tensors
        outputs = affine(x, weight, bias)
        alternating = 1.0 - 2.0 * (torch.arange(outputs.shape[-1]) % 2)
        return outputs + affine(x * incoming, *delta) * (outgoing * alternating)


class LocalByScale(LocalReparameterization):
    """Broken: scales are added up instead of variances."""

    def __call__(
        self, affine: Affine, x: Tensor, weight: Tensor, bias: Tensor | None, tensors: Sequence[Tensor]
    ) -> Tensor:
        noise, of_weight, *of_bias = tensors
        spread = affine(x.abs(), of_weight.sqrt(), of_bias[0].sqrt() if of_bias else None)
        return affine(x, weight, bias) + spread * noise


class LocalWithoutBias(LocalReparameterization):
    """Broken: the variance of the bias is forgotten."""

    def __call__(
        self, affine: Affine, x: Tensor, weight: Tensor, bias: Tensor | None, tensors: Sequence[Tensor]
    ) -> Tensor:
        return super().__call__(affine, x, weight, bias, tensors[:2])


def test_a_flipout_whose_perturbation_contains_the_mean_is_rejected() -> None:
    still = Scene(*LAYERS["linear"], scale=0.0)
    assert float((still.estimates(FlipoutWithTheMean()) - still.outputs).abs().max()) > 0.1
    scene = Scene(*LAYERS["linear"])
    assert covariance_errors(scene.estimates(FlipoutWithTheMean())[:, 0], scene.covariance[0]) > ERRORS


def test_a_flipout_with_signs_for_every_position_is_rejected() -> None:
    scene = Scene(*LAYERS["conv1d, stride, groups"])
    assert covariance_errors(scene.estimates(FlipoutByPosition())[:, 0], scene.covariance[0]) > ERRORS


@pytest.mark.parametrize("broken", [LocalByScale(), LocalWithoutBias()])
def test_wrong_variances_are_rejected(broken: Estimator) -> None:
    scene = Scene(*LAYERS["linear"])
    draws = scene.estimates(broken)
    assert variance_errors(draws, scene.covariance.diagonal(dim1=1, dim2=2)) > ERRORS


def test_all_estimators_expect_the_same_log_likelihood_of_a_network() -> None:
    """Of a net with two hidden layers, whose outputs are not normal any more; 3 estimators, 4 examples."""
    with credo.Stream(5).borrowed_global():
        net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    model = credo.Model(net, likelihoods.Gaussian(0.5))
    x = credo.Stream(6).normal(4, 3, dtype=torch.float64)
    batch, target = credo.Batch(x, x[:, :1].sin()), credo.Target(model, 4)
    members = 20_000
    mean = {name: p.detach().expand(members, *p.shape).clone() for name, p in net.named_parameters()}
    rho = {name: torch.full_like(w, -1.0) for name, w in mean.items()}
    found = []
    for estimator in (Reparameterization(), LocalReparameterization(), Flipout()):
        with torch.no_grad():
            each, _ = estimator.log_likelihood(target, MeanFieldNormal(mean, rho), batch, credo.Stream(7))
        found.append((each.mean(0), each.var(0) / members))
    for (a, var_a), (b, var_b) in ((found[0], found[1]), (found[0], found[2])):
        assert float(((a - b).abs() / (var_a + var_b).sqrt()).max()) < ERRORS


class Hidden(nn.Module):
    """The same network, which nobody can see to be a plain stack of layers."""

    def __init__(self, stack: nn.Module) -> None:
        super().__init__()
        self.stack = stack

    def forward(self, x: Tensor) -> Tensor:
        return self.stack(x)


@dataclass(frozen=True)
class Careless(likelihoods.LearnedGaussian):
    """Writes to the outputs that it is given."""

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return super().log_prob(outputs.mul_(2.0), y, params)


@dataclass(frozen=True)
class Blind(likelihoods.LearnedGaussian):
    """Does not look at the outputs."""

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return super().log_prob(torch.zeros_like(outputs), y, params)


@dataclass(frozen=True)
class Louder(LocalReparameterization):
    """A user's own."""

    def __call__(
        self, affine: Affine, x: Tensor, weight: Tensor, bias: Tensor | None, tensors: Sequence[Tensor]
    ) -> Tensor:
        return 2.0 * super().__call__(affine, x, weight, bias, tensors)


STACKS = {
    "relu": lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)),
    "in place": lambda: nn.Sequential(nn.Linear(4, 5), nn.ELU(inplace=True), nn.Linear(5, 2, bias=False)),
    "frozen": lambda: nn.Sequential(nn.Linear(4, 5).requires_grad_(False), nn.Tanh(), nn.Linear(5, 2)),
}


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS.keys())
@pytest.mark.parametrize(
    "likelihood", [likelihoods.LearnedGaussian(), Careless(), Blind()], ids=lambda e: type(e).__name__
)
@pytest.mark.parametrize("estimator", ["reparameterization", "local", "flipout", Louder()], ids=str)
def test_a_net_that_is_seen_to_be_a_plain_stack_is_fitted_like_any_other(
    estimator: str | Estimator, likelihood: likelihoods.LearnedGaussian, stack: Callable[[], nn.Module]
) -> None:
    net, x, found = stack().double(), credo.Stream(1).normal(6, 4, dtype=torch.float64), []
    for module in (net, Hidden(net)):
        method = BayesByBackprop(epochs=2, estimator=estimator, samples=2)
        posterior = credo.fit(credo.Model(module, likelihood), (x, x[:, :2]), method, start=module, progress=False)
        found.append([t.flatten() for t in posterior.tensors().values()])
    torch.testing.assert_close(*found)


def test_dropout_masks_and_noise_of_layers_do_not_mix() -> None:
    net = nn.Sequential(nn.Linear(3, 50), nn.Dropout(0.5), nn.Linear(50, 2)).double()
    model = credo.Model(net, likelihoods.Gaussian())
    x = credo.Stream(0).normal(4, 3, dtype=torch.float64)
    variables = model.network.given()
    rho = {name: torch.full_like(w, -1e3) for name, w in variables.params.items()}  # scales of zero: masks alone
    target, batch = credo.Target(model, 4, plan=credo.Plan.ONE_BY_ONE), credo.Batch(x, x[:, :2])
    plain = target.training_log_likelihood(variables, batch, credo.Stream(9).child("network"))
    for estimator in (LocalReparameterization(), Flipout()):
        each, _ = estimator.log_likelihood(target, MeanFieldNormal(variables.params, rho), batch, credo.Stream(9))
        torch.testing.assert_close(each.detach(), plain)
