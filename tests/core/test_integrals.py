"""Entropies and quantiles of mixtures against scipy, from narrow peaks far apart to counts in the millions."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats
from torch import Tensor

from credo import Stream
from credo.core.integrals import crossing, entropy_by_integral, entropy_by_sum, smallest_where
from credo.likelihoods.gaussian import normal_cdf

REACH = 7.1


def column(values) -> Tensor:
    """One number for each component, (S, 1): a batch of one element."""
    return torch.as_tensor(np.asarray(values, dtype=np.float64)).unsqueeze(1)


class Normals:
    """A mixture of normals, for torch and for scipy."""

    def __init__(self, means, scales, weights=None):
        self.means, self.scales = np.asarray(means, dtype=float), np.asarray(scales, dtype=float)
        self.weights = np.full(len(self.means), 1 / len(self.means)) if weights is None else np.asarray(weights)

    def log_p(self, y: Tensor) -> Tensor:
        mean, scale, weight = column(self.means), column(self.scales), column(self.weights)
        each = -0.5 * ((y - mean) / scale) ** 2 - scale.log() - 0.5 * math.log(2 * math.pi)
        return torch.logsumexp(each + weight.log(), 0)

    def entropy(self) -> float:
        return float(entropy_by_integral(self.log_p, *self.ends()))

    def ends(self) -> tuple[Tensor, Tensor]:
        return column(self.means - REACH * self.scales), column(self.means + REACH * self.scales)

    def by_quadrature(self) -> float:
        def information(y: float) -> float:
            log_p = special.logsumexp(stats.norm.logpdf(y, self.means, self.scales), b=self.weights)
            return -math.exp(log_p) * log_p

        cuts = np.unique((self.means[:, None] + self.scales[:, None] * np.linspace(-9, 9, 13)).ravel())
        pieces = pairwise(cuts)
        return sum(integrate.quad(information, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in pieces)


MIXTURES = {
    "one": Normals([3.0], [0.2]),
    "overlapping": Normals([0.0, 0.5, 1.1], [1.0, 0.7, 0.4], [0.2, 0.5, 0.3]),
    "a needle in a haystack": Normals([0.3, 0.0], [1e-3, 1.0], [0.1, 0.9]),
    "a needle far away": Normals([50.0, 0.0], [1e-4, 1.0], [0.3, 0.7]),
    "two needles far apart": Normals([-7.0, 13.0], [1e-3, 1e-3]),
    "twelve of all kinds": Normals(np.linspace(-20, 40, 12), np.geomspace(1e-3, 3, 12)),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_entropy_of_normal_mixtures(name):
    mixture = MIXTURES[name]
    assert mixture.entropy() == pytest.approx(mixture.by_quadrature(), abs=1e-7)


def test_entropy_of_a_skewed_density():
    """A log-normal density: 32 points over its span, which serve a normal, miss the peak by 0.03 nats."""
    scale = 0.5

    def log_p(y: Tensor) -> Tensor:
        z = (y.log() - 1.0) / scale
        return -0.5 * z.square() - y.log() - math.log(scale * math.sqrt(2 * math.pi))

    ends = [torch.tensor([[1.0 + side * REACH * scale]], dtype=torch.float64).exp() for side in (-1.0, 1.0)]
    exact = 1.0 + 0.5 * math.log(2 * math.pi * math.e * scale**2)
    assert float(entropy_by_integral(log_p, *ends)) == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("apart", [40.0, 1e4, 1e7])
def test_two_equal_components_far_apart_add_log_two(apart):
    """A grid of bounded size over the whole range would not even see components this narrow."""
    single = 0.5 * math.log(2 * math.pi * math.e * 0.01**2)
    assert Normals([0.0, apart], [0.01, 0.01]).entropy() == pytest.approx(single + math.log(2), abs=1e-7)
    weighted = Normals([0.0, apart], [0.01, 0.01], [0.1, 0.9]).entropy()
    assert weighted == pytest.approx(single + stats.entropy([0.1, 0.9]), abs=1e-7)


def test_a_coarse_grid_is_noticed():
    """The twin: a fixed number of points over the whole range."""
    mixture = MIXTURES["a needle far away"]
    y = torch.linspace(-REACH, 51.0, 16384, dtype=torch.float64)
    coarse = -mixture.log_p(y).exp() * mixture.log_p(y).clamp_min(-1e4)
    assert abs(float(torch.trapezoid(coarse, y)) - mixture.by_quadrature()) > 0.1


def test_each_element_has_its_own_support():
    """(S, B, D): a narrow element does not spoil its neighbors, nor they it."""
    mean = torch.tensor([[[0.0, 1.0], [1e4, -5.0]], [[0.0, 30.0], [0.0, -5.0]]], dtype=torch.float64)
    scale = torch.tensor([[[1.0, 0.1], [1e-2, 2.0]], [[1.0, 0.1], [1.0, 3.0]]], dtype=torch.float64)

    def log_p(y: Tensor) -> Tensor:
        return torch.logsumexp(torch.distributions.Normal(mean, scale).log_prob(y) - math.log(2), 0)

    found = entropy_by_integral(log_p, mean - REACH * scale, mean + REACH * scale)
    for b in range(2):
        for d in range(2):
            alone = Normals(mean[:, b, d].numpy(), scale[:, b, d].numpy()).by_quadrature()
            assert float(found[b, d]) == pytest.approx(alone, abs=1e-7)


class Poissons:
    """A mixture of Poisson distributions."""

    def __init__(self, rates, weights=None):
        self.rates = np.asarray(rates, dtype=float)
        self.weights = np.full(len(self.rates), 1 / len(self.rates)) if weights is None else np.asarray(weights)

    def log_p(self, k: Tensor) -> Tensor:
        rate, weight = column(self.rates), column(self.weights)
        return torch.logsumexp(torch.distributions.Poisson(rate, validate_args=False).log_prob(k) + weight.log(), 0)

    def entropy(self) -> float:
        reach = 9.3 + np.sqrt(86.5 + 55.3 * self.rates)
        lower, upper = np.floor(np.maximum(self.rates - reach, 0)), np.ceil(self.rates + reach)
        return float(entropy_by_sum(self.log_p, column(lower), column(upper)))

    def by_summation(self) -> float:
        wide = 12 * np.sqrt(self.rates) + 40
        k = np.unique(
            np.concatenate([np.arange(max(0, r - w) // 1, r + w) for r, w in zip(self.rates, wide, strict=True)])
        )
        log_p = special.logsumexp(stats.poisson.logpmf(k[:, None], self.rates), b=self.weights, axis=1)
        return float(-(np.exp(log_p) * log_p).sum())


@pytest.mark.parametrize(
    "mixture",
    [
        Poissons([1e-8]),
        Poissons([0.7, 3.0, 11.0], [0.5, 0.3, 0.2]),
        Poissons([3900.0]),
        Poissons([4096.0]),
        Poissons([4200.0, 1.0], [0.9, 0.1]),
        Poissons([1e6]),
        Poissons([1e6, 0.3, 4100.0, 2e5]),
        Poissons([1e7]),
    ],
    ids=lambda m: " ".join(f"{r:g}" for r in m.rates),
)
def test_entropy_of_counts(mixture):
    assert mixture.entropy() == pytest.approx(mixture.by_summation(), abs=1e-7)


def test_an_infinite_rate_spoils_only_its_own_element():
    rate = torch.tensor([[math.inf, 2.0]], dtype=torch.float64)
    lower, upper = torch.zeros_like(rate), torch.where(rate.isinf(), math.inf, 30.0)
    found = entropy_by_sum(lambda k: (k * rate.log() - rate - torch.lgamma(k + 1))[0], lower, upper)
    assert not found[0].isfinite()
    assert float(found[1]) == pytest.approx(float(stats.poisson(2.0).entropy()), abs=1e-9)


LEVELS = [1e-6, 0.025, 0.5, 0.9, 1 - 1e-9]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_quantiles_at_any_scale(level, scale, dtype):
    """Resolution is relative to each element's own interval, so tiny units lose nothing."""
    ends = torch.tensor([-REACH * scale, -REACH], dtype=dtype), torch.tensor([REACH * scale, REACH], dtype=dtype)
    scales = torch.tensor([scale, 1.0], dtype=dtype)
    found = smallest_where(lambda y: torch.special.ndtr(y / scales) >= level, *ends, discrete=False) / scales
    tolerance = 1e-9 if dtype == torch.float64 and level < 0.99 else 1e-6 if level < 0.99 else 2.0  # a flat tail
    # in float32 levels themselves are rounded: by 1e-7 of a density that is 5e-6 at the lowest level
    if dtype == torch.float32 and level < 1e-3:
        tolerance = 1e-3
    assert found.tolist() == pytest.approx([stats.norm.ppf(level)] * 2, abs=tolerance)


