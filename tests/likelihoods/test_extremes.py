"""Numbers at the edge of what float32 holds: they stay finite, and right to the digits that are there."""

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from credo.likelihoods import Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian, LearnedGaussian, Poisson

BOTH = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@BOTH
def test_huge_logits(dtype):
    logits = torch.tensor([[1e3, -1e3, 0.0], [0.0, 0.0, 1e3]], dtype=dtype)
    likelihood = Categorical()
    assert likelihood.log_prob(logits, torch.tensor([1, 2]), {}).tolist() == [-2000.0, 0.0]
    assert likelihood.entropy(logits, {}).tolist() == [0.0, 0.0]
    assert likelihood.variance(logits, {}).abs().max() == 0.0
    both = torch.tensor([[1e3], [-1e3]], dtype=dtype)
    assert Bernoulli().log_prob(both, torch.tensor([[0.0], [0.0]]), {}).tolist() == [-1000.0, 0.0]
    assert Bernoulli().entropy(both, {}).flatten().tolist() == [0.0, 0.0]
    assert Bernoulli().variance(both, {}).flatten().tolist() == [0.0, 0.0]


@BOTH
def test_small_probabilities_keep_their_digits(dtype):
    """1 - sigmoid(40) is 0 in either precision; sigmoid(-40) is not."""
    outputs = torch.tensor([[40.0]], dtype=dtype)
    small = 1 / (1 + math.exp(40.0))
    rel = 1e-5 if dtype == torch.float32 else 1e-12  # float32 has seven digits
    assert float(Bernoulli().variance(outputs, {})) == pytest.approx(small, rel=rel)
    assert float(Bernoulli().log_prob(outputs, torch.zeros(1, 1), {})) == pytest.approx(-40.0, rel=rel)
    assert float(Bernoulli().entropy(outputs, {})) == pytest.approx(41 * small, rel=rel)


@BOTH
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e6])
def test_scales_far_from_one(dtype, scale):
    z = torch.tensor([[-2.0], [0.0], [3.0]], dtype=dtype)
    expected = torch.from_numpy(stats.norm.logpdf(z.double().numpy())).sum(-1) - math.log(scale)
    fixed = Gaussian(scale=scale).log_prob(torch.zeros_like(z), scale * z, {})
    learned = {"log_scale": torch.tensor([math.log(scale)], dtype=dtype)}
    tolerance = 1e-4 if dtype == torch.float32 else 1e-9  # exp(log scale) carries the rounding of its logarithm
    for found in (fixed, LearnedGaussian().log_prob(torch.zeros_like(z), scale * z, learned)):
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=tolerance)
    assert float(Gaussian(scale=scale).cdf(torch.zeros(1, 1, dtype=dtype), scale * z[2:], {})) == pytest.approx(
        stats.norm.cdf(3.0), abs=1e-6
    )


@BOTH
def test_the_floor_bounds_the_density(dtype):
    """The network cannot make its noise vanish, whatever it says."""
    outputs = torch.tensor([[0.0, -1e3], [0.0, 1e3]], dtype=dtype)
    likelihood = HeteroscedasticGaussian(floor=1e-3)
    found = likelihood.log_prob(outputs, torch.zeros(2, 1, dtype=dtype), {})
    assert float(found[0]) == pytest.approx(-math.log(1e-3) - 0.5 * math.log(2 * math.pi), abs=1e-5)
    assert float(likelihood.variance(outputs, {})[1]) == pytest.approx(1000.001**2, rel=1e-6)


RATES = [1e-8, 1e-3, 1.0, 15.0, 17.0, 300.0, 1e6]


