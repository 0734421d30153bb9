"""Predictions from normal outputs, without draws: exact for numbers, approximate for classes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params
from credo.likelihoods import (
    Bernoulli,
    Categorical,
    ClassLikelihood,
    Gaussian,
    LearnedGaussian,
    Likelihood,
    SharedGaussian,
    Standardized,
)
from credo.likelihoods.gaussian import MarginalGaussian
from credo.predictive.base import Predictive
from credo.predictive.classes import ClassPredictive
from credo.predictive.numbers import NumericPredictive

_LARGE = 60.0
"""A log concentration at which a Dirichlet distribution is a point."""


@dataclass(frozen=True, eq=False)
class OutputNormal:
    """Outputs that are normal, f(x_b) ~ N(mean_b, covariance_b), or an equal mixture of M such normals.

    Attributes:
        mean: (M, B, E).
        covariance: of the outputs of each input, (M, B, E, E); or their variances alone, (M, B, E), where nothing
            else is asked for: for classes those around the average of the logits.
        joint: covariance of the outputs of each two inputs, Cov(f(x_a), f(x_b)), (M, B, B, E, E); None where nobody
            has computed it.
    """

    mean: Tensor  # (M, B, E)
    covariance: Tensor  # (M, B, E, E), or (M, B, E)
    joint: Tensor | None = None  # (M, B, B, E, E)

    @property
    def variance(self) -> Tensor:
        """Of each output, (M, B, E)."""
        alone = self.covariance.ndim == self.mean.ndim
        return self.covariance if alone else self.covariance.diagonal(dim1=-2, dim2=-1)

    @property
    def contrast_variance(self) -> Tensor:
        """Of each of K outputs around their average, (P C P)_kk K / (K - 1), (M, B, K)."""
        if self.covariance.ndim == self.mean.ndim:
            return self.covariance
        return contrast_variance(self.covariance)

    def sample(self, count: int, stream: Stream) -> Tensor:
        """`count` draws for each member, (count, M, B, E); examples are independent of each other."""
        values, vectors = torch.linalg.eigh(self.covariance)
        generator = stream.generator(self.mean.device)
        noise = torch.randn(
            (count, *self.mean.shape), generator=generator, dtype=self.mean.dtype, device=self.mean.device
        )
        return self.mean + (vectors @ (values.clamp_min(0.0).sqrt() * noise).unsqueeze(-1)).squeeze(-1)


@dataclass(frozen=True, eq=False, repr=False)
class GaussianPredictive(NumericPredictive):
    """Normal outputs with normal noise: y ~ N(mean, covariance + noise^2), exact, or an equal mixture of M of them.

    In the place of drawn functions stand the M normals: `draws` are their means, (M, B, D).
    """

    outputs: OutputNormal  # the distribution of the network's outputs
    noise: Tensor  # variance of the observation noise, (M, B, D)

    def __repr__(self) -> str:
        return _shown(self)

    @cached_property
    def epistemic(self) -> Tensor:
        """Variance of the outputs: of the normals themselves, and between their means, (B, D)."""
        apart = self.draws - self.draws[0]
        return self.average(self.outputs.variance) + self.average((apart - self.average(apart)).square())

    @cached_property
    def aleatoric(self) -> Tensor:
        return self.average(self.noise)

    @cached_property
    def expected_entropy(self) -> Tensor:
        """Entropy of the noise, (B, D)."""
        return self.average(0.5 * (2.0 * math.pi * math.e * self.noise).log())

    def log_prob(self, y: Tensor) -> Tensor:
        """log N(y_b; mean_b, covariance_b + noise_b) of each example, (B,), of its D targets together."""
        total = self.outputs.covariance + torch.diag_embed(self.noise)
        normal = torch.distributions.MultivariateNormal(self.draws, total, validate_args=False)
        return self._mixed(normal.log_prob(self._targets(y)))  # type: ignore[no-untyped-call]

    def joint_log_prob(self, y: Tensor, groups: Tensor | None = None) -> Tensor:
        """log N(y; mean, covariance + noise) of all examples together, by the covariance between inputs."""
        targets, numbers = self._targets(y).double(), self._groups(groups)
        each = [self._joint(targets, torch.nonzero(numbers == g)[:, 0]) for g in range(int(numbers.max()) + 1)]
        return each[0] if groups is None else torch.stack(each)

    def _joint(self, y: Tensor, rows: Tensor) -> Tensor:
        """Of these examples."""
        noise = self.noise[:, rows].double().flatten(1)  # (M, B D)
        total = _among(self.outputs, rows).double() + torch.diag_embed(noise)
        mean = self.draws[:, rows].double().flatten(1)
        normal = torch.distributions.MultivariateNormal(mean, total, validate_args=False)
        return self._mixed(normal.log_prob(y[rows].flatten()))  # type: ignore[no-untyped-call]

    def sample(self, count: int, seed: int = 0) -> Tensor:
        """`count` targets for each input, (count, B, D); inputs are independent of each other."""
        stream = Stream(seed, ("predictive sample",))
        chosen, each = self._chosen(count, stream), torch.arange(count)
        outputs = self.outputs.sample(count, stream.child("outputs"))[each, chosen]
        generator = stream.child("noise").generator(outputs.device)
        noise = torch.randn(outputs.shape, generator=generator, dtype=outputs.dtype, device=outputs.device)
        return outputs + self.noise[chosen].sqrt() * noise


def _among(outputs: OutputNormal, rows: Tensor) -> Tensor:
    """Covariance of all outputs of these inputs, (M, B E, B E)."""
    if len(rows) == 1:
        return outputs.covariance[:, rows[0]]
    if outputs.joint is None:
        raise ValueError(JOINT)
    blocks = outputs.joint[:, rows][:, :, rows]  # (M, B, B, E, E)
    return blocks.transpose(2, 3).flatten(3, 4).flatten(1, 2)


JOINT = (
    "normals over the outputs of single inputs do not say how inputs move together, so they have no joint probability: "
    "predict by drawn functions"
)


class Approximation(ABC):
    """How class probabilities follow from normal logits."""

    @abstractmethod
    def probs(self, likelihood: ClassLikelihood, outputs: OutputNormal) -> Tensor:
        """E[p(y | f)] of each member, (M, B, E)."""

    def expected_entropy(self, likelihood: ClassLikelihood, outputs: OutputNormal) -> Tensor:
        """E[entropy of p(y | f)] of each member, where the approximation knows it."""
        raise ValueError(
            f"{type(self).__name__} gives probabilities and no distribution over them, so the doubt cannot be split: "
            "use LaplaceBridge() or drawn functions for expected_entropy and mutual_information"
        )


@dataclass(frozen=True)
class Probit(Approximation):
    """softmax(m_k / sqrt(1 + pi/8 v_k)), and sigmoid likewise: the logits are damped by their own doubt.

    For yes or no v = C_kk. Of K classes the logits are taken around their average, to which the softmax is blind, and
    in whose direction no data reduce the doubt: v_k = (P C P)_kk K / (K - 1), which is C_kk for independent logits
    alike.

    Reference: D. J. C. MacKay, "The evidence framework applied to classification networks", 1992; for more than two
        classes M. N. Gibbs, "Bayesian Gaussian processes for regression and classification", 1997.
    """

    def probs(self, likelihood: ClassLikelihood, outputs: OutputNormal) -> Tensor:
        if not likelihood.exclusive:
            return (outputs.mean / (1.0 + math.pi / 8.0 * outputs.variance).sqrt()).sigmoid()
        mean = outputs.mean - outputs.mean.mean(-1, keepdim=True)
        return (mean / (1.0 + math.pi / 8.0 * outputs.contrast_variance).sqrt()).softmax(-1)


@dataclass(frozen=True)
class LaplaceBridge(Approximation):
    """A Dirichlet distribution over the class probabilities that fits the normal over logits.

    alpha_k = (1 - 2/K + exp(m_k) / K^2 sum_l exp(-m_l)) / C_kk,   p_k = alpha_k / sum_l alpha_l

    with m and C first projected to logits that sum to zero, which changes no probability.

    Reference: M. Hobbhahn, A. Kristiadi, P. Hennig, "Fast predictive uncertainty for classification with Bayesian deep
        networks", 2022, https://arxiv.org/abs/2003.01227
    """

    def log_concentration(self, likelihood: ClassLikelihood, outputs: OutputNormal) -> Tensor:
        """log alpha, (M, B, K): exp(m) overflows for sure predictions."""
        if not likelihood.exclusive:
            raise ValueError("the Laplace bridge is for one of K classes; for yes-or-no targets use Probit()")
        mean, covariance = _zero_sum(outputs.mean, outputs.covariance)
        k, variance = mean.shape[-1], covariance.diagonal(dim1=-2, dim2=-1).clamp_min(1e-12)
        ratio = mean + torch.logsumexp(-mean, -1, keepdim=True) - 2.0 * math.log(k)
        rest = torch.full_like(ratio, 1.0 - 2.0 / k).log()
        return torch.logaddexp(rest, ratio) - variance.log()

    def probs(self, likelihood: ClassLikelihood, outputs: OutputNormal) -> Tensor:
        return self.log_concentration(likelihood, outputs).softmax(-1)

    def expected_entropy(self, likelihood: ClassLikelihood, outputs: OutputNormal) -> Tensor:
        """psi(a_0 + 1) - sum_k p_k psi(a_k + 1), of the Dirichlet, (M, B)."""
        log_alpha = self.log_concentration(likelihood, outputs)
        alpha = log_alpha.clamp_max(_LARGE).exp()
        inside = (log_alpha.softmax(-1) * torch.digamma(alpha + 1.0)).sum(-1)
        return (torch.digamma(alpha.sum(-1) + 1.0) - inside).clamp_min(0.0)


def contrast_variance(covariance: Tensor) -> Tensor:
    """(P C P)_kk K / (K - 1) of covariances (..., K, K), where P takes the average away, (..., K)."""
    k = covariance.shape[-1]
    projected = _zero_sum(covariance[..., 0], covariance)[1].diagonal(dim1=-2, dim2=-1)
    return projected.clamp_min(0.0) * (k / max(k - 1, 1))


def _zero_sum(mean: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    """The normal of the logits less their average, to which the softmax is blind: m - mean(m), P C P."""
    rows = covariance - covariance.mean(-1, keepdim=True)
    return mean - mean.mean(-1, keepdim=True), rows - rows.mean(-2, keepdim=True)


@dataclass(frozen=True, eq=False, repr=False)
class GaussianClassPredictive(ClassPredictive):
    """Class probabilities from normal logits, or an equal mixture over M such normals.

    In the place of drawn functions stand the M normals: `draws` are logits that give their probabilities.
    """

    likelihood: ClassLikelihood
    outputs: OutputNormal  # the distribution of the network's outputs
    approximation: Approximation  # how probabilities follow from it

    def __repr__(self) -> str:
        return _shown(self)

    def joint_log_prob(self, y: Tensor, groups: Tensor | None = None) -> NoReturn:
        raise ValueError(JOINT)

    @cached_property
    def expected_entropy(self) -> Tensor:
        return self.average(self.approximation.expected_entropy(self.likelihood, self.outputs))

    @property
    def epistemic(self) -> NoReturn:
        raise ValueError(SPLIT)

    @property
    def aleatoric(self) -> NoReturn:
        raise ValueError(SPLIT)

    @property
    def variance(self) -> Tensor:
        """p (1 - p), (B, K): of the one-hot vector, or of yes and no."""
        return self.mean * (1.0 - self.mean)


SPLIT = (
    "a normal over logits gives class probabilities without the variance between functions: use drawn functions for "
    "epistemic and aleatoric, or mutual_information with LaplaceBridge()"
)


def gaussian_predictive(
    likelihood: Likelihood,
    outputs: OutputNormal,
    params: Params,
    log_weights: Tensor,
    approximation: Approximation = Probit(),
) -> Predictive:
    """The predictive of a network whose outputs are M normals, with log weights (M,) that are normalized here."""
    if isinstance(likelihood, Standardized):
        covariance = likelihood.covariance_in_units(outputs.covariance)
        joint = None if outputs.joint is None else likelihood.covariance_in_units(outputs.joint)
        likelihood, mean, params = likelihood.in_units(outputs.mean, params)
        outputs = OutputNormal(mean, covariance, joint)
    weights = log_weights.to(outputs.mean).log_softmax(0)
    if has_normal_noise(likelihood):
        noise = likelihood.variance(outputs.mean, params)
        scale = (outputs.variance.clamp_min(0.0) + noise).sqrt()
        return GaussianPredictive(MarginalGaussian(), outputs.mean, {"scale": scale}, weights, outputs, noise)
    if isinstance(likelihood, Categorical | Bernoulli):
        probs = approximation.probs(likelihood, outputs)
        logits = probs.log() if likelihood.exclusive else torch.logit(probs)
        return GaussianClassPredictive(likelihood, logits, {}, weights, outputs, approximation)
    raise TypeError(
        f"normal outputs have no predictive in closed form under {type(likelihood).__name__}: draw functions instead"
    )


def has_normal_noise(likelihood: Likelihood) -> bool:
    """Whether targets are normal around outputs, each with noise of its own, so that normal outputs stay normal."""
    base = likelihood.base if isinstance(likelihood, Standardized) else likelihood
    return isinstance(base, Gaussian | LearnedGaussian | SharedGaussian)


def _shown(prediction: Predictive) -> str:
    size = " x ".join(map(str, prediction.draws.shape[1:]))
    return f"{type(prediction).__name__}({len(prediction.draws)} normals over {size} outputs)"
