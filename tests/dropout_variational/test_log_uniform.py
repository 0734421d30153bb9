"""The two approximations in print, against the divergence by numerical integration."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from scipy.integrate import quad
from torch import Tensor

from credo.methods.dropout.log_uniform import OFFSET, cubic_kl, sigmoid_kl

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
    return max(abs(float(kl(a.reshape(1, 1))) - exact(float(a))) for a in at)


def test_the_divergence_is_zero_where_alpha_is_infinite_and_known_at_small_alpha() -> None:
    assert abs(exact(18.0)) < 1e-6  # 1 / (2 alpha) is left
    # a normal around 1 that is narrow: E[log e] = -alpha / 2
    assert exact(-9.0) == pytest.approx(4.5 - math.exp(-9.0) / 2 + OFFSET, abs=1e-7)


def test_the_cubic_is_within_four_hundredths_of_a_nat_up_to_alpha_of_one() -> None:
    assert farthest(cubic_kl, SMALL) < 0.041  # the accuracy that is stated in its docstring


def test_the_sigmoid_is_within_a_hundredth_of_a_nat_everywhere() -> None:
    assert farthest(sigmoid_kl, ALL) < 0.01  # the accuracy that is stated in its docstring


@pytest.mark.parametrize(
    "wrong",
    [
        lambda a: -sigmoid_kl(a),
        lambda a: sigmoid_kl(a) - 0.63576,  # without the constant
        lambda a: sigmoid_kl(2 * a),  # alpha for sqrt(alpha)
        lambda a: sigmoid_kl(a + 3.7464 / 1.48695),  # k2 with its sign wrong
        lambda a: cubic_kl(a),  # beyond its range
        lambda a: cubic_kl(a) + 0.5 * a,  # without the entropy
    ],
)
def test_wrong_ones_are_found_out(wrong: Callable[[Tensor], Tensor]) -> None:
    assert farthest(wrong, ALL) > 0.05


def printed_cubic(log_alpha: Tensor) -> Tensor:
    alpha = log_alpha.exp()
    return OFFSET - 0.5 * log_alpha - 1.16145124 * alpha + 1.50204118 * alpha**2 - 0.58629921 * alpha**3


def printed_sigmoid(log_alpha: Tensor) -> Tensor:
    s = torch.sigmoid(1.87320 + 1.48695 * log_alpha)
    return 0.63576 - 0.63576 * s + 0.5 * torch.log1p(torch.exp(-log_alpha))


@pytest.mark.parametrize(
    ("kl", "printed", "at"), [(cubic_kl, printed_cubic, SMALL), (sigmoid_kl, printed_sigmoid, ALL)]
)
def test_values_are_the_printed_formulas_summed_for_each_member(
    kl: Callable[[Tensor], Tensor], printed: Callable[[Tensor], Tensor], at: Tensor
) -> None:
    members = torch.stack([at, at - 0.3])
    torch.testing.assert_close(kl(members), printed(members).sum(1))


def test_large_alpha_keeps_its_digits_in_single_precision() -> None:
    log_alpha = torch.tensor([[20.0], [30.0]])
    kl, expected = sigmoid_kl(log_alpha), sigmoid_kl(log_alpha.double())
    torch.testing.assert_close(kl.double(), expected, rtol=1e-5, atol=0.0)  # single precision