@pytest.mark.parametrize("rate", RATES)
@BOTH
def test_counts_of_any_size(rate, dtype):
    likelihood = Poisson()
    f = torch.tensor([[math.log(rate)]], dtype=dtype)
    exact_rate = math.exp(float(f))
    counts = torch.tensor([0.0, 1.0, 2.0, round(rate), round(rate + 3 * math.sqrt(rate)) + 1.0], dtype=dtype)
    found = likelihood.log_prob_each(f, counts.view(-1, 1, 1), {}).flatten()
    expected = torch.from_numpy(stats.poisson.logpmf(counts.double().numpy(), exact_rate))
    # float32: a log rate near 14 is known to 5e-7, which at a million moves three standard deviations by 3e-3
    tolerance = 1e-9 * max(1.0, rate / 100) if dtype == torch.float64 else 1e-5 + 1e-6 * math.sqrt(rate) * 5
    near = expected > -1e3
    torch.testing.assert_close(found[near].double(), expected[near], rtol=1e-6, atol=tolerance)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=tolerance)


def test_the_textbook_formula_fails_in_float32():
    """The twin: y f - exp(f) - log y!, whose terms are fourteen million for a count of a million."""
    f, y = torch.tensor(math.log(1e6)), torch.tensor(1e6)
    right = stats.poisson.logpmf(1e6, math.exp(float(f)))
    assert abs(float(y * f - f.exp() - torch.lgamma(y + 1)) - right) > 0.1
    assert abs(float(Poisson().log_prob_each(f, y, {})) - right) < 1e-3  # see above


@pytest.mark.parametrize("rate", RATES)
def test_entropy_and_cdf_of_counts_of_any_size(rate):
    f = torch.tensor([[math.log(rate)]], dtype=torch.float64)
    likelihood = Poisson()
    # exact by its series at large rates, where scipy sums only so far
    expected = _series(rate) if rate > 100 else float(stats.poisson(rate).entropy())
    assert float(likelihood.entropy(f, {})) == pytest.approx(expected, abs=1e-8)
    for y in (0.0, rate // 1, rate + 2 * math.sqrt(rate)):
        found = float(likelihood.cdf(f, torch.tensor([[y]], dtype=torch.float64), {}))
        assert found == pytest.approx(stats.poisson.cdf(y, rate), abs=1e-9)
    assert float(likelihood.cdf(f, torch.tensor([[-0.5]], dtype=torch.float64), {})) == 0.0


def _series(rate: float) -> float:
    gauss = 0.5 * math.log(2 * math.pi * math.e * rate)
    return gauss - 1 / (12 * rate) - 1 / (24 * rate**2) - 19 / (360 * rate**3)


@pytest.mark.parametrize("rate", RATES)
def test_float32_counts_agree_with_float64(rate):
    f = torch.tensor([[math.log(rate)]])
    likelihood = Poisson()
    y = torch.tensor([[float(round(rate + math.sqrt(rate)))]])

    def both(function) -> tuple[Tensor, Tensor]:
        return function(f, y).double(), function(f.double(), y.double())

    for function in (
        lambda f, y: likelihood.entropy(f, {}),
        lambda f, y: likelihood.cdf(f, y, {}),
        lambda f, y: likelihood.variance(f, {}) / rate,
    ):
        narrow, wide = both(function)
        torch.testing.assert_close(
            narrow, wide, rtol=1e-3, atol=1e-4
        )  # seven digits of a rate with six before the point


def test_gradients_stay_finite_for_counts():
    for y in (0.0, 1.0, 1e6):
        for value in (-20.0, 0.0, math.log(1e6), 30.0):
            f = torch.tensor([[value]], requires_grad=True)
            Poisson().log_prob(f, torch.tensor([[y]]), {}).sum().backward()
            assert float(f.grad) == pytest.approx(y - math.exp(value), rel=1e-4, abs=1e-2 * max(1.0, y * 1e-4))


def test_samples_of_rare_and_of_many_counts():
    generator = torch.Generator().manual_seed(0)
    f = torch.tensor([math.log(1e-8), math.log(1e6)]).expand(2000, 1, 2)
    drawn = Poisson().sample(f, {}, generator)
    assert float(drawn[..., 0].max()) == 0.0
    assert float(drawn[..., 1].mean()) == pytest.approx(1e6, abs=6 * 1000 / math.sqrt(2000))
