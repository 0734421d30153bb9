"""Gray values: the continuous Bernoulli against quadrature, and what the cross-entropy is and is not.

Statistical assertions have an error rate of 1e-6 each, and the seeds are fixed.
"""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from scipy import integrate, stats
from torch import Tensor

from credo import Stream
from credo.likelihoods import Bernoulli, BinarizedBernoulli, ContinuousBernoulli, GrayCrossEntropy
from credo.predictive import NumericPredictive, predictive

ERROR_RATE = 1e-6
LOGITS = (-300.0, -20.0, -3.0, -1.0001, -0.9999, -0.1, -1e-4, -1e-9, 0.0, 1e-12, 1e-3, 0.5, 0.9999, 1.0001, 5.0, 40.0)
"""Both sides of the place where the series takes over, one half itself, and densities that are all but a point."""


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def at(logit: float, y: float) -> float:
    return float(ContinuousBernoulli().log_prob(column(logit), column(y), {}))


def quadrature(logit: float, power: int = 0, center: float = 0.0) -> float:
    """integral of (y - center)^power p(y) over the unit interval."""
    near = sorted({0.0, 1.0, *(k / abs(logit) for k in (1, 5, 30) if abs(logit) > k)})
    ends = [1.0 - e for e in reversed(near)] if logit > 0 else near
    parts = [
        integrate.quad(lambda y: (y - center) ** power * math.exp(at(logit, y)), a, b, epsabs=1e-14, epsrel=1e-13)[0]
        for a, b in pairwise(ends)
    ]
    return math.fsum(parts)


@pytest.mark.parametrize("logit", LOGITS)
def test_the_density_integrates_to_one_and_has_its_moments(logit: float) -> None:
    likelihood, outputs = ContinuousBernoulli(), column(logit)
    mean, variance = float(likelihood.mean(outputs, {})), float(likelihood.variance(outputs, {}))
    assert quadrature(logit) == pytest.approx(1.0, abs=1e-11)
    assert quadrature(logit, 1) == pytest.approx(mean, rel=1e-10)
    assert quadrature(logit, 2, mean) == pytest.approx(variance, rel=1e-10)


@pytest.mark.parametrize("logit", LOGITS)
def test_the_twin_without_the_factor_does_not_integrate_to_one(logit: float) -> None:
    """The cross-entropy on gray values: its integral is (2 p - 1) / logit(p), one half at most."""
    y = torch.linspace(0, 1, 4001, dtype=torch.float64)[:, None]
    score = GrayCrossEntropy().log_prob(torch.full_like(y, logit), y, {})
    total = float(torch.trapezoid(score.exp(), y[:, 0]))
    p = 1.0 / (1.0 + math.exp(-logit))
    closed = 0.5 if abs(logit) < 1e-3 else (2.0 * p - 1.0) / logit
    assert total == pytest.approx(closed, rel=1e-3)  # the trapezoid rule with 4,000 pieces, of a slope of up to 300
    assert total < 0.501


def test_against_torch() -> None:
    outputs = Stream(0).normal(3, 50, 4, dtype=torch.float64) * 3.0
    reference = torch.distributions.ContinuousBernoulli(logits=outputs, validate_args=False)
    y = torch.rand((50, 4), generator=Stream(1).generator(), dtype=torch.float64)
    likelihood = ContinuousBernoulli()
    for found, expected in (
        (likelihood.log_prob(outputs, y, {}), reference.log_prob(y).sum(-1)),
        (likelihood.log_prob_each(outputs, y, {}), reference.log_prob(y)),
        (likelihood.mean(outputs, {}), reference.mean),
        (likelihood.variance(outputs, {}), reference.variance),
        (likelihood.entropy(outputs, {}), reference.entropy()),
        (likelihood.cdf(outputs, y, {}), reference.cdf(y)),
    ):
        # torch's own series near one half leaves out terms of 1e-8
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("logit", LOGITS)
def test_entropy_is_the_expectation(logit: float) -> None:
    mean = float(ContinuousBernoulli().mean(column(logit), {}))
    # E[-log p] = A(f) - f E[y], with A(f) = -log p at 0
    expected = -at(logit, 0.0) - logit * mean
    assert float(ContinuousBernoulli().entropy(column(logit), {})) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_y_less_the_mean_everywhere(dtype: torch.dtype) -> None:
    outputs = torch.tensor([LOGITS], dtype=dtype).T.requires_grad_()
    y = torch.linspace(0, 1, len(LOGITS), dtype=dtype)[:, None]
    likelihood = ContinuousBernoulli()
    (gradient,) = torch.autograd.grad(likelihood.log_prob(outputs, y, {}).sum(), outputs)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(gradient, y - likelihood.mean(outputs, {}), rtol=0, atol=tolerance)


def test_curvature_is_the_variance() -> None:
    outputs, y = column(*LOGITS), column(*LOGITS).sigmoid()
    likelihood = ContinuousBernoulli()
    torch.testing.assert_close(
        likelihood.hessian(outputs, y, {}), likelihood.fisher(outputs, {}), rtol=1e-9, atol=1e-12
    )


