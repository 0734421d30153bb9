"""The mixture over draws: what the posterior believes about new targets, and why it is unsure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from credo.core.arrays import tensor
from credo.core.checks import check_between, whole_number
from credo.core.integrals import entropy_by_integral, entropy_by_sum, invert_cdf
from credo.core.rng import Stream
from credo.core.trees import Params
from credo.likelihoods import Likelihood, NumericLikelihood


@dataclass(frozen=True, eq=False)
class Predictive(ABC):
    """p(y | x, data) = sum_s w_s p(y | f_s(x)), a mixture over S drawn functions for each of B inputs.

    Attributes:
        likelihood: what turns the outputs of a function into a distribution of y.
        draws: outputs of the drawn functions, (S, B, E); the draw axis is never folded into another.
        params: the likelihood's learned parameters for each draw, (S, D).
        log_weights: logarithms of the weights of the draws, (S,); they sum to one.
    """

    likelihood: Likelihood
    draws: Tensor
    params: Params
    log_weights: Tensor

    def __len__(self) -> int:
        return int(self.draws.shape[1])

    @cached_property
    def weights(self) -> Tensor:  # (S,)
        return self.log_weights.softmax(0)

    def average(self, values: Tensor) -> Tensor:
        """Weighted average over the draw axis: (S, ...) to (...)."""
        return torch.tensordot(self.weights.to(values.dtype), values, dims=1)

    @cached_property
    def mean(self) -> Tensor:
        """E[y], (B, D)."""
        return self.average(self.likelihood.mean(self.draws, self.params))

    @cached_property
    def epistemic(self) -> Tensor:
        """Var_s(E[y | f_s]), (B, D): the disagreement of the draws, which more data would remove."""
        means = self.likelihood.mean(self.draws, self.params)
        # around one of the draws, so that a large offset of all of them does not eat the digits of the differences
        apart = means - means[0]
        return self.average((apart - self.average(apart)).square())

    @cached_property
    def aleatoric(self) -> Tensor:
        """E_s[Var(y | f_s)], (B, D): the noise that stays however much data there is."""
        return self.average(self.likelihood.variance(self.draws, self.params))

    @property
    def variance(self) -> Tensor:
        """Var(y) = epistemic + aleatoric, (B, D), by the law of total variance."""
        return self.epistemic + self.aleatoric

    @property
    def stddev(self) -> Tensor:
        """Standard deviation of y, (B, D)."""
        return self.variance.sqrt()

    def log_prob(self, y: Tensor) -> Tensor:
        """log sum_s w_s p(y_b | f_s(x_b)) of each example, (B,): the log of the mixture, never a mean of logs."""
        targets = self.likelihood.check_targets(tensor(y, "y"), self.draws.shape[-1]).to(self.draws.device)
        if len(targets) != len(self):
            raise ValueError(f"y has {len(targets)} rows and the prediction {len(self)}")
        each = self.likelihood.log_prob(self.draws, targets, self.params)  # (S, B)
        return torch.logsumexp(each + self.log_weights.to(each).unsqueeze(1), dim=0)

    def sample(self, count: int, seed: int = 0) -> Tensor:
        """`count` targets for each input, (count, B, D), or (count, B) class numbers.

        Each sample picks one draw for all inputs, so a sample is a coherent function plus noise.
        """
        count = whole_number("count", count)
        stream = Stream(seed, ("predictive sample",))
        device = self.draws.device
        chosen = torch.multinomial(
            self.weights, count, replacement=True, generator=stream.child("draw").generator(device)
        )
        params = {name: value[chosen] for name, value in self.params.items()}
        return self.likelihood.sample(self.draws[chosen], params, stream.child("noise").generator(device))

    @cached_property
    @abstractmethod
    def entropy(self) -> Tensor:
        """Entropy of the mixture in nats: all the doubt there is."""

    @cached_property
    def expected_entropy(self) -> Tensor:
        """Average entropy of the draws in nats: the doubt that every draw shares."""
        return self.average(self.likelihood.entropy(self.draws, self.params))

    @property
    def mutual_information(self) -> Tensor:
        """entropy - expected_entropy, in nats: what the target would tell about the weights (BALD)."""
        return (self.entropy - self.expected_entropy).clamp_min(0.0)


@dataclass(frozen=True, eq=False)
class NumericPredictive(Predictive):
    """A mixture over numbers: its quantiles and intervals are its own, not those of a Gaussian fitted to it."""

    likelihood: NumericLikelihood

    def cdf(self, y: Tensor) -> Tensor:
        """P(target <= y), (B, D), where y is (B, D), (B,) for a single target, or one number for all."""
        y = torch.as_tensor(y, dtype=self.draws.dtype, device=self.draws.device)
        return self.average(self.likelihood.cdf(self.draws, y.unsqueeze(1) if y.ndim == 1 else y, self.params))

    def quantile(self, level: float) -> Tensor:
        """The smallest y with P(target <= y) >= level, (B, D)."""
        check_between("level", level)
        lower, upper = self.likelihood.spread(self.draws, self.params)
        return invert_cdf(self.cdf, level, lower.amin(0), upper.amax(0), discrete=self.likelihood.discrete)

    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """Lower and upper ends, (B, D) each, with equal mass on either side and `level` between them."""
        check_between("level", level)
        return self.quantile(0.5 - level / 2), self.quantile(0.5 + level / 2)

    @cached_property
    def entropy(self) -> Tensor:
        """Entropy of each target's mixture in nats, (B, D), by numerical integration."""
        spread = self.likelihood.spread(self.draws, self.params)
        if self.likelihood.discrete:
            return entropy_by_sum(self._log_density, *spread)
        return entropy_by_integral(self._log_density, *spread)

    def _log_density(self, y: Tensor) -> Tensor:
        each = self.likelihood.density(self.draws, y, self.params)  # (S, B, D)
        return torch.logsumexp(each + self.log_weights.to(each)[:, None, None], dim=0)


@dataclass(frozen=True, eq=False)
class ClassPredictive(Predictive):
    """A mixture over classes, or over D separate yes-or-no targets."""

    @property
    def probs(self) -> Tensor:
        """Probabilities: (B, K) of the K classes, or (B, D) of yes."""
        return self.mean

    @property
    def label(self) -> Tensor:
        """The most probable class (B,), or yes / no as 1 / 0 (B, D)."""
        if self.expected_entropy.ndim == 1:
            return self.probs.argmax(-1)
        return (self.probs > 0.5).long()

    @cached_property
    def entropy(self) -> Tensor:
        each = torch.special.entr(self.probs)
        if self.expected_entropy.ndim == 1:
            return each.sum(-1)
        return each + torch.special.entr(1.0 - self.probs)


def predictive(likelihood: Likelihood, draws: Tensor, params: Params, log_weights: Tensor) -> Predictive:
    """The predictive that fits the likelihood.

    Args:
        likelihood: the model's likelihood.
        draws: outputs of S functions at B inputs, (S, B, E).
        params: the likelihood's learned parameters, (S, D) each.
        log_weights: log weights of the draws, (S,); normalised here.
    """
    log_weights = log_weights.to(draws)
    normalised = log_weights - torch.logsumexp(log_weights, 0)
    if isinstance(likelihood, NumericLikelihood):
        return NumericPredictive(likelihood, draws, params, normalised)
    return ClassPredictive(likelihood, draws, params, normalised)
