"""Distances between predictive distributions, against closed forms and integrals of our own."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import Tensor

from credo.core.rng import Stream
from credo.diagnostics.agreement import Agreement, ClassAgreement, NumericAgreement, agreement
from credo.likelihoods import Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian, LearnedGaussian, Poisson
from credo.predictive import Predictive, predictive

FINE = 2e-4
"""Of total variation, whose nodes may miss where two densities cross; a thousandth of what matters."""


def normals(means: list[float], scale: float = 1.0, weights: list[float] | None = None) -> Predictive:
    """A mixture of normals for one input."""
    draws = torch.tensor(means, dtype=torch.float64).view(-1, 1, 1)
    logs = torch.tensor(weights or [1.0] * len(means), dtype=torch.float64).log()
    return predictive(Gaussian(scale=scale), draws, {}, logs)


def numeric(p: Predictive, q: Predictive) -> NumericAgreement:
    found = agreement(p, q)
    assert isinstance(found, NumericAgreement)
    return found


def by_quadrature(p: list[tuple[float, float, float]], q: list[tuple[float, float, float]]) -> tuple[float, float]:
    """Total variation and Wasserstein distance of two mixtures of (weight, mean, standard deviation), by Simpson."""
    y = np.linspace(-40.0, 40.0, 400_001)

    def mixed(parts: list[tuple[float, float, float]], of: str) -> np.ndarray:
        return sum(w * getattr(stats.norm(m, s), of)(y) for w, m, s in parts)

    variation = 0.5 * integrate.simpson(np.abs(mixed(p, "pdf") - mixed(q, "pdf")), x=y)
    return variation, integrate.simpson(np.abs(mixed(p, "cdf") - mixed(q, "cdf")), x=y)


@pytest.mark.parametrize("shift", [0.0, 0.01, 0.5, 3.0, 20.0])
def test_normals_that_are_shifted(shift: float) -> None:
    found = numeric(normals([shift]), normals([0.0]))
    assert float(found.total_variation) == pytest.approx(math.erf(shift / math.sqrt(8.0)), abs=FINE)
    assert float(found.wasserstein) == pytest.approx(shift, abs=1e-4)  # the trapezoidal rule on a thousand nodes
    assert float(found.mean_shift) == pytest.approx(shift)
    assert float(found.stddev_ratio) == pytest.approx(1.0)


@pytest.mark.parametrize("ratio", [0.02, 0.5, 2.0, 30.0])
def test_normals_of_other_widths(ratio: float) -> None:
    found = numeric(normals([0.0], ratio), normals([0.0], 1.0))
    cross = math.sqrt(2.0 * math.log(ratio) * ratio**2 / (ratio**2 - 1.0))
    variation = abs(math.erf(cross / math.sqrt(2.0)) - math.erf(cross / ratio / math.sqrt(2.0)))
    assert float(found.total_variation) == pytest.approx(variation, abs=FINE)
    expected = abs(ratio - 1.0) * math.sqrt(2.0 / math.pi)
    assert float(found.wasserstein) == pytest.approx(expected, rel=1e-3)  # the trapezoidal rule
    assert float(found.stddev_ratio) == pytest.approx(ratio)
    assert found.averages()["relative_wasserstein"] == pytest.approx(expected, rel=1e-3)


def test_weighted_mixtures() -> None:
    p, q = normals([-2.0, 0.5, 7.0], 0.5, [0.2, 0.7, 0.1]), normals([-1.0, 3.0], 2.0, [0.9, 0.1])
    parts = [(0.2, -2.0, 0.5), (0.7, 0.5, 0.5), (0.1, 7.0, 0.5)], [(0.9, -1.0, 2.0), (0.1, 3.0, 2.0)]
    variation, wasserstein = by_quadrature(*parts)
    found = numeric(p, q)
    assert float(found.total_variation) == pytest.approx(variation, abs=10 * FINE)  # five crossings, fewer nodes each
    assert float(found.wasserstein) == pytest.approx(wasserstein, abs=1e-3)
    swapped = numeric(q, p)
    assert float(swapped.total_variation) == pytest.approx(float(found.total_variation))
    assert float(swapped.wasserstein) == pytest.approx(float(found.wasserstein))


def test_many_draws_and_a_draw_that_weighs_next_to_nothing() -> None:
    means = Stream(0, ("agreement",)).normal(3000).double().mul(3.0).tolist()
    draws, normal = normals([*means, 500.0], 1.0, [1.0] * 3000 + [1e-12]), normals([0.0], math.sqrt(10.0))
    found = numeric(draws, normal)
    # 3000 draws of N(0, 3^2) under noise of 1 are nearly N(0, 10); their empirical distribution is off by some 2 %
    assert float(found.total_variation) < 0.03
    assert float(found.wasserstein) < 0.15


def test_equal_means_and_variances_are_not_equal_distributions() -> None:
    """A twin that compares the first two moments alone would see no difference."""
    split, round_ = normals([-2.0, 2.0], 1.0), normals([0.0], math.sqrt(5.0))
    found = numeric(split, round_)
    assert float(found.mean_shift) == pytest.approx(0.0)
    assert float(found.stddev_ratio) == pytest.approx(1.0)
    variation, wasserstein = by_quadrature([(0.5, -2.0, 1.0), (0.5, 2.0, 1.0)], [(1.0, 0.0, math.sqrt(5.0))])
    assert variation > 0.1
    assert float(found.total_variation) == pytest.approx(variation, abs=10 * FINE)  # four crossings
    assert float(found.wasserstein) == pytest.approx(wasserstein, rel=1e-3)


def test_noise_of_each_draw_and_each_input() -> None:
    outputs = torch.tensor([[[0.0], [1.0]], [[3.0], [1.0]]], dtype=torch.float64)  # two draws, two inputs
    scales = torch.tensor([[0.5], [2.0]], dtype=torch.float64)
    p = predictive(LearnedGaussian(), outputs, {"log_scale": scales.log()}, torch.zeros(2))
    q = predictive(Gaussian(), torch.zeros(1, 2, 1, dtype=torch.float64), {}, torch.zeros(1))
    found = numeric(p, q)
    for row, means in enumerate(([0.0, 3.0], [1.0, 1.0])):
        parts = [(0.5, means[0], 0.5), (0.5, means[1], 2.0)]
        variation, wasserstein = by_quadrature(parts, [(1.0, 0.0, 1.0)])
        assert float(found.total_variation[row]) == pytest.approx(variation, abs=10 * FINE)
        assert float(found.wasserstein[row]) == pytest.approx(wasserstein, rel=2e-3)


def test_a_needle_in_a_haystack() -> None:
    """Half of the draws are a thousand times narrower than the others: nodes must go where the mass is."""
    likelihood = HeteroscedasticGaussian()
    raw = torch.zeros(1, 1, 2, dtype=torch.float64)
    wide, narrow = raw.clone(), raw.clone()
    wide[..., 1], narrow[..., 1] = 20.0, -5.0
    p = predictive(likelihood, torch.cat([wide, narrow]), {}, torch.zeros(2))
    q = predictive(likelihood, wide, {}, torch.zeros(1))
    assert float(p.aleatoric) > 100.0
    # half of p is the needle, and next to none of q is there
    assert float(agreement(p, q).total_variation) == pytest.approx(0.5, abs=0.01)  # the needle has a width


def test_counts_by_the_sum_over_them() -> None:
    rates = [2.0, 9.0], [3.5]
    p, q = (
        predictive(Poisson(), torch.tensor(each, dtype=torch.float64).log().view(-1, 1, 1), {}, torch.zeros(len(each)))
        for each in rates
    )
    k = np.arange(200)
    mass = [np.mean([stats.poisson(rate).pmf(k) for rate in each], axis=0) for each in rates]
    found = numeric(p, q)
    assert float(found.total_variation) == pytest.approx(0.5 * np.abs(mass[0] - mass[1]).sum())
    assert float(found.wasserstein) == pytest.approx(np.abs(np.cumsum(mass[0] - mass[1])).sum())


def test_classes() -> None:
    p = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4]], dtype=torch.float64)
    q = torch.tensor([[0.4, 0.3, 0.3], [0.1, 0.4, 0.5]], dtype=torch.float64)
    found = agreement(*(predictive(Categorical(), each.log().unsqueeze(0), {}, torch.zeros(1)) for each in (p, q)))
    assert isinstance(found, ClassAgreement)
    torch.testing.assert_close(found.total_variation, torch.tensor([0.3, 0.1], dtype=torch.float64))
    assert found.same_label.tolist() == [True, False]
    assert found.averages() == pytest.approx({"agreement": 0.5, "total_variation": 0.2})
    assert float(found.total_variation[0]) != pytest.approx(float((p - q).abs().sum(1)[0]))  # the twin without 1/2


def test_the_mixture_is_compared_and_not_the_average_output() -> None:
    """Two sure and contradicting draws are one half; a twin that averages outputs first would agree by luck only."""
    sure = torch.tensor([[[6.0, -6.0]], [[-1.0, 1.0]]], dtype=torch.float64)
    p = predictive(Categorical(), sure, {}, torch.zeros(2))
    twin = predictive(Categorical(), sure.mean(0, keepdim=True), {}, torch.zeros(1))
    even = predictive(Categorical(), torch.zeros(1, 1, 2, dtype=torch.float64), {}, torch.zeros(1))
    probability = float(sure.softmax(-1).mean(0)[0, 0])
    assert float(agreement(p, even).total_variation) == pytest.approx(abs(probability - 0.5))
    assert float(agreement(twin, even).total_variation) > 0.4


def test_yes_or_no() -> None:
    logits = [torch.tensor(values, dtype=torch.float64).logit().view(1, 1, 2) for values in ([0.9, 0.4], [0.6, 0.7])]
    found = agreement(*(predictive(Bernoulli(), each, {}, torch.zeros(1)) for each in logits))
    assert isinstance(found, ClassAgreement)
    torch.testing.assert_close(found.total_variation, torch.tensor([[0.3, 0.3]], dtype=torch.float64))
    assert found.same_label.tolist() == [[True, False]]


def test_a_prediction_agrees_with_itself() -> None:
    means = Stream(1, ("agreement",)).normal(50).tolist()
    found: Agreement = agreement(normals(means), normals(means))
    assert found.averages() == pytest.approx(
        {"wasserstein": 0, "relative_wasserstein": 0, "total_variation": 0, "mean_shift": 0, "stddev_ratio": 1}
    )


def test_some_of_the_inputs() -> None:
    p, q = (predictive(Gaussian(), torch.tensor([[[0.0], [at], [5.0]]]), {}, torch.zeros(1)) for at in (0.0, 2.0))
    found = agreement(p, q)
    assert found.at(torch.tensor([False, True, False])).averages()["wasserstein"] == pytest.approx(2.0, abs=1e-4)
    assert found.at(torch.tensor([0, 2])).averages()["wasserstein"] == pytest.approx(0.0, abs=1e-9)


def test_a_method_that_broke_down_agrees_nowhere() -> None:
    broken = torch.tensor([[[0.0], [torch.nan]]])
    found = agreement(*(predictive(Poisson(), each, {}, torch.zeros(1)) for each in (broken, torch.zeros(1, 2, 1))))
    assert found.total_variation.isnan().squeeze(1).tolist() == [False, True]
    classes = agreement(
        *(
            predictive(Categorical(), each, {}, torch.zeros(1))
            for each in (broken.expand(1, 2, 2), torch.zeros(1, 2, 2))
        )
    )
    assert isinstance(classes, ClassAgreement)
    assert classes.same_label.tolist() == [True, False]


def test_what_cannot_be_compared_is_refused() -> None:
    classes: Tensor = torch.zeros(1, 1, 1)
    with pytest.raises(ValueError, match="predict the same inputs"):
        agreement(normals([0.0]), predictive(Gaussian(), torch.zeros(1, 2, 1), {}, torch.zeros(1)))
    with pytest.raises(TypeError, match="one speaks of numbers, the other of classes"):
        agreement(normals([0.0]), predictive(Bernoulli(), classes, {}, torch.zeros(1)))