def test_a_narrow_peak_in_a_wide_interval():
    wide = torch.tensor([1e6], dtype=torch.float64)
    found = smallest_where(lambda y: torch.special.ndtr((y - 123.0) / 1e-3) >= 0.9, -wide, wide, discrete=False)
    assert float(found) == pytest.approx(123.0 + 1e-3 * stats.norm.ppf(0.9), abs=1e-10)


class Counted:
    """A mixture's distribution function less a level, on the scale of standard deviations, which counts its calls."""

    def __init__(self, means: Tensor, scales: Tensor, level: float) -> None:
        self.means, self.scales, self.level, self.calls = means, scales, level, 0

    def __call__(self, y: Tensor) -> Tensor:
        self.calls += 1
        side = 1.0 if self.level <= 0.5 else -1.0  # by the smaller tail, which keeps its digits
        tail = normal_cdf(side * (y - self.means) / self.scales).mean(0).clamp(1e-300, 1.0 - 1e-16)
        return side * torch.special.ndtri(tail) - stats.norm.ppf(self.level)

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        return (self.means - REACH * self.scales).amin(0), (self.means + REACH * self.scales).amax(0)


@pytest.mark.parametrize("level", LEVELS)
def test_a_crossing_is_what_bisection_finds_in_few_steps(level):
    rng = Stream(0, ("crossing",))
    means, scales = 3.0 * rng.normal(20, 500, dtype=torch.float64), rng.child("scales").normal(20, 1).double().exp()
    counted = Counted(means, scales, level)
    found = crossing(counted, *counted.ends)
    assert counted.calls <= 25  # of the slowest of 500, where bisection takes 65
    expected = smallest_where(lambda y: counted(y) >= 0.0, *counted.ends, discrete=False)
    torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-10)
    assert bool((counted(found) >= -1e-12).all())


