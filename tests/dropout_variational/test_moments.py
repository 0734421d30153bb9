"""Noise on outputs and on inputs against the moments that weight space gives them, exactly.

A layer is linear in its weights, h = J w + c, so its outputs have mean J theta + c and covariance J C J^T, where C is
diag(alpha theta^2), or, where an input unit has one noise, that of theta_oi s_i. J is taken by differentiation.

Every comparison allows 5 Monte Carlo standard errors: of some 600 comparisons of near-normal averages a correct one
fails somewhere with a probability near 3e-4 over the choice of seeds; the seeds are fixed.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

import credo
from credo import likelihoods
from credo.core.trees import Variables
from credo.methods.dropout.noise import AdditiveNoise, CorrelatedNoise, NoiseModel, RelativeNoise, WeightNoise
from credo.methods.dropout.objective import noisy_outputs
from credo.methods.dropout.placing import PerLayer, PerUnit, PerWeight
from credo.model import Batch, Target

DRAWS, ERRORS = 4000, 5.0
LAYERS = {
    "linear": (lambda: nn.Linear(5, 3), (5,)),
    "conv1d": (lambda: nn.Conv1d(3, 2, 3, stride=2), (3, 7)),
    "conv2d": (lambda: nn.Conv2d(2, 3, 2, padding=1), (2, 3, 2)),
    "conv3d": (lambda: nn.Conv3d(2, 2, 2), (2, 3, 2, 3)),
}
NOISES: dict[str, NoiseModel] = {
    "layer": RelativeNoise(PerLayer(), 0.3),
    "unit": RelativeNoise(PerUnit(), 0.3),
    "weight": RelativeNoise(PerWeight(), 0.3),
    "correlated": CorrelatedNoise(PerUnit(), 0.3),
    "additive": AdditiveNoise(0.3),
}
every_layer = pytest.mark.parametrize(("make", "shape"), LAYERS.values(), ids=LAYERS.keys())
every_noise = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES.keys())


class Scene:
    """A layer with noise on its weights, one example, and the exact moments of its outputs."""

    def __init__(self, make, shape: tuple[int, ...], noise: NoiseModel) -> None:
        with credo.Stream(1).borrowed_global():
            net = nn.Sequential(make(), nn.Flatten()).double()
        self.noise, self.x = noise, credo.Stream(2).normal(1, *shape, dtype=torch.float64)
        self.target = Target(credo.Model(net, likelihoods.Gaussian(1.0)), size=10)
        self.mean = self.target.model.network.given()
        weight = self.mean.params["0.weight"]
        first = noise.initial_log_noise(weight)
        self.log_noise = first - 0.5 * credo.Stream(3).normal(*first.shape, dtype=torch.float64).abs()
        params = {name: p[0] for name, p in self.mean.params.items()}
        self.center = functional_call(net, params, (self.x,))[0].detach()

        def outputs(weight: Tensor) -> Tensor:
            return functional_call(net, {**params, "0.weight": weight}, (self.x,))[0]

        slope = jacrev(outputs)(params["0.weight"])
        if isinstance(noise, CorrelatedNoise):
            by_unit = (slope * params["0.weight"]).sum(1).flatten(1)
            by_unit = by_unit.reshape(len(by_unit), weight.shape[2], -1).sum(2)  # (E, inputs)
            alpha = self.log_noise.exp().flatten().expand(by_unit.shape[1])
            self.covariance = by_unit * alpha @ by_unit.T
        else:
            assert isinstance(noise, WeightNoise)
            flat = slope.flatten(1)
            self.covariance = flat * noise.variance(weight, self.log_noise).flatten() @ flat.T

    def trained(self, examples: int = DRAWS, noise: NoiseModel | None = None) -> Tensor:
        """The outputs of one example that comes many times in a batch, (B, E)."""
        x = self.x.expand(examples, *self.x.shape[1:])
        batch = Batch(x, x.new_zeros(examples, len(self.center)))
        log_noise = {"0.weight": self.log_noise}
        return noisy_outputs(self.target, noise or self.noise, self.mean, log_noise, batch, credo.Stream(7))[0].detach()

    def drawn(self, seed: int = 0) -> Tensor:
        """The same by functions drawn from the posterior, (S, E)."""
        posterior = self.noise.posterior(self.target.model, self.mean, {"0.weight": self.log_noise})
        return posterior.draw(DRAWS, seed)(self.x)[:, 0]


def apart(sample: Tensor, center: Tensor, covariance: Tensor, *, diagonal: bool) -> float:
    """The largest distance of the sample's moments from the exact ones, in standard errors."""
    variance = covariance.diagonal()
    of_mean = (sample.mean(0) - center).abs() / (variance / len(sample)).sqrt()
    deviations = sample - center
    found = deviations.T @ deviations / len(sample)
    error = ((variance[:, None] * variance + covariance.square()) / len(sample)).sqrt()
    of_covariance = (found - covariance).abs() / error
    return max(float(of_mean.max()), float((of_covariance.diagonal() if diagonal else of_covariance).max()))


