"""The slopes that are done by hand against autograd, and the divergence against a sum over weights."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import credo
from credo.methods.dropout.log_uniform import OFFSET, Polynomial, Sigmoid
from credo.methods.dropout.noise import CEILING, Additive, ByInput, Correlated, Multiplicative, Noise
from credo.methods.dropout.sharing import PerLayer, PerUnit, PerWeight

NOISES: dict[str, Noise] = {
    "layer": ByInput(PerLayer()),
    "unit": ByInput(PerUnit()),
    "layer, on the weights": Multiplicative(PerLayer()),
    "unit, on the weights": Multiplicative(PerUnit()),
    "weight": Multiplicative(PerWeight()),
    "correlated, layer": Correlated(PerLayer()),
    "correlated, unit": Correlated(PerUnit()),
    "additive": Additive(),
}
every_noise = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES.keys())
MEMBERS, SHAPE = 2, (3, 4, 2)


def scene(noise: Noise) -> tuple[Tensor, Tensor]:
    """Weights of two members of a conv1d, and levels that differ."""
    weight = credo.Stream(1).normal(MEMBERS, *SHAPE, dtype=torch.float64)
    level = noise.first(weight, 0.4)
    return weight, level - credo.Stream(2).normal(*level.shape, dtype=torch.float64).abs()


def log_alpha_of(noise: Noise, weight: Tensor, level: Tensor) -> Tensor:
    return level - weight.square().log() if isinstance(noise, Additive) else level


def divergence_of(noise: Noise, weight: Tensor, level: Tensor) -> Tensor:
    """The same number for each member, weight by weight (or unit by unit), with a graph."""
    log_alpha = log_alpha_of(noise, weight, level)
    if isinstance(noise, Additive):
        prior = Sigmoid()
        kl = (
            prior.k1
            - prior.k1 * torch.sigmoid(prior.k2 + prior.k3 * log_alpha)
            + 0.5 * torch.log1p(1 / log_alpha.exp())
        )
    else:
        cubic, alpha = Polynomial(), log_alpha.exp()
        kl = OFFSET - 0.5 * log_alpha - cubic.c1 * alpha - cubic.c2 * alpha**2 - cubic.c3 * alpha**3
    shape = (MEMBERS, 1, SHAPE[1], 1) if isinstance(noise, Correlated) else (MEMBERS, *SHAPE)
    return kl.expand(shape).flatten(1).sum(1)


@every_noise
def test_the_divergence_and_its_slopes(noise: Noise) -> None:
    weight, level = scene(noise)
    spread = noise.spread(weight, level)
    zero = torch.zeros_like(weight)
    w, r = weight.clone().requires_grad_(), level.clone().requires_grad_()
    expected = divergence_of(noise, w, r)
    by_weight, by_level = torch.autograd.grad(expected.sum(), (w, r), materialize_grads=True)
    of_weight, of_level = noise.slopes(weight, level, spread, zero, torch.zeros_like(spread.values), 0.3)
    torch.testing.assert_close(noise.kl(weight, level), expected.detach())
    torch.testing.assert_close(of_level, 0.3 * by_level)
    torch.testing.assert_close(of_weight, 0.3 * by_weight)
    torch.testing.assert_close(noise.log_alpha(weight, level), log_alpha_of(noise, weight, level))


NOISY: dict[type[Noise], Callable[[Tensor, Tensor], Tensor]] = {
    Multiplicative: lambda w, r: r.exp() * w**2,
    ByInput: lambda w, r: r.exp() * w**2,
    Additive: lambda w, r: r.exp() + 0 * w,
    Correlated: lambda w, r: (r / 2).exp() + 0 * w.sum(),
}
"""What a loss may depend on beside the weights: their variance, or the scale of a unit's noise."""


@every_noise
def test_the_way_back_from_the_spread_to_weight_and_level(noise: Noise) -> None:
    weight, level = scene(noise)
    spread = noise.spread(weight, level)
    w, r = weight.clone().requires_grad_(), level.clone().requires_grad_()
    seen = NOISY[type(noise)](w, r)
    slope = credo.Stream(3).normal(*seen.shape, dtype=torch.float64)
    own = credo.Stream(4).normal(*weight.shape, dtype=torch.float64)
    by_weight, by_level = torch.autograd.grad((seen * slope).sum() + (w * own).sum(), (w, r))
    # inputs that bear the alpha make the slope by theta^2 alpha times that by the variance
    by_spread = slope * level.exp() if isinstance(noise, ByInput) else slope.clone()
    of_weight, of_level = noise.slopes(weight, level, spread, own, by_spread, 0.0)
    torch.testing.assert_close(of_level, by_level)
    torch.testing.assert_close(of_weight, by_weight)


def test_a_twin_with_alpha_on_theta_instead_of_its_square_is_found_out() -> None:
    noise = Multiplicative(PerLayer())
    weight, level = scene(noise)
    torch.testing.assert_close(noise.variance(weight, level), level.exp() * weight**2)
    assert not torch.allclose(noise.variance(weight, level), level.exp() * weight.abs())


def test_a_weight_of_zero_has_finite_slopes() -> None:
    weight = torch.zeros(1, 2, 2)
    level = Additive().first(weight, 0.1)
    spread = Additive().spread(weight, level)
    slopes = Additive().slopes(weight, level, spread, torch.zeros_like(weight), torch.ones_like(spread.values), 1.0)
    for tensor in (Additive().kl(weight, level), *slopes):
        assert bool(tensor.isfinite().all())


@every_noise
def test_levels_stay_where_they_may_be(noise: Noise) -> None:
    level = torch.tensor([-3.0, 5.0])
    noise.confine(level)
    assert level.tolist() == [-3.0, CEILING if isinstance(noise, Additive) else 0.0]