def test_a_crossing_between_two_peaks_is_at_the_lower_one():
    """The distribution function is flat from one to the other: bisection goes on to where the flat begins."""
    means = torch.tensor([[-1e3, -1.0], [1e3, 1.0]], dtype=torch.float64)
    for level, peak in ((0.4999, -1.0), (0.5001, 1.0)):
        counted = Counted(means, torch.full((2, 1), 0.01, dtype=torch.float64), level)
        found = crossing(counted, *counted.ends)
        assert torch.allclose(found, peak * means.abs()[0], atol=0.05)
    steps = crossing(lambda y: (y >= 0.25).double() - 0.5, torch.tensor([0.0]), torch.tensor([1.0]))
    assert float(steps) == 0.25


def test_a_crossing_beyond_the_ends_and_beside_numbers_that_are_none():
    means = torch.tensor([[0.0, torch.nan, 5.0]], dtype=torch.float64)
    counted = Counted(means, torch.ones(1, 1, dtype=torch.float64), 1e-20)
    found = crossing(counted, *counted.ends)
    assert found[[0, 2]].tolist() == pytest.approx([stats.norm.ppf(1e-20), 5.0 + stats.norm.ppf(1e-20)], abs=1e-9)
    alone = crossing(Counted(means[:, 2:], torch.ones(1, 1).double(), 1e-20), *(end[2:] for end in counted.ends))
    assert torch.equal(found[2:], alone)


@pytest.mark.parametrize("rate", [1e-8, 0.5, 7.0, 1e4])
@pytest.mark.parametrize("level", [1e-3, 0.5, 0.975, 0.999])
def test_discrete_quantiles_are_the_smallest_count(rate, level):
    ends = torch.zeros(1, dtype=torch.float64), torch.tensor([2 * rate + 30.0], dtype=torch.float64).ceil()

    def cdf(y: Tensor) -> Tensor:
        return torch.from_numpy(stats.poisson.cdf(y.numpy(), rate))

    found = float(smallest_where(lambda y: cdf(y) >= level, *ends, discrete=True))
    assert found == stats.poisson.ppf(level, rate)
    assert stats.poisson.cdf(found, rate) >= level > stats.poisson.cdf(found - 1, rate)