@every_noise
@every_layer
def test_training_has_the_moments_of_weight_space(make, shape: tuple[int, ...], noise: NoiseModel) -> None:
    scene = Scene(make, shape, noise)
    # where positions share weights, noise on outputs leaves their correlation out
    partly = len(shape) > 1 and not isinstance(noise, CorrelatedNoise)
    assert apart(scene.trained(), scene.center, scene.covariance, diagonal=partly) < ERRORS


@every_noise
@every_layer
def test_drawn_functions_have_them_all(make, shape: tuple[int, ...], noise: NoiseModel) -> None:
    scene = Scene(make, shape, noise)
    assert apart(scene.drawn(), scene.center, scene.covariance, diagonal=False) < ERRORS


def test_groups_of_a_convolution_share_the_alphas_of_its_weight() -> None:
    scene = Scene(lambda: nn.Conv1d(4, 6, 3, groups=2), (4, 5), NOISES["unit"])
    assert apart(scene.trained(), scene.center, scene.covariance, diagonal=True) < ERRORS


class OfTheta(RelativeNoise):
    """A twin: alpha on theta instead of its square."""

    def variance(self, weight: Tensor, log_noise: Tensor) -> Tensor:
        return log_noise.exp() * weight.abs()


class OfScale(RelativeNoise):
    """A twin: the root of alpha in the place of alpha."""

    def variance(self, weight: Tensor, log_noise: Tensor) -> Tensor:
        return log_noise.exp().sqrt() * weight.square()


def test_twins_are_found_out() -> None:
    scene = Scene(*LAYERS["linear"], NOISES["layer"])
    for twin in (OfTheta(), OfScale()):
        assert apart(scene.trained(noise=twin), scene.center, scene.covariance, diagonal=True) > 2 * ERRORS
    shared = scene.drawn()[:1].expand(DRAWS, -1)  # one noise for all draws
    assert apart(shared, scene.center, scene.covariance, diagonal=True) > 2 * ERRORS


@every_noise
@every_layer
def test_without_noise_it_is_the_deterministic_network(make, shape: tuple[int, ...], noise: NoiseModel) -> None:
    scene = Scene(make, shape, noise)
    scene.log_noise = torch.full_like(scene.log_noise, -torch.inf)
    assert torch.equal(scene.trained(3), scene.center.expand(3, -1)) or torch.allclose(
        scene.trained(3), scene.center.expand(3, -1), rtol=1e-12, atol=1e-14
    )  # one product for three examples may round in another order
    torch.testing.assert_close(scene.drawn(), scene.center.expand(DRAWS, -1), rtol=1e-12, atol=1e-14)


@every_noise
def test_examples_and_members_have_noise_of_their_own(noise: NoiseModel) -> None:
    scene = Scene(*LAYERS["linear"], noise)
    sample = scene.trained(50)
    assert len({tuple(row) for row in sample.tolist()}) == 50
    two = Variables({name: p.expand(2, *p.shape[1:]) for name, p in scene.mean.params.items()})
    log_noise = {"0.weight": scene.log_noise.expand(2, *scene.log_noise.shape[1:])}
    batch = Batch(scene.x, scene.x.new_zeros(1, 3))
    for plan in credo.Plan:
        outputs = noisy_outputs(scene.target.with_plan(plan), noise, two, log_noise, batch, credo.Stream(7))
        assert not torch.equal(outputs[0], outputs[1])
