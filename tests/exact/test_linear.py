"""Bayesian linear regression against joint normals, quadrature and itself, with twins that must be rejected."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import integrate, stats
from torch import Tensor
from torch.distributions import MultivariateNormal

from credo.core.rng import Stream
from credo.exact import GaussianWeights, LinearRegression, with_intercept

F64 = torch.float64
COVARIANCE = torch.tensor([[4.0, -0.7], [-0.7, 9.0]], dtype=F64)


def line(examples: int = 12, seed: int = 0) -> LinearRegression:
    """The asymmetric problem: a correlated prior off zero, x off center, so that a swapped sign or axis shows."""
    x = 1.0 + 2.0 * Stream(seed, ("x",)).normal(examples, dtype=F64)
    y = 2.0 * x - 1.0 + 3.0 * Stream(seed, ("y",)).normal(examples, dtype=F64)
    return LinearRegression(
        with_intercept(x), y, 3.0, GaussianWeights.from_covariance(torch.tensor([0.5, -1.0]), COVARIANCE)
    )


def joint(model: LinearRegression) -> tuple[Tensor, Tensor, Tensor]:
    """Mean of y, covariance of y, covariance of w and y, from the joint normal of w and y."""
    mean = model.design @ model.prior.mean
    cross = COVARIANCE @ model.design.T
    noise = model.noise_scale**2 * torch.eye(len(model.y), dtype=F64)
    return mean, model.design @ cross + noise, cross


def check_posterior(model: LinearRegression, mean: Tensor, covariance: Tensor) -> None:
    y_mean, y_covariance, cross = joint(model)
    gain = torch.linalg.solve(y_covariance, cross.T).T
    torch.testing.assert_close(mean, model.prior.mean + gain @ (model.y - y_mean), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(covariance, COVARIANCE - gain @ cross.T, rtol=1e-10, atol=1e-10)


def test_the_posterior_is_the_conditional_of_the_joint_normal() -> None:
    model = line()
    q = model.posterior
    check_posterior(model, q.mean, q.covariance)
    for mean, covariance in (
        (q.mean, q.precision),  # twin: precision where the covariance belongs
        (q.mean, torch.diag(1 / q.precision.diagonal())),  # twin: mean field
        (model.maximum_likelihood, q.covariance),  # twin: no prior
    ):
        with pytest.raises(AssertionError):
            check_posterior(model, mean, covariance)


def test_the_noise_scale_is_a_standard_deviation() -> None:
    model = line()
    wrong = LinearRegression(model.design, model.y, model.noise_scale**2, model.prior)  # twin: variance for scale
    with pytest.raises(AssertionError):
        check_posterior(model, wrong.posterior.mean, wrong.posterior.covariance)


def check_evidence(model: LinearRegression, log_evidence: float) -> None:
    y_mean, y_covariance, _ = joint(model)
    assert log_evidence == pytest.approx(float(MultivariateNormal(y_mean, y_covariance).log_prob(model.y)), rel=1e-11)


def test_the_evidence_is_the_density_of_y() -> None:
    model = line()
    check_evidence(model, model.log_evidence)
    with pytest.raises(AssertionError):  # twin: without the determinants
        check_evidence(model, model.log_evidence - model.prior.log_det_root + model.posterior.log_det_root)
    with pytest.raises(AssertionError):  # twin: the likelihood at the mean
        check_evidence(model, float(model.log_likelihood(model.posterior.mean)))


def test_the_evidence_agrees_with_quadrature_in_one_dimension() -> None:
    x, y = torch.tensor([[0.5], [1.0], [-2.0]], dtype=F64), torch.tensor([1.0, 0.3, -1.5])
    model = LinearRegression(x, y, 0.7, GaussianWeights.isotropic(1, 2.0))

    def integrand(w: float) -> float:
        density = stats.norm(0, 2).pdf(w)
        return float(density * stats.norm(x[:, 0].numpy() * w, 0.7).pdf(y.double().numpy()).prod())

    total, _ = integrate.quad(integrand, -20, 20, points=[0.0], epsabs=1e-13)
    assert model.log_evidence == pytest.approx(math.log(total), abs=1e-8)  # the error that quad states


def test_evidence_and_moments_agree_with_brute_force_in_two_dimensions() -> None:
    model = line()
    center, scale = model.posterior.mean, model.posterior.scale
    steps = torch.linspace(-9, 9, 301, dtype=F64)
    a, b = center[0] + steps * scale[0], center[1] + steps * scale[1]
    points = torch.cartesian_prod(a, b)
    logs = model.log_joint(points)
    cell = float((a[1] - a[0]) * (b[1] - b[0]))
    # the trapezoidal rule is exact to rounding for a normal density with so fine a step
    assert float(torch.logsumexp(logs, 0)) + math.log(cell) == pytest.approx(model.log_evidence, abs=1e-10)
    weights = torch.softmax(logs, 0)
    mean = weights @ points
    torch.testing.assert_close(mean, center, rtol=1e-10, atol=1e-10)
    covariance = (points - mean).T @ (weights.unsqueeze(1) * (points - mean))
    torch.testing.assert_close(covariance, model.posterior.covariance, rtol=1e-10, atol=1e-10)


def test_bayes_rule_holds_at_every_point() -> None:
    model = line()
    points = Stream(4).normal(6, 3, 2, dtype=F64) * 3
    wanted = model.log_joint(points) - model.log_evidence
    torch.testing.assert_close(model.posterior.log_prob(points), wanted, rtol=1e-11, atol=1e-11)


def check_predictive(model: LinearRegression, design: Tensor, mean: Tensor, variance: Tensor) -> None:
    """p(y* | y) from the joint normal of y* and y, which knows nothing of weights."""
    y_mean, y_covariance, cross = joint(model)
    shared = design @ cross
    gain = torch.linalg.solve(y_covariance, shared.T).T
    wanted = design @ model.prior.mean + gain @ (model.y - y_mean)
    spread = (design @ COVARIANCE * design).sum(1) - (gain * shared).sum(1) + model.noise_scale**2
    torch.testing.assert_close(mean.squeeze(1), wanted, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(variance.squeeze(1), spread, rtol=1e-10, atol=1e-10)


def test_the_predictive_is_the_conditional_of_the_joint_normal() -> None:
    model, design = line(), with_intercept(torch.linspace(-10, 10, 7, dtype=F64))
    prediction = model.predict(design)
    assert prediction.mean.shape == prediction.epistemic.shape == prediction.aleatoric.shape == (7, 1)
    check_predictive(model, design, prediction.mean, prediction.variance)
    at_best = (design @ model.maximum_likelihood).unsqueeze(1)
    for mean, variance in (
        (prediction.mean, prediction.epistemic),  # twin: without the noise
        (prediction.mean, prediction.aleatoric),  # twin: one fit and its noise
        (at_best, prediction.variance),  # twin: around the maximum-likelihood line
    ):
        with pytest.raises(AssertionError):
            check_predictive(model, design, mean, variance)


def test_interval_and_density_of_the_predictive_agree_with_scipy() -> None:
    prediction = line().predict(with_intercept([-4.0, 0.0, 7.0]))
    reference = stats.norm(prediction.mean.numpy(), prediction.stddev.numpy())
    lower, upper = prediction.interval(0.9)
    torch.testing.assert_close(lower, torch.from_numpy(reference.ppf(0.05)), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(upper, torch.from_numpy(reference.ppf(0.95)), rtol=1e-12, atol=1e-12)
    y = torch.tensor([1.0, 2.0, 3.0], dtype=F64)
    wanted = torch.from_numpy(reference.logpdf(y.unsqueeze(1).numpy())).squeeze(1)
    torch.testing.assert_close(prediction.log_prob(y), wanted, rtol=1e-12, atol=1e-12)


def test_the_predictive_is_wider_away_from_the_data() -> None:
    model = line()
    x = torch.linspace(0, 40, 30, dtype=F64) + model.design[:, 0].mean()
    epistemic = model.predict(with_intercept(x)).epistemic.squeeze(1)
    assert bool((epistemic.diff()[3:] > 0).all())


def test_one_example_after_another_equals_all_at_once() -> None:
    whole = line()
    part = LinearRegression(whole.design[:1], whole.y[:1], whole.noise_scale, whole.prior)
    evidence = part.log_evidence
    for n in range(1, len(whole.y)):
        part = part.update(whole.design[n : n + 1], whole.y[n : n + 1])
        evidence += part.log_evidence
    torch.testing.assert_close(part.posterior.mean, whole.posterior.mean, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(part.posterior.root, whole.posterior.root, rtol=1e-11, atol=1e-11)
    assert evidence == pytest.approx(whole.log_evidence, rel=1e-11)


def test_the_posterior_tightens_with_data() -> None:
    entropies = [line(n).posterior.entropy for n in (1, 2, 4, 8, 16, 32)]
    assert entropies == sorted(entropies, reverse=True)
    assert entropies[0] < line(1).prior.entropy


def check_mean_field(model: LinearRegression, q: GaussianWeights) -> None:
    """q is the best of the factorized normals: no small change of a mean or a scale raises the ELBO."""
    best = model.elbo(q)
    assert model.log_evidence - best == pytest.approx(model.mean_field_gap, abs=1e-10)
    for k in range(q.size):
        unit = torch.eye(q.size, dtype=F64)[k]
        for change in (-0.03, 0.03):
            assert model.elbo(GaussianWeights.diagonal(q.mean + change * unit, q.scale)) < best
            assert model.elbo(GaussianWeights.diagonal(q.mean, q.scale * (1 + change * unit))) < best


def test_mean_field_is_the_best_factorized_normal_with_the_known_gap() -> None:
    model = line()
    q = model.mean_field
    torch.testing.assert_close(q.scale**-2, model.posterior.precision.diagonal(), rtol=1e-12, atol=0)
    assert model.mean_field_gap == pytest.approx(q.kl(model.posterior), rel=1e-10)
    assert model.mean_field_gap > 0.01
    check_mean_field(model, q)
    with pytest.raises(AssertionError):  # twin: the marginal variances
        check_mean_field(model, GaussianWeights.diagonal(q.mean, model.posterior.scale))


def test_the_bound_is_tight_at_the_posterior_and_only_there() -> None:
    model = line()
    assert model.elbo(model.posterior) == pytest.approx(model.log_evidence, abs=1e-10)
    assert model.elbo(model.prior) < model.log_evidence - 0.1


def test_the_gap_closes_when_the_columns_are_orthogonal() -> None:
    design = with_intercept([-1.0, 0.0, 1.0])
    model = LinearRegression(design, [1.0, 2.0, 2.0], 0.5, GaussianWeights.isotropic(2, 1.0))  # type: ignore[arg-type]
    assert model.mean_field_gap == pytest.approx(0.0, abs=1e-12)
    torch.testing.assert_close(model.mean_field.scale, model.posterior.scale)


def test_mean_field_is_too_sure_about_the_sum_of_correlated_weights() -> None:
    model = line()
    design = with_intercept([5.0])
    wide = model.predict(design).epistemic
    assert float(model.mean_field.predict(design, model.noise_scale).epistemic) != pytest.approx(float(wide), rel=0.05)
    assert bool((model.mean_field.scale < model.posterior.scale).all())


def test_the_map_is_the_maximum_of_the_joint() -> None:
    model = line()
    w = model.map_weights.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model.log_joint(w), w)
    torch.testing.assert_close(gradient, torch.zeros(2, dtype=F64), rtol=0, atol=1e-11)
    w = model.maximum_likelihood.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model.log_likelihood(w), w)
    torch.testing.assert_close(gradient, torch.zeros(2, dtype=F64), rtol=0, atol=1e-11)


def test_a_wide_prior_leads_to_maximum_likelihood() -> None:
    model = line()
    wide = LinearRegression(model.design, model.y, model.noise_scale, GaussianWeights.isotropic(2, 1e7))
    torch.testing.assert_close(wide.posterior.mean, model.maximum_likelihood, rtol=1e-9, atol=1e-9)


def test_an_ill_conditioned_design_keeps_its_digits() -> None:
    """Powers up to the tenth: a condition number of 2e7, which the normal equations square."""
    x = torch.linspace(0, 1, 40, dtype=F64)
    design = torch.stack([x**k for k in range(11)], dim=1)
    truth = torch.linspace(-1, 1, 11, dtype=F64)
    model = LinearRegression(design, design @ truth, 1e-6, GaussianWeights.isotropic(11, 1e4))
    torch.testing.assert_close(model.maximum_likelihood, truth, rtol=0, atol=1e-8)
    torch.testing.assert_close(model.predict(design).mean.squeeze(1), design @ truth, rtol=0, atol=1e-12)
    twin = torch.linalg.solve(design.T @ design, design.T @ design @ truth)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(twin, truth, rtol=0, atol=1e-8)


def test_more_weights_than_examples() -> None:
    design = Stream(9).normal(3, 6, dtype=F64)
    model = LinearRegression(design, torch.tensor([1.0, -1.0, 0.5]), 0.1, GaussianWeights.isotropic(6, 2.0))
    wanted = torch.linalg.inv(torch.eye(6, dtype=F64) / 4 + design.T @ design / 0.01)
    torch.testing.assert_close(model.posterior.covariance, wanted, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="6 weights are not determined by 3 example"):
        _ = model.maximum_likelihood


def test_a_singular_design_is_turned_into_advice() -> None:
    x = torch.linspace(-1, 1, 9, dtype=F64)
    design = with_intercept(torch.stack([x, 2 * x + 1], dim=1))
    fine = LinearRegression(design, x, 1.0, GaussianWeights.isotropic(3, 1.0))
    assert bool(torch.isfinite(fine.posterior.covariance).all())
    with pytest.raises(ValueError, match=r"column 2 of the design is a combination .* use the posterior"):
        _ = fine.maximum_likelihood
    with pytest.raises(ValueError, match=r"column 2 of the design is a combination .* give a narrower prior"):
        _ = LinearRegression(design, x, 1.0, GaussianWeights.isotropic(3, 1e14)).posterior


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((torch.ones(3, 2), torch.ones(4), 1.0), "design has 3 rows and y has 4"),
        ((torch.ones(3, 3), torch.ones(3), 1.0), r"design has 3 column\(s\) and the prior 2 weight"),
        ((torch.ones(3), torch.ones(3), 1.0), r"design has shape \(3,\): it must be \(N, P\)"),
        ((torch.ones(3, 2), torch.ones(3, 2), 1.0), r"y has shape \(3, 2\): it must be \(N,\) or \(N, 1\)"),
        ((torch.ones(3, 2), torch.ones(3), 0.0), "noise_scale must be a positive number, got 0.0"),
        ((torch.ones(3, 2), torch.full((3,), torch.nan), 1.0), "y has NaN or infinite values"),
        (("abc", torch.ones(3), 1.0), "design cannot be read as numbers"),
    ],
)
def test_bad_input_is_refused(arguments: tuple[object, ...], sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        LinearRegression(*arguments, GaussianWeights.isotropic(2, 1.0))  # type: ignore[arg-type]


def test_targets_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="y has 2 rows and the prediction 1"):
        line().predict(with_intercept([0.0])).log_prob(torch.zeros(2))
