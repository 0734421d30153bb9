"""The full-covariance normal against torch.distributions."""

from __future__ import annotations

import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from credo.core.rng import Stream
from credo.exact import GaussianWeights

MEAN = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
COVARIANCE = torch.tensor([[2.0, 0.9, -0.3], [0.9, 1.0, 0.2], [-0.3, 0.2, 0.5]], dtype=torch.float64)
REJECTION = 1e-4  # chance that a right sampler fails the chi-square test below


def reference() -> MultivariateNormal:
    return MultivariateNormal(MEAN, COVARIANCE)


def other() -> GaussianWeights:
    return GaussianWeights.from_covariance(MEAN * 0.3, COVARIANCE.flip(0, 1) * 1.7)


def test_covariance_precision_and_scales_come_back() -> None:
    q = GaussianWeights.from_covariance(MEAN, COVARIANCE)
    torch.testing.assert_close(q.covariance, COVARIANCE, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(q.precision, torch.linalg.inv(COVARIANCE), rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(q.scale, COVARIANCE.diagonal().sqrt(), rtol=1e-12, atol=0)
    assert bool((q.root.tril(-1) == 0).all())
    assert bool((q.root.diagonal() > 0).all())


def test_density_and_entropy_agree_with_torch() -> None:
    q = GaussianWeights.from_covariance(MEAN, COVARIANCE)
    points = Stream(0).normal(7, 4, 3, dtype=torch.float64) * 2
    torch.testing.assert_close(q.log_prob(points), reference().log_prob(points), rtol=1e-11, atol=1e-11)
    assert q.entropy == pytest.approx(float(reference().entropy()), rel=1e-12)


def test_divergence_agrees_with_torch_and_has_a_direction() -> None:
    q, p = GaussianWeights.from_covariance(MEAN, COVARIANCE), other()
    wanted = float(kl_divergence(reference(), MultivariateNormal(p.mean, p.covariance)))
    assert q.kl(p) == pytest.approx(wanted, rel=1e-11)
    assert p.kl(q) != pytest.approx(wanted, rel=1e-3)  # twin: the arguments swapped
    assert q.kl(q) == pytest.approx(0.0, abs=1e-13)


def chi_square(draws: Tensor) -> float:
    """p-value of the squared Mahalanobis distances of the draws, if they come from N(MEAN, COVARIANCE)."""
    distances = ((draws - MEAN) @ torch.linalg.inv(COVARIANCE) * (draws - MEAN)).sum(1)
    return float(stats.kstest(distances.numpy(), stats.chi2(3).cdf).pvalue)


def test_draws_have_the_right_law() -> None:
    q = GaussianWeights.from_covariance(MEAN, COVARIANCE)
    draws = q.sample(2000, Stream(3))
    assert draws.shape == (2000, 3)
    assert chi_square(draws) > REJECTION
    standard = Stream(3).normal(3, 2000, dtype=torch.float64)
    transposed = q.mean + torch.linalg.solve_triangular(q.root.T, standard, upper=False).T
    assert chi_square(transposed) < REJECTION  # twin: the root transposed
    assert chi_square(q.mean + (q.root @ standard).T) < REJECTION  # twin: precision where the covariance belongs


def test_isotropic_and_diagonal() -> None:
    torch.testing.assert_close(GaussianWeights.isotropic(3, 2.0).covariance, 4 * torch.eye(3, dtype=torch.float64))
    scale = torch.tensor([1.0, 2.0, 0.1], dtype=torch.float64)
    torch.testing.assert_close(GaussianWeights.diagonal(MEAN, scale).scale, scale)


def test_nearly_singular_covariances_keep_their_digits() -> None:
    nearly = torch.tensor([[1.0, 1.0 - 1e-12], [1.0 - 1e-12, 1.0]], dtype=torch.float64)
    q = GaussianWeights.from_covariance(torch.zeros(2, dtype=torch.float64), nearly)
    # the difference of the two weights has the variance 2e-12, of which rounding in the input leaves four digits
    along = q.predict(torch.tensor([[1.0, -1.0]], dtype=torch.float64), 1.0).epistemic
    assert float(along) == pytest.approx(2e-12, rel=1e-3)


@pytest.mark.parametrize(
    ("covariance", "sentence"),
    [
        ([[1.0, 0.5], [0.4, 1.0]], "not symmetric"),
        ([[1.0, 1.0], [1.0, 1.0]], "not positive definite"),
        ([[1.0]], r"covariance has shape \(1, 1\), and mean 2 entries"),
        ([[1.0, float("nan")], [0.0, 1.0]], "covariance has NaN or infinite values"),
        ("no numbers", "covariance cannot be read as numbers"),
    ],
)
def test_bad_covariances_are_refused(covariance: object, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        GaussianWeights.from_covariance(torch.zeros(2), covariance)  # type: ignore[arg-type]


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"scale must be a positive number, got -1\.0"):
        GaussianWeights.isotropic(2, scale=-1.0)
    with pytest.raises(ValueError, match="size must be a whole number of at least 1"):
        GaussianWeights.isotropic(0, scale=1.0)
    with pytest.raises(ValueError, match="one positive standard deviation"):
        GaussianWeights.diagonal(torch.zeros(2), torch.tensor([1.0, 0.0]))
    with pytest.raises(ValueError, match="design has 3 column"):
        GaussianWeights.isotropic(2, 1.0).predict(torch.ones(4, 3), 1.0)
