"""Models of noise: their KL against a sum over weights, their alphas, and weights of zero."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import credo
from credo.methods.dropout.log_uniform import OFFSET
from credo.methods.dropout.noise import AdditiveNoise, CorrelatedNoise, NoiseModel, RelativeNoise
from credo.methods.dropout.placing import PerLayer, PerUnit, PerWeight

NOISES: dict[str, NoiseModel] = {
    "layer": RelativeNoise(PerLayer(), 0.4),
    "unit": RelativeNoise(PerUnit(), 0.4),
    "weight": RelativeNoise(PerWeight(), 0.4),
    "correlated, layer": CorrelatedNoise(PerLayer(), 0.4),
    "correlated, unit": CorrelatedNoise(PerUnit(), 0.4),
    "additive": AdditiveNoise(0.4),
}
every_noise = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES.keys())
MEMBERS, SHAPE = 2, (3, 4, 2)


def scene(noise: NoiseModel) -> tuple[Tensor, Tensor]:
    """Weights of two members of a conv1d, and noise that differs."""
    weight = credo.Stream(1).normal(MEMBERS, *SHAPE, dtype=torch.float64)
    log_noise = noise.initial_log_noise(weight)
    return weight, log_noise - credo.Stream(2).normal(*log_noise.shape, dtype=torch.float64).abs()


def log_alpha_of(noise: NoiseModel, weight: Tensor, log_noise: Tensor) -> Tensor:
    return log_noise - weight.square().log() if isinstance(noise, AdditiveNoise) else log_noise


def kl_of(noise: NoiseModel, weight: Tensor, log_noise: Tensor) -> Tensor:
    """For each member, weight by weight (or unit by unit), by the printed formulas."""
    log_alpha = log_alpha_of(noise, weight, log_noise)
    alpha = log_alpha.exp()
    if isinstance(noise, AdditiveNoise):
        kl = 0.63576 * (1 - torch.sigmoid(1.87320 + 1.48695 * log_alpha)) + 0.5 * torch.log1p(1 / alpha)
    else:
        kl = OFFSET - 0.5 * log_alpha - 1.16145124 * alpha + 1.50204118 * alpha**2 - 0.58629921 * alpha**3
    shape = (MEMBERS, 1, SHAPE[1], 1) if isinstance(noise, CorrelatedNoise) else (MEMBERS, *SHAPE)
    return kl.expand(shape).flatten(1).sum(1)


@every_noise
def test_the_kl_and_its_gradient(noise: NoiseModel) -> None:
    leaves = [t.requires_grad_() for t in scene(noise)]
    found, expected = noise.kl(*leaves), kl_of(noise, *leaves)
    torch.testing.assert_close(found, expected)
    pairs = (torch.autograd.grad(kl.sum(), leaves, materialize_grads=True) for kl in (found, expected))
    for ours, printed in zip(*pairs, strict=True):
        torch.testing.assert_close(ours, printed)
    torch.testing.assert_close(noise.log_alpha(*leaves), log_alpha_of(noise, *leaves))


@every_noise
def test_noise_begins_at_the_value_that_is_given(noise: NoiseModel) -> None:
    weight = credo.Stream(1).normal(MEMBERS, *SHAPE, dtype=torch.float64)
    log_noise = noise.initial_log_noise(weight)
    expected = 0.4**2 / weight.square() if isinstance(noise, AdditiveNoise) else torch.full_like(log_noise, 0.4)
    torch.testing.assert_close(noise.log_alpha(weight, log_noise).exp(), expected)


def test_the_variance_of_relative_noise_is_alpha_times_the_square() -> None:
    noise = NOISES["layer"]
    weight, log_noise = scene(noise)
    torch.testing.assert_close(noise.variance(weight, log_noise), log_noise.exp() * weight**2)
    assert not torch.allclose(noise.variance(weight, log_noise), log_noise.exp() * weight.abs())


@every_noise
@pytest.mark.parametrize("value", [0.0, 1e-30])
def test_weights_and_noise_near_zero_have_finite_gradients(noise: NoiseModel, value: float) -> None:
    """In single precision, where the square of a weight, or an alpha, is no number above zero any more."""
    weight = torch.full((1, 3, 4), value, requires_grad=True)
    for below in (0.0, -120.0):
        log_noise = (noise.initial_log_noise(weight.detach()) + below).requires_grad_()
        layer_noise = torch.ones(5, 4 if isinstance(noise, CorrelatedNoise) else 3)
        x = torch.linspace(0.0, 1.0, 20).reshape(5, 4)
        tensors = [layer_noise, noise.variance(weight, log_noise)[0]]
        outputs = noise(torch.nn.functional.linear, x, weight[0], None, tensors)
        drawn = noise.draw(weight, log_noise, torch.ones_like(weight))
        total = outputs.sum() + drawn.sum() + noise.kl(weight, log_noise).sum()
        for gradient in torch.autograd.grad(total, (weight, log_noise)):
            assert bool(gradient.isfinite().all())
