"""The coin against scipy, quadrature and its own grid."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from scipy import integrate, stats

from credo.core.rng import Stream
from credo.exact import Coin
from credo.exact.beta import log_beta

COINS = [Coin(3, 0), Coin(11, 9), Coin(0, 0, 0.5, 0.5), Coin(2, 7, 0.3, 4.2), Coin(400, 3, 2.0, 5.0)]
THETA = torch.linspace(0.001, 0.999, 97, dtype=torch.float64)
REJECTION = 1e-4  # chance that a right sampler fails a Kolmogorov-Smirnov test below


def beta(coin: Coin) -> stats.rv_continuous:
    return stats.beta(coin.prior_heads + coin.heads, coin.prior_tails + coin.tails)


def test_three_heads_have_the_posterior_of_the_lecture() -> None:
    three = Coin(heads=3, tails=0)
    torch.testing.assert_close(three.density(THETA), 4 * THETA**3, rtol=1e-13, atol=0)
    assert three.head_probability == pytest.approx(0.8, abs=1e-15)
    assert three.log_evidence == pytest.approx(math.log(1 / 4), abs=1e-14)


def test_eleven_heads_and_nine_tails() -> None:
    coin = Coin(heads=11, tails=9)
    assert coin.mean == pytest.approx(12 / 22, abs=1e-15)
    assert coin.maximum_likelihood == pytest.approx(11 / 20, abs=1e-15)


@pytest.mark.parametrize("coin", COINS, ids=str)
def test_moments_density_and_distribution_agree_with_scipy(coin: Coin) -> None:
    reference = beta(coin)
    assert coin.mean == pytest.approx(reference.mean(), rel=1e-12)
    assert coin.variance == pytest.approx(reference.var(), rel=1e-12)
    log_density, cdf = (torch.from_numpy(f(THETA)) for f in (reference.logpdf, reference.cdf))
    torch.testing.assert_close(coin.log_density(THETA), log_density, rtol=1e-11, atol=1e-9)
    torch.testing.assert_close(coin.cdf(THETA), cdf, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(("a", "b"), [(0.01, 0.02), (1e-3, 50.0), (1.0, 1.0), (2e4, 3e4), (1e6, 1.0), (0.5, 1e5)])
def test_the_distribution_function_holds_for_extreme_counts(a: float, b: float) -> None:
    coin, reference = Coin(0, 0, a, b), stats.beta(a, b)
    theta = torch.from_numpy(reference.ppf([1e-6, 0.01, 0.3, 0.5, 0.9, 0.999])).clamp(1e-300, 1)
    # the front factor is the exponential of a difference of numbers near a + b
    torch.testing.assert_close(coin.cdf(theta), torch.from_numpy(reference.cdf(theta)), rtol=1e-8, atol=1e-14)


def test_the_distribution_function_ends_at_zero_and_one() -> None:
    ends = torch.tensor([-0.5, 0.0, 1.0, 1.5], dtype=torch.float64)
    assert Coin(3, 1).cdf(ends).tolist() == [0.0, 0.0, 1.0, 1.0]
    assert Coin(3, 1).density(ends).tolist() == [0.0] * 4
    assert Coin(0, 0).density(ends).tolist() == [0.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize("coin", COINS, ids=str)
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_interval_has_equal_mass_outside(coin: Coin, level: float) -> None:
    lower, upper = coin.interval(level)
    assert (lower, upper) == pytest.approx(beta(coin).interval(level), rel=1e-9)


def check_evidence(coin: Coin, log_evidence: float) -> None:
    prior = stats.beta(coin.prior_heads, coin.prior_tails)
    total, _ = integrate.quad(lambda t: prior.pdf(t) * t**coin.heads * (1 - t) ** coin.tails, 0, 1, epsabs=0)
    assert log_evidence == pytest.approx(math.log(total), abs=1e-8)  # the error that quad states


@pytest.mark.parametrize("coin", [Coin(3, 0), Coin(11, 9), Coin(2, 7, 1.5, 4.2)], ids=str)
def test_evidence_agrees_with_quadrature(coin: Coin) -> None:
    check_evidence(coin, coin.log_evidence)


def test_wrong_evidences_are_rejected() -> None:
    coin = Coin(2, 7, 1.5, 4.2)
    with pytest.raises(AssertionError):  # twin: of the count and not of the sequence
        check_evidence(coin, coin.log_evidence + math.log(math.comb(9, 2)))
    with pytest.raises(AssertionError):  # twin: the prior's normalizer is forgotten
        check_evidence(coin, log_beta(coin.a, coin.b))


def check_next_toss(coin: Coin, head_probability: float) -> None:
    one_more = coin.observe(1, 0).log_evidence  # p(head | data) = p(data, head) / p(data)
    assert head_probability == pytest.approx(math.exp(one_more), rel=1e-12)


@pytest.mark.parametrize("coin", COINS, ids=str)
def test_the_next_toss_is_a_ratio_of_evidences(coin: Coin) -> None:
    check_next_toss(coin, coin.head_probability)
    if coin.heads + coin.tails:
        with pytest.raises(AssertionError):  # twin: the best coin instead of the average one
            check_next_toss(coin, coin.maximum_likelihood)


def test_the_variance_of_the_next_toss_is_split() -> None:
    coin = Coin(2, 7, 0.3, 4.2)
    p = coin.head_probability
    assert coin.epistemic + coin.aleatoric == pytest.approx(p * (1 - p), rel=1e-13)


def test_one_toss_after_another_equals_all_at_once() -> None:
    at_once, step_by_step = Coin(11, 9), Coin(0, 0)
    evidence = 0.0
    for k in range(20):
        step_by_step = step_by_step.observe(int(k < 11), int(k >= 11))
        evidence += step_by_step.log_evidence
    assert (step_by_step.a, step_by_step.b) == (at_once.a, at_once.b)
    assert evidence == pytest.approx(at_once.log_evidence, rel=1e-12)


def test_the_posterior_tightens_with_data() -> None:
    scales = [Coin(11 * k, 9 * k).variance for k in range(6)]
    assert scales == sorted(scales, reverse=True)


@pytest.mark.parametrize("coin", [COINS[1], COINS[3]], ids=str)
def test_draws_have_the_law_of_the_posterior(coin: Coin) -> None:
    draws = coin.sample(2000, Stream(1, ("coin",)))
    assert stats.kstest(draws.numpy(), beta(coin).cdf).pvalue > REJECTION
    twin = Coin(coin.tails, coin.heads, coin.prior_tails, coin.prior_heads).sample(2000, Stream(1, ("coin",)))
    assert stats.kstest(twin.numpy(), beta(coin).cdf).pvalue < REJECTION
    assert torch.equal(draws, coin.sample(2000, Stream(1, ("coin",))))
    assert not torch.equal(draws, coin.sample(2000, Stream(2, ("coin",))))


@pytest.mark.parametrize("coin", [Coin(3, 0), Coin(11, 9), Coin(2, 7, 1.5, 4.2)], ids=str)
def test_the_grid_agrees_with_the_closed_form(coin: Coin) -> None:
    grid = coin.grid(points=2000)
    theta = grid.axes[0]
    # the midpoint rule errs by the square of the cell, 2.5e-7, times a curvature
    torch.testing.assert_close(grid.posterior, coin.density(theta), rtol=0, atol=1e-5)
    assert float(grid.expect(theta)) == pytest.approx(coin.head_probability, abs=1e-6)
    assert float(grid.covariance) == pytest.approx(coin.variance, abs=1e-6)
    assert grid.log_evidence == pytest.approx(coin.log_evidence, abs=1e-4)  # the curvature relative to the evidence
    assert float(grid.posterior.sum() * grid.cell) == pytest.approx(1.0, abs=1e-12)
    assert float(grid.prior.sum() * grid.cell) == pytest.approx(1.0, abs=1e-12)


def test_the_grid_converges_as_the_square_of_its_cell() -> None:
    coin = Coin(3, 0)
    errors = [abs(coin.grid(n).log_evidence - coin.log_evidence) for n in (50, 100, 200, 400)]
    orders = [math.log2(a / b) for a, b in itertools.pairwise(errors)]
    assert orders == pytest.approx([2.0] * 3, abs=0.01)  # the next term is of fourth order


def test_a_million_tosses_neither_underflow_nor_overflow() -> None:
    coin = Coin(600_000, 400_000)
    assert coin.interval() == pytest.approx(beta(coin).interval(0.95), rel=1e-8)  # logarithms near 1e6 lose 6 digits
    assert float(coin.grid(20_000).mean) == pytest.approx(coin.mean, abs=1e-8)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((-1, 2), "heads must be a whole number of at least 0, got -1"),
        ((1, 2.5), "tails must be a whole number of at least 0, got 2.5"),
        ((1, 2, 0.0), "prior_heads must be a positive number, got 0.0"),
        ((1, 2, 1.0, float("nan")), "prior_tails must be a positive number, got nan"),
    ],
)
def test_bad_coins_are_refused(arguments: tuple[float, ...], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Coin(*arguments)  # type: ignore[arg-type]


def test_questions_without_an_answer_are_refused() -> None:
    with pytest.raises(ValueError, match="without a toss"):
        _ = Coin(0, 0).maximum_likelihood
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        Coin(3, 0).interval(95.0)
    with pytest.raises(ValueError, match="count must be a whole number"):
        Coin(3, 0).sample(0, Stream(0))
