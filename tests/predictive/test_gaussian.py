"""Predictions from normal outputs: exact for numbers, within a stated error for classes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from credo import Stream
from credo.exact import GaussianWeights, LinearRegression
from credo.likelihoods import Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian, LearnedGaussian
from credo.predictive import LaplaceBridge, Probit, gaussian_predictive, predictive
from credo.predictive.gaussian import OutputNormal

S = 200_000


def normal(*shape: int, name: str) -> Tensor:
    return Stream(0, ("gaussian predictive", name)).normal(*shape, dtype=torch.float64)


def outputs(members: int, examples: int, size: int, spread: float = 1.0) -> OutputNormal:
    root = spread * normal(members, examples, size, size, name="root")
    return OutputNormal(normal(members, examples, size, name="mean"), root @ root.mT)


def test_the_exact_linear_model() -> None:
    """Means and covariances of a linear model in, its exact predictive out."""
    x, y = normal(12, 2, name="x"), normal(12, name="y")
    exact = LinearRegression(x, y, 0.4, GaussianWeights.isotropic(2, 1.3))
    new = normal(5, 2, name="new")
    truth = exact.predict(new)
    variance = torch.einsum("bi,ij,bj->b", new, exact.posterior.covariance, new)
    f = OutputNormal((new @ exact.posterior.mean).view(1, 5, 1), variance.view(1, 5, 1, 1))
    ours = gaussian_predictive(Gaussian(0.4), f, {}, torch.zeros(1))
    torch.testing.assert_close(ours.mean, truth.mean, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.epistemic, truth.epistemic, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.aleatoric, truth.aleatoric, rtol=1e-12, atol=1e-12)
    at = normal(5, name="at")
    torch.testing.assert_close(ours.log_prob(at), truth.log_prob(at).view(5), rtol=1e-12, atol=1e-12)
    for mine, theirs in zip(ours.interval(0.9), truth.interval(0.9), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9)  # a bisection
    twin = gaussian_predictive(Gaussian(0.4), OutputNormal(f.mean, 2.0 * f.covariance), {}, torch.zeros(1))
    assert not torch.allclose(twin.log_prob(at), ours.log_prob(at), rtol=1e-3)


def test_two_targets_share_a_covariance() -> None:
    f = outputs(1, 3, 2)
    params = {"log_scale": torch.tensor([[-0.5, 0.3]], dtype=torch.float64)}
    prediction = gaussian_predictive(LearnedGaussian(), f, params, torch.zeros(1))
    y = normal(3, 2, name="two targets")
    noise = np.diag(np.exp(2 * params["log_scale"][0].numpy()))
    for b in range(3):
        law = stats.multivariate_normal(f.mean[0, b].numpy(), f.covariance[0, b].numpy() + noise)
        assert float(prediction.log_prob(y)[b]) == pytest.approx(law.logpdf(y[b].numpy()), abs=1e-10)
    total = prediction.epistemic + prediction.aleatoric
    torch.testing.assert_close(prediction.variance, total)
    marginal = stats.norm(float(f.mean[0, 1, 0]), math.sqrt(float(total[1, 0])))
    assert float(prediction.entropy[1, 0]) == pytest.approx(marginal.entropy(), abs=1e-6)  # an integral
    assert float(prediction.quantile(0.1)[1, 0]) == pytest.approx(marginal.ppf(0.1), abs=1e-9)


def test_samples_have_the_moments() -> None:
    f = outputs(2, 2, 2, spread=0.7)
    prediction = gaussian_predictive(Gaussian(0.5), f, {}, torch.log(torch.tensor([0.3, 0.7])))
    drawn = prediction.sample(S, seed=3)
    assert drawn.shape == (S, 2, 2)
    error = prediction.stddev / math.sqrt(S)
    assert bool(((drawn.mean(0) - prediction.mean).abs() < 5.0 * error).all())  # 6e-7 for each of 4 numbers
    spread = drawn.var(0) / prediction.variance
    assert bool(((spread - 1.0).abs() < 5.0 * math.sqrt(4.0 / S)).all())  # no kurtosis of these mixtures is above 4
    torch.testing.assert_close(prediction.sample(3, seed=1), prediction.sample(3, seed=1), rtol=0, atol=0)


def monte_carlo(likelihood: Categorical | Bernoulli, f: OutputNormal) -> Tensor:
    """E[p] of each member over drawn logits, (M, B, E)."""
    return likelihood.mean(f.sample(20_000, Stream(5)), {}).mean(0)


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli()], ids=["classes", "yes or no"])
def test_probit_is_near_the_integral(likelihood: Categorical | Bernoulli) -> None:
    f = outputs(2, 40, 3, spread=0.8)
    found = gaussian_predictive(likelihood, f, {}, torch.zeros(2), Probit())
    truth = monte_carlo(likelihood, f).mean(0)
    # the approximation drops the covariance between logits: some 0.04 at this spread; plain means are off by twice that
    assert float((found.probs - truth).abs().mean()) < 0.04
    plain = likelihood.mean(f.mean, {}).mean(0)
    assert float((plain - truth).abs().mean()) > float((found.probs - truth).abs().mean())
    with pytest.raises(ValueError, match="LaplaceBridge"):
        _ = found.mutual_information
    with pytest.raises(ValueError, match="drawn functions"):
        _ = found.epistemic


def test_probit_is_blind_to_what_the_softmax_is_blind_to() -> None:
    """A doubt that all logits share changes nothing; without it the formula is the plain one for logits alike."""
    f = outputs(1, 20, 4, spread=0.8)
    shared = OutputNormal(f.mean + 3.0, f.covariance + 1000.0)
    ours, theirs = (gaussian_predictive(Categorical(), each, {}, torch.zeros(1)).probs for each in (f, shared))
    torch.testing.assert_close(ours, theirs)
    alike = OutputNormal(f.mean, torch.eye(4, dtype=torch.float64).expand(1, 20, 4, 4) * 0.7)
    plain = f.mean - f.mean.mean(-1, keepdim=True)
    expected = (plain / (1 + math.pi / 8 * 0.7) ** 0.5).softmax(-1)[0]
    torch.testing.assert_close(gaussian_predictive(Categorical(), alike, {}, torch.zeros(1)).probs, expected)


def test_probit_of_one_logit_in_closed_form() -> None:
    f = OutputNormal(torch.tensor([[[1.3]]], dtype=torch.float64), torch.tensor([[[[2.0]]]], dtype=torch.float64))
    found = float(gaussian_predictive(Bernoulli(), f, {}, torch.zeros(1)).probs)
    assert found == pytest.approx(1 / (1 + math.exp(-1.3 / math.sqrt(1 + math.pi / 4))), abs=1e-12)


def test_the_bridge_is_a_dirichlet() -> None:
    f = outputs(1, 30, 3, spread=0.6)
    bridge = LaplaceBridge()
    found = gaussian_predictive(Categorical(), f, {}, torch.zeros(1), bridge)
    alpha = bridge.log_concentration(Categorical(), f)[0].exp().numpy()
    assert (alpha > 0).all()
    for b in range(3):
        law = stats.dirichlet(alpha[b])
        np.testing.assert_allclose(found.probs[b], law.mean(), rtol=1e-10)
        drawn = law.rvs(20_000, random_state=b)
        entropies = stats.entropy(drawn, axis=1)
        error = entropies.std() / math.sqrt(len(entropies))
        assert abs(float(found.expected_entropy[b]) - entropies.mean()) < 5 * error  # 6e-7 for each of 3 numbers
    assert bool((found.mutual_information >= 0).all())


def test_the_bridge_goes_back_to_the_dirichlet_it_came_from() -> None:
    """The published map from a Dirichlet to the normal over its logits, and back; a common shift changes nothing."""
    alpha = normal(1, 6, 4, name="alpha").exp()
    k = alpha.shape[-1]
    mean = alpha.log() - alpha.log().mean(-1, keepdim=True)
    inverse = alpha.reciprocal()
    pairs = inverse.unsqueeze(-1) + inverse.unsqueeze(-2) - inverse.sum(-1)[..., None, None] / k
    covariance = torch.diag_embed(inverse) - pairs / k
    f, bridge = OutputNormal(mean, covariance), LaplaceBridge()
    torch.testing.assert_close(bridge.log_concentration(Categorical(), f), alpha.log(), rtol=1e-8, atol=1e-8)
    found = gaussian_predictive(Categorical(), f, {}, torch.zeros(1), bridge)
    torch.testing.assert_close(found.probs, (alpha / alpha.sum(-1, keepdim=True))[0], rtol=1e-8, atol=1e-8)
    common = OutputNormal(mean + 7.0, covariance + 3.0)
    torch.testing.assert_close(bridge.log_concentration(Categorical(), common), alpha.log(), rtol=1e-8, atol=1e-8)
    twin = OutputNormal(mean, 2.0 * covariance)
    assert not torch.allclose(bridge.log_concentration(Categorical(), twin), alpha.log(), rtol=1e-3)


def test_sure_logits_stay_finite() -> None:
    f = OutputNormal(torch.tensor([[[200.0, -200.0, 0.0]]]), torch.eye(3).view(1, 1, 3, 3) * 1e-6)
    for approximation in (Probit(), LaplaceBridge()):
        found = gaussian_predictive(Categorical(), f, {}, torch.zeros(1), approximation)
        assert bool(found.probs.isfinite().all())
        assert int(found.label) == 0
        assert float(found.entropy) < 1e-3


def test_refusals() -> None:
    f = outputs(1, 2, 2)
    with pytest.raises(TypeError, match="draw functions instead"):
        gaussian_predictive(HeteroscedasticGaussian(), f, {}, torch.zeros(1))
    with pytest.raises(ValueError, match="Probit"):
        gaussian_predictive(Bernoulli(), f, {}, torch.zeros(1), LaplaceBridge())
    with pytest.raises(ValueError, match="rows"):
        gaussian_predictive(Gaussian(), f, {}, torch.zeros(1)).log_prob(torch.zeros(3, 2))


def test_short_words_for_a_person() -> None:
    assert "1 draw of 5 x 1" in repr(predictive(Gaussian(), torch.zeros(1, 5, 1), {}, torch.zeros(1)))
    assert repr(predictive(Gaussian(), torch.zeros(7, 5, 1), {}, torch.zeros(7))) == (
        "NumericMixture(Gaussian(scale=1.0), 7 draws of 5 x 1 outputs)"
    )
    assert "2 normals" in repr(gaussian_predictive(Gaussian(), outputs(2, 3, 1), {}, torch.zeros(2)))