def test_small_probabilities_keep_their_digits() -> None:
    likelihood, y = ContinuousBernoulli(), column(0.25)
    # P(y <= 1/4) at a logit of 100 is e^-75 (1 - e^-25) / (1 - e^-100)
    expected = math.exp(-75) * (1 - math.exp(-25))
    assert float(likelihood.cdf(column(100.0), y, {})) == pytest.approx(expected, rel=1e-12)
    assert float(likelihood.survival(column(-100.0), 1 - y, {})) == pytest.approx(expected, rel=1e-12)
    assert likelihood.cdf(column(2.0, 2.0), column(-1.0, 2.0), {}).flatten().tolist() == [0.0, 1.0]


@pytest.mark.parametrize("logit", [-300.0, -2.0, 0.0, 1e-9, 0.7, 20.0])
def test_samples_follow_the_distribution(logit: float) -> None:
    likelihood, count = ContinuousBernoulli(), 20_000
    drawn = likelihood.sample(column(logit).expand(count, 1), {}, Stream(3).generator())[:, 0]

    def p_value(of: float) -> float:
        values = likelihood.cdf(column(of), drawn[:, None], {})[:, 0]  # uniform if the distribution is the right one
        return float(stats.kstest(values.numpy(), "uniform").pvalue)

    assert p_value(logit) > ERROR_RATE
    assert p_value(logit + max(0.5, 0.2 * abs(logit))) < ERROR_RATE


def test_predictions_are_of_numbers() -> None:
    found = predictive(ContinuousBernoulli(), torch.zeros(2, 3, 1), {}, torch.zeros(2))
    assert isinstance(found, NumericPredictive)
    low, high = found.interval(0.9)
    torch.testing.assert_close(low, torch.full((3, 1), 0.05), rtol=0, atol=1e-4)  # the bisection's own end
    torch.testing.assert_close(high, torch.full((3, 1), 0.95), rtol=0, atol=1e-4)


def test_the_cross_entropy_is_the_expectation_over_binary_images() -> None:
    outputs, y = column(0.3, -2.0), column(0.2, 0.9)
    expected = y[:, 0] * Bernoulli().log_prob(outputs, torch.ones(2, 1), {}) + (1 - y[:, 0]) * Bernoulli().log_prob(
        outputs, torch.zeros(2, 1), {}
    )
    for likelihood in (GrayCrossEntropy(), BinarizedBernoulli()):
        torch.testing.assert_close(likelihood.log_prob(outputs, y, {}), expected)


def test_binary_images_have_the_probabilities_and_repeat() -> None:
    y = torch.linspace(0, 1, 11).expand(20_000, 11)
    drawn = BinarizedBernoulli().binarized(y, Stream(5).generator())
    assert torch.equal(drawn, BinarizedBernoulli().binarized(y, Stream(5).generator()))
    assert not torch.equal(drawn, BinarizedBernoulli().binarized(y, Stream(6).generator()))
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    worst = stats.norm.isf(ERROR_RATE / 22) * math.sqrt(0.25 / len(y))

    def right(mean: Tensor) -> bool:
        return bool((mean - y[0]).abs().max() < worst)

    assert right(drawn.mean(0))
    assert not right((y >= 0.5).float().mean(0))  # the twin that cuts at one half


@pytest.mark.parametrize("likelihood", [ContinuousBernoulli(), GrayCrossEntropy(), BinarizedBernoulli()])
@pytest.mark.parametrize("wrong", [255.0, -0.1, math.nan, math.inf])
def test_values_that_are_no_gray_values_are_refused(likelihood: ContinuousBernoulli, wrong: float) -> None:
    name = type(likelihood).__name__
    with pytest.raises(ValueError, match=rf"likelihoods.{name} needs values from 0 to 1; divide bytes by 255"):
        likelihood.check_targets(torch.tensor([[0.5, wrong]]), 2)
    assert likelihood.check_targets(torch.tensor([0, 1]), 1).tolist() == [[0.0], [1.0]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_number_is_finite_in_every_precision(dtype: torch.dtype) -> None:
    outputs = torch.tensor([[-6e4, -1e4, -1.001, -1e-4, 0.0, 1e-6, 0.999, 88.0, 6e4]], dtype=dtype).T
    likelihood = ContinuousBernoulli()
    for y in (0.0, 0.5, 1.0):
        target = torch.full_like(outputs, y)
        assert likelihood.log_prob(outputs, target, {}).isfinite().all()
        cdf = likelihood.cdf(outputs, target, {})
        assert bool(((cdf >= 0) & (cdf <= 1)).all())
    drawn = likelihood.sample(outputs, {}, Stream(0).generator())
    assert bool(((drawn >= 0) & (drawn <= 1)).all())
    assert bool((likelihood.variance(outputs, {}) >= 0).all())
