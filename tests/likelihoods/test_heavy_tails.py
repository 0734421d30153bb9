"""Student's t, log-normal and negative binomial targets: tails, integrals and limits against scipy, in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch import Tensor

from credo.core.integrals import entropy_by_integral
from credo.core.special import incomplete_beta
from credo.core.trees import Params
from credo.likelihoods import (
    Gaussian,
    HeteroscedasticGaussian,
    HeteroscedasticStudentT,
    LogNormal,
    NegativeBinomial,
    Poisson,
    Standardized,
)
from credo.likelihoods.student import LARGE, _exact_tail, student_tail
from credo.metrics import crps
from credo.predictive import predictive

STUDENT = HeteroscedasticStudentT()
ONE = torch.tensor([[[0.3, 0.5413248546129181]]], dtype=torch.float64)  # softplus of the second is 1


def degrees(df: float) -> Params:
    return {"log_excess": torch.tensor([[math.log(df - STUDENT.least_df)]], dtype=torch.float64)}


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).unsqueeze(1)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (1.25, 0.5), (0.5, 40.0), (300.0, 7.0), (1e4, 3e4)])
def test_the_incomplete_beta_function_and_its_complement(a: float, b: float) -> None:
    mean = a / (a + b)
    x = torch.tensor([1e-9, 0.2 * mean, mean, 1.0 - 0.5 * (1.0 - mean), 1.0 - 1e-9], dtype=torch.float64)
    below, above = incomplete_beta(x, 1.0 - x, torch.tensor(a), torch.tensor(b))
    # scipy's own digits end at 1e-11 for the largest parameters
    np.testing.assert_allclose(below, special.betainc(a, b, x.numpy()), rtol=1e-10, atol=1e-300)
    np.testing.assert_allclose(above, special.betaincc(a, b, x.numpy()), rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("df", [2.6, 4.0, 30.0, 2000.0])
def test_both_tails_of_student_t_keep_their_digits(df: float) -> None:
    scale = 1.0 + STUDENT.floor
    y = column(-1e5, -30.0, -1.0, 0.3, 0.3 + 1e-9, 2.0, 1e5)
    z = (y.numpy() - 0.3) / scale
    outputs = ONE[0].expand(len(y), 2)
    own = {"log_excess": degrees(df)["log_excess"][0]}
    np.testing.assert_allclose(STUDENT.cdf(outputs, y, own), stats.t.cdf(z, df), rtol=1e-10)
    np.testing.assert_allclose(STUDENT.survival(outputs, y, own), stats.t.sf(z, df), rtol=1e-10)


def test_the_table_of_tails_keeps_the_digits_of_the_continued_fraction() -> None:
    df = torch.tensor([2.51, 3.0, 8.0, 100.0, 3000.0], dtype=torch.float64).view(5, 1, 1)
    z = torch.sinh(torch.linspace(0.0, 5.0, 4000, dtype=torch.float64)).view(1, -1, 1).expand(5, -1, 1)
    found, exact = student_tail(z, df), _exact_tail(z, df)
    seen = exact > 1e-250
    assert not torch.equal(found, exact)  # it is the table
    np.testing.assert_allclose(found[seen], exact[seen], rtol=1e-8)  # a cubic between nodes 0.005 apart
    near = exact > 1e-14
    np.testing.assert_allclose(found[near], exact[near], rtol=1e-9)  # likewise, where it matters
    assert float(student_tail(torch.full((1, LARGE, 1), 1e9, dtype=torch.float64), df[:1]).max()) < 1e-16


@pytest.mark.parametrize("df", [2.6, 5.0, 200.0])
def test_integrals_over_student_t(df: float) -> None:
    """Entropy and ranked score of a mixture of two that lie on each other, so that their formulas are known."""
    own = {name: value.expand(2, 1) for name, value in degrees(df).items()}
    prediction = predictive(STUDENT, ONE.expand(2, 3, 2), own, torch.zeros(2))
    scale, y = 1.0 + STUDENT.floor, column(-4.0, 0.5, 300.0)
    np.testing.assert_allclose(prediction.entropy, np.full((3, 1), stats.t(df, 0.3, scale).entropy()), rtol=1e-9)
    np.testing.assert_allclose(crps(prediction, y), crps_of_student(df, (y.numpy() - 0.3) / scale).mean() * scale)
    np.testing.assert_allclose(prediction.quantile(1e-4), np.full((3, 1), stats.t(df, 0.3, scale).ppf(1e-4)), rtol=1e-9)


def crps_of_student(df: float, z: np.ndarray) -> np.ndarray:
    """Of the standard one; A. Jordan, F. Kruger, S. Lerch, "Evaluating probabilistic forecasts with scoringRules"."""
    spread = 2.0 * math.sqrt(df) / (df - 1.0) * special.beta(0.5, df - 0.5) / special.beta(0.5, 0.5 * df) ** 2
    return z * (2.0 * stats.t.cdf(z, df) - 1.0) + 2.0 * stats.t.pdf(z, df) * (df + z**2) / (df - 1.0) - spread


def test_even_pieces_of_a_heavy_tail_are_rejected() -> None:
    """The broken twin: the span of a t with few degrees of freedom, cut as that of a normal."""
    own = degrees(2.6)
    lower, upper = STUDENT.spread(ONE, own)
    twin = entropy_by_integral(lambda y: STUDENT.log_prob_each(ONE, y, own)[0], lower, upper)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(twin, STUDENT.entropy(ONE, own)[0], rtol=1e-3)


def test_many_degrees_of_freedom_are_normal_and_a_standardized_t_stays_one() -> None:
    y = column(-1.0, 0.0, 2.5)
    outputs = ONE[0].expand(3, 2)
    own = {"log_excess": torch.tensor([math.log(1e9)], dtype=torch.float64)}
    normal = HeteroscedasticGaussian().log_prob(outputs, y, {})
    torch.testing.assert_close(
        STUDENT.log_prob(outputs, y, own), normal, rtol=1e-5, atol=1e-5
    )  # gamma functions of 1e9 cancel
    few = {"log_excess": degrees(4.0)["log_excess"][0]}
    assert not torch.allclose(STUDENT.log_prob(outputs, y, few), normal, atol=1e-2)
    dollars = Standardized(STUDENT, (100.0,), (7.0,))
    law = stats.t(4.0, 100.0 + 7.0 * 0.3, 7.0 * (1.0 + STUDENT.floor))
    np.testing.assert_allclose(
        dollars.log_prob(outputs, 100.0 + 7.0 * y, few), law.logpdf(100.0 + 7.0 * y.numpy())[:, 0]
    )
    prediction = predictive(dollars, ONE, degrees(4.0), torch.zeros(1))
    np.testing.assert_allclose(float(prediction.quantile(0.975)), law.ppf(0.975), rtol=1e-9)
    np.testing.assert_allclose(float(prediction.entropy), law.entropy(), rtol=1e-9)


def test_the_prior_of_the_degrees_of_freedom() -> None:
    likelihood = HeteroscedasticStudentT(initial_df=6.5, least_df=2.5)
    value = torch.tensor([[0.2, 1.0]], dtype=torch.float64)
    expected = stats.norm(math.log(4.0), 2.0).logpdf(value.numpy()).sum(-1)
    np.testing.assert_allclose(likelihood.log_prior({"log_excess": value}), expected)
    drawn = likelihood.draw_parameters(2, 4000, torch.Generator().manual_seed(0))["log_excess"]
    assert drawn.shape == (4000, 1)
    assert stats.kstest(drawn[:, 0].numpy(), stats.norm(math.log(4.0), 2.0).cdf).pvalue > 1e-6


@pytest.mark.parametrize("scale", [0.3, 1.5, 3.0])
def test_integrals_over_a_log_normal(scale: float) -> None:
    likelihood = LogNormal(loc=0.7, scale=scale)
    prediction, y = predictive(likelihood, ONE.expand(1, 3, 2), {}, torch.zeros(1)), column(0.1, 2.0, 500.0)
    s, m = scale * (1.0 + likelihood.floor), 0.7 + scale * 0.3
    np.testing.assert_allclose(prediction.entropy, np.full((3, 1), stats.lognorm(s, scale=math.exp(m)).entropy()), 1e-7)
    z = (np.log(y.numpy()) - m) / s
    inner = stats.norm.cdf(z - s) + stats.norm.cdf(s / math.sqrt(2.0)) - 1.0
    expected = y.numpy() * (2.0 * stats.norm.cdf(z) - 1.0) - 2.0 * math.exp(m + 0.5 * s * s) * inner
    np.testing.assert_allclose(crps(prediction, y), expected.mean(), rtol=1e-6)  # Gauss and Legendre on 47 pieces
    lower, upper = prediction.interval(0.9)
    assert bool((lower > 0).all())
    np.testing.assert_allclose(upper, np.full((3, 1), stats.lognorm(s, scale=math.exp(m)).ppf(0.95)), rtol=1e-9)


def test_a_log_normal_has_the_jacobian() -> None:
    """The broken twin: a normal density of log y that is not divided by y."""
    y = column(3.0)
    found = LogNormal().log_prob(ONE[0], y, {})
    np.testing.assert_allclose(found, stats.lognorm(1.001, scale=math.exp(0.3)).logpdf([3.0]))
    assert not np.allclose(found, stats.norm(0.3, 1.001).logpdf(math.log(3.0)), atol=0.1)
    assert float(LogNormal().log_prob_each(ONE[0], column(-1.0), {})) == -math.inf
    assert float(LogNormal().cdf(ONE[0], column(-1.0), {})) == 0.0


def test_a_negative_binomial_without_dispersion_is_poisson() -> None:
    y = column(0.0, 3.0, 40.0)
    outputs = torch.tensor([[1.5, -40.0]], dtype=torch.float64).expand(3, 2)
    counts = NegativeBinomial(floor=1e-9)
    torch.testing.assert_close(  # a dispersion of 1e-9 is not zero
        counts.log_prob(outputs, y, {}), Poisson().log_prob(outputs[:, :1], y, {}), rtol=1e-5, atol=1e-5
    )
    assert not torch.allclose(NegativeBinomial(floor=0.1).log_prob(outputs, y, {}), counts.log_prob(outputs, y, {}))


def test_quantiles_and_scores_of_a_negative_binomial() -> None:
    likelihood = NegativeBinomial(floor=0.5, offset=2.0)
    prediction = predictive(likelihood, ONE.expand(1, 2, 2), {}, torch.zeros(1))
    mean, shape = math.exp(2.3), 1.0 / 1.5
    law = stats.nbinom(shape, shape / (shape + mean))
    for level in (0.025, 0.5, 0.999):
        assert prediction.quantile(level).tolist() == [[law.ppf(level)]] * 2
    k = np.arange(20_000)
    expected = [((law.cdf(k) - (k >= y)) ** 2).sum() for y in (3, 60)]
    np.testing.assert_allclose(crps(prediction, column(3.0, 60.0)), np.mean(expected), rtol=1e-9)
    np.testing.assert_allclose(prediction.entropy, np.full((2, 1), law.entropy()), rtol=1e-7)  # scipy stops at 1e-10


@pytest.mark.parametrize("likelihood", [HeteroscedasticStudentT(), LogNormal(), NegativeBinomial()])
def test_single_precision_is_kept(likelihood: HeteroscedasticStudentT | LogNormal | NegativeBinomial) -> None:
    outputs = torch.zeros(4, 2)
    own = dict(likelihood.parameters(2).items())
    y = torch.ones(4, 1)
    for found in (
        likelihood.log_prob(outputs, y, own),
        likelihood.cdf(outputs, y, own),
        likelihood.sample(outputs, own, torch.Generator().manual_seed(0)),
        likelihood.mean(outputs, own),
        likelihood.variance(outputs, own),
        likelihood.spread(outputs, own)[1],
    ):
        assert found.dtype is torch.float32


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HeteroscedasticStudentT(least_df=2.0), "least_df must lie between 2 and"),
        (lambda: HeteroscedasticStudentT(initial_df=2.2), "between 2 and initial_df"),
        (lambda: HeteroscedasticStudentT(floor=0.0), "floor must be a positive"),
        (lambda: LogNormal(scale=-1.0), "scale must be a positive"),
        (lambda: NegativeBinomial(offset=math.inf), "offset must be a finite"),
        (lambda: LogNormal().check_targets(torch.tensor([1.0, 0.0]), 2), "needs y > 0"),
        (lambda: NegativeBinomial().check_targets(torch.tensor([1.5]), 2), "counts 0, 1, 2"),
        (lambda: HeteroscedasticStudentT().check_targets(torch.zeros(3), 1), "2 output"),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_none_of_them_passes_for_a_normal() -> None:
    y = column(1.0, 2.0, 4.0)
    outputs = ONE[0].expand(3, 2)
    normal = Gaussian(1.001).log_prob(outputs[:, :1], y, {})
    for likelihood, own in (
        (STUDENT, {"log_excess": degrees(3.0)["log_excess"][0]}),
        (LogNormal(), {}),
        (NegativeBinomial(), {}),
    ):
        assert not torch.allclose(likelihood.log_prob(outputs, y, own), normal, atol=0.05)


def test_the_tails_of_a_log_normal_keep_their_digits() -> None:
    """The broken twin: torch.special.ndtr, which is 0 from nine standard deviations on."""
    z = torch.tensor([[-30.0], [-9.0], [8.0], [9.0], [30.0]], dtype=torch.float64)
    y = (0.3 + 1.001 * z).exp()
    outputs = ONE[0].expand(5, 2)
    np.testing.assert_allclose(LogNormal().cdf(outputs, y, {}), stats.norm.cdf(z), rtol=1e-9)
    np.testing.assert_allclose(LogNormal().survival(outputs, y, {}), stats.norm.sf(z), rtol=1e-9)
    assert not np.allclose(torch.special.ndtr(z), stats.norm.cdf(z), rtol=1e-9, atol=0.0)
