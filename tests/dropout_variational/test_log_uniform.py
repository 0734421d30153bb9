"""The two approximations in print, against the divergence by numerical integration."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from scipy.integrate import quad
from torch import Tensor

from credo.methods.dropout.log_uniform import OFFSET, LogUniform, Polynomial, Sigmoid

SMALL = torch.linspace(-9.0, 0.0, 37, dtype=torch.float64)
ALL = torch.linspace(-9.0, 9.0, 73, dtype=torch.float64)


def exact(log_alpha: float) -> float:
    """E[log |e|] - log(alpha) / 2 + (gamma + log 2) / 2 of e ~ N(1, alpha).

    With z = (e - 1) / scale, distances u = t^2 from where e is 0 are integrated over, so that the logarithm is tame.
    """
    scale = math.exp(log_alpha / 2)
    zero = -1.0 / scale

    def integrand(t: float) -> float:
        u = t * t
        density = math.exp(-((zero + u) ** 2) / 2) + math.exp(-((zero - u) ** 2) / 2)
        return 2.0 * t * math.log(scale * u) * density / math.sqrt(2.0 * math.pi) if u else 0.0

    low, high = math.sqrt(max(-zero - 12.0, 0.0)), math.sqrt(-zero + 12.0)
    total = quad(integrand, low, high, points=[math.sqrt(-zero)], limit=200, epsabs=1e-9)[0]
    return float(total) - log_alpha / 2 + OFFSET


def farthest(kl: Callable[[Tensor], Tensor], at: Tensor) -> float:
    return max(abs(float(kl(a)) - exact(float(a))) for a in at)


def test_the_divergence_is_zero_where_alpha_is_infinite_and_known_at_small_alpha() -> None:
    assert abs(exact(18.0)) < 1e-6  # 1 / (2 alpha) is left
    # a normal around 1 that is narrow: E[log e] = -alpha / 2
    assert exact(-9.0) == pytest.approx(4.5 - math.exp(-9.0) / 2 + OFFSET, abs=1e-7)


def test_the_cubic_is_within_four_hundredths_of_a_nat_up_to_alpha_of_one() -> None:
    assert farthest(Polynomial().kl, SMALL) < 0.041  # the accuracy that is stated in its docstring


def test_the_sigmoid_is_within_a_hundredth_of_a_nat_everywhere() -> None:
    assert farthest(Sigmoid().kl, ALL) < 0.01  # the accuracy that is stated in its docstring


@pytest.mark.parametrize(
    "wrong",
    [
        lambda a: -Sigmoid().kl(a),
        lambda a: Sigmoid().kl(a) - Sigmoid().k1,  # without the constant
        lambda a: Sigmoid().kl(2 * a),  # alpha for sqrt(alpha)
        lambda a: Sigmoid(k2=-1.8732).kl(a),
        lambda a: Polynomial().kl(a),  # beyond its range
        lambda a: Polynomial().kl(a) + 0.5 * a,  # without the entropy
    ],
)
def test_wrong_ones_are_found_out(wrong: Callable[[Tensor], Tensor]) -> None:
    assert farthest(wrong, ALL) > 0.05


@pytest.mark.parametrize(("prior", "at"), [(Polynomial(), SMALL), (Sigmoid(), ALL)])
def test_slopes_are_those_of_the_values(prior: LogUniform, at: Tensor) -> None:
    log_alpha = at.clone().requires_grad_()
    (slope,) = torch.autograd.grad(_smooth_kl(prior, log_alpha).sum(), log_alpha)
    torch.testing.assert_close(prior.slope(at), slope)


def _smooth_kl(prior: LogUniform, log_alpha: Tensor) -> Tensor:
    """The formulas again, without operations in place, for autograd."""
    if isinstance(prior, Polynomial):
        alpha = log_alpha.exp()
        return OFFSET - 0.5 * log_alpha - prior.c1 * alpha - prior.c2 * alpha**2 - prior.c3 * alpha**3
    assert isinstance(prior, Sigmoid)
    s = torch.sigmoid(prior.k2 + prior.k3 * log_alpha)
    return prior.k1 - prior.k1 * s + 0.5 * torch.log1p(torch.exp(-log_alpha))


@pytest.mark.parametrize(("prior", "at"), [(Polynomial(), SMALL), (Sigmoid(), ALL)])
def test_values_are_the_printed_formulas(prior: LogUniform, at: Tensor) -> None:
    torch.testing.assert_close(prior.kl(at), _smooth_kl(prior, at))


def test_large_alpha_keeps_its_digits_in_single_precision() -> None:
    kl = Sigmoid().kl(torch.tensor([20.0, 30.0]))
    expected = Sigmoid().kl(torch.tensor([20.0, 30.0], dtype=torch.float64))
    torch.testing.assert_close(kl.double(), expected, rtol=1e-5, atol=0.0)  # single precision
