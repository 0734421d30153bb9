"""Curvature of likelihoods and priors, and the tails of distribution functions, in closed form."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from credo import Stream, likelihoods, priors
from credo.core.trees import ParameterInfo
from credo.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    HeteroscedasticStudentT,
    LearnedGaussian,
    Likelihood,
    LogNormal,
    NegativeBinomial,
    Poisson,
    SharedGaussian,
    Standardized,
)
from credo.predictive import predictive

B = 4
CASES: dict[str, tuple[Likelihood, int]] = {
    "Gaussian": (Gaussian(scale=0.3), 2),
    "LearnedGaussian": (LearnedGaussian(), 2),
    "SharedGaussian": (SharedGaussian(), 2),
    "HeteroscedasticGaussian": (HeteroscedasticGaussian(floor=0.1), 4),
    "Standardized": (Standardized(HeteroscedasticGaussian(floor=0.1), (5.0, -1.0), (7.0, 0.5)), 4),
    "Categorical": (Categorical(), 3),
    "Bernoulli": (Bernoulli(), 2),
    "HeteroscedasticStudentT": (HeteroscedasticStudentT(floor=0.1), 4),
    "LogNormal": (LogNormal(floor=0.1, loc=1.0, scale=0.5), 4),
    "NegativeBinomial": (NegativeBinomial(floor=0.1), 4),
    "Poisson": (Poisson(), 2),
}
every_case = pytest.mark.parametrize(("likelihood", "size"), CASES.values(), ids=CASES.keys())


def normal(*shape: int, name: str) -> Tensor:
    return Stream(0, ("curvature", name)).normal(*shape, dtype=torch.float64)


def inputs(likelihood: Likelihood, size: int, *front: int) -> tuple[Tensor, dict[str, Tensor]]:
    own = {n: normal(*front, *t.shape, name=n) * 0.5 for n, t in likelihood.parameters(size).items()}
    return normal(*front, B, size, name="outputs"), own


@every_case
def test_the_hessian_is_that_of_the_log_density(likelihood: Likelihood, size: int) -> None:
    outputs, params = inputs(likelihood, size, 2)
    y = likelihood.sample(outputs[0], {n: t[0] for n, t in params.items()}, torch.Generator().manual_seed(1))
    found = likelihood.hessian(outputs, y, params)
    for m in range(2):
        for b in range(B):
            own = {n: t[m] for n, t in params.items()}

            def log_prob(f: Tensor, b: int = b, own: dict[str, Tensor] = own) -> Tensor:
                return likelihood.log_prob(f.unsqueeze(0), y[b : b + 1], own).sum()

            truth = -torch.autograd.functional.hessian(log_prob, outputs[m, b])
            torch.testing.assert_close(found[m, b], truth, rtol=1e-10, atol=1e-10)


@every_case
def test_fisher_is_the_expected_hessian(likelihood: Likelihood, size: int) -> None:
    """Exactly the Hessian where it does not depend on y; otherwise its mean over drawn targets, within 5 errors."""
    outputs, params = inputs(likelihood, size)
    fisher = likelihood.fisher(outputs, params)
    torch.testing.assert_close(fisher, fisher.mT)
    count = 20_000
    drawn = likelihood.sample(outputs.repeat(count, 1), params, torch.Generator().manual_seed(2))
    each = likelihood.hessian(outputs.repeat(count, 1), drawn, params).view(count, B, size, size)
    error = each.std(0) / math.sqrt(count)
    # 5 standard errors: 6e-7 for each of some 100 entries
    assert bool(((each.mean(0) - fisher).abs() <= 5.0 * error + 1e-10).all())
    twin = fisher * 1.1
    assert not bool(((each.mean(0) - twin).abs() <= 5.0 * error + 1e-10).all())


def test_a_likelihood_that_does_not_say_its_curvature() -> None:
    class Odd(Gaussian):
        def fisher(self, outputs: Tensor, params: dict[str, Tensor]) -> Tensor:
            return Likelihood.fisher(self, outputs, params)

    with pytest.raises(ValueError, match="give it a method fisher"):
        Odd().fisher(torch.zeros(2, 1), {})


LAYOUT = {"a": ParameterInfo((3, 4), 4), "b": ParameterInfo((3,), 1)}


@pytest.mark.parametrize("fan_in", [False, True])
@pytest.mark.parametrize("prior", [priors.Normal(0.7), priors.StudentT(3.5, 0.7), priors.ScaleMixture(0.3, 1.5, 0.2)])
def test_curvature_of_priors(prior: priors.ElementwisePrior, fan_in: bool) -> None:
    prior = replace(prior, fan_in=fan_in)  # type: ignore[type-var]
    w = {name: normal(2, *info.shape, name=name) for name, info in LAYOUT.items()}
    found = prior.curvature(w, LAYOUT)
    for name in LAYOUT:

        def each(t: Tensor, name: str = name) -> Tensor:
            return prior.log_prob_each({name: t}, LAYOUT)[name]

        step = 1e-4
        truth = -(each(w[name] + step) - 2 * each(w[name]) + each(w[name] - step)) / step**2
        torch.testing.assert_close(found[name], truth, rtol=1e-5, atol=1e-5)  # second differences keep 6 digits


def test_a_prior_with_a_kink_has_no_curvature() -> None:
    with pytest.raises(ValueError, match="no curvature"):
        priors.Laplace().curvature({"b": torch.zeros(1, 3)}, LAYOUT)


SCALE = 2.0


@pytest.mark.parametrize("z", [-12.0, -6.0, -3.0, 0.0, 3.0, 6.0, 12.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_tails_keep_their_digits(z: float, dtype: torch.dtype) -> None:
    prediction = predictive(Gaussian(SCALE), torch.zeros(1, 1, 1, dtype=dtype), {}, torch.zeros(1))
    rtol = 1e-4 if dtype is torch.float32 else 1e-12  # the exponent z^2 / 2 = 72 magnifies rounding of z
    y = torch.tensor([z * SCALE], dtype=dtype)
    np.testing.assert_allclose(float(prediction.cdf(y)), stats.norm.cdf(z), rtol=rtol)
    np.testing.assert_allclose(float(prediction.survival(y)), stats.norm.sf(z), rtol=rtol)


@pytest.mark.parametrize("tail", [1e-3, 1e-7, 1e-12, 1e-20])
def test_quantiles_in_both_tails(tail: float) -> None:
    """In float32, for a mixture of two normals that lie on each other, so that scipy knows the answer."""
    draws = torch.full((2, 1, 1), 5.0)
    for likelihood, params, scale in (
        (Gaussian(SCALE), {}, SCALE),
        (LearnedGaussian(), {"log_scale": torch.full((2, 1), math.log(SCALE))}, SCALE),
    ):
        prediction = predictive(likelihood, draws, params, torch.zeros(2))
        np.testing.assert_allclose(float(prediction.quantile(tail)), 5.0 + scale * stats.norm.ppf(tail), rtol=1e-5)
        if tail >= 1e-12:  # nearer to one than that a level has no digits left
            lower, upper = prediction.interval(1.0 - 2.0 * tail)
            truth = scale * stats.norm.isf(0.5 * (1.0 - (1.0 - 2.0 * tail)))
            np.testing.assert_allclose(float(upper) - 5.0, truth, rtol=1e-5)
            np.testing.assert_allclose(5.0 - float(lower), truth, rtol=1e-5)


def test_the_tails_of_counts() -> None:
    prediction = predictive(Poisson(), torch.tensor([[[math.log(40.0)]]], dtype=torch.float64), {}, torch.zeros(1))
    for count in (3.0, 40.0, 120.0):
        y = torch.tensor([count], dtype=torch.float64)
        np.testing.assert_allclose(float(prediction.survival(y)), stats.poisson.sf(count, 40.0), rtol=1e-9)
    assert float(prediction.quantile(1.0 - 1e-9)) == stats.poisson.isf(1e-9, 40.0)


def test_one_minus_the_cdf_is_rejected() -> None:
    """The broken twin: in float32 the upper tail is rounding."""
    prediction = predictive(Gaussian(), torch.zeros(1, 1, 1), {}, torch.zeros(1))
    twin = 1.0 - float(prediction.cdf(torch.tensor([6.0])))
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(twin, stats.norm.sf(6.0), rtol=1e-4)


def test_a_likelihood_of_neither_kind_is_refused() -> None:
    class Bare(Likelihood):
        check_targets = Gaussian.check_targets
        log_prob = mean = variance = sample = entropy = Gaussian.mean

    with pytest.raises(TypeError, match="derive it from one of them"):
        predictive(Bare(), torch.zeros(1, 1, 1), {}, torch.zeros(1))
    assert likelihoods.Categorical().exclusive
    assert not likelihoods.Bernoulli().exclusive
