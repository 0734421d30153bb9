"""Draws of another distribution, with the weights that make them draws of the posterior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from credo.core.pareto import USABLE
from credo.core.trees import Variables
from credo.posteriors.base import Posterior
from credo.posteriors.draws import Draws, averaged, check_log_weights, resampled
from credo.posteriors.functions import NetworkFunctions


@dataclass(frozen=True)
class Evidence:
    """log p(data), the weights integrated out.

    Attributes:
        value: in nats.
        standard_error: of the value, by the spread of the importance weights; too small where they miss the posterior.
    """

    value: float
    standard_error: float


@dataclass(frozen=True, eq=False)
class Weighted(Posterior):
    """S draws with importance weights: expectations are sums with normalized weights.

    E[f] = sum_s w_s f_s / sum_s w_s,   p(data) = 1/S sum_s w_s

    Attributes:
        variables: weights of the S draws, (S, *shape) each.
        log_weights: log importance weights w_s = p(data, draw) / q(draw), (S,), not normalized, in float64.
        k: k-hat, the shape of their tail, a single number; above 0.7 they cannot be relied on.
    """

    unbounded: ClassVar[tuple[str, ...]] = ("log_weights", "k")

    variables: Variables
    log_weights: Tensor
    k: Tensor

    @property
    def effective_draws(self) -> float:
        """(sum_s w_s)^2 / sum_s w_s^2: as many equally weighted draws would be as good."""
        return float(torch.exp(-torch.logsumexp(2.0 * self._normalized, 0)))

    @property
    def log_evidence(self) -> Evidence:
        """log p(data) with its Monte Carlo standard error, by the delta method."""
        count = len(self.log_weights)
        value = float(torch.logsumexp(self.log_weights.double(), 0)) - math.log(count)
        excess = max(count / self.effective_draws - 1.0, 0.0)
        return Evidence(value, math.sqrt(excess / (count - 1)) if count > 1 else math.inf)

    @property
    def reliable(self) -> bool:
        """Whether the weights can be relied on: k-hat is below 0.7."""
        return float(self.k) < USABLE

    @property
    def default_draws(self) -> int:
        """All of them."""
        return self.variables.members

    def draw(self, count: int | None = None, seed: int = 0) -> NetworkFunctions:
        """All draws with their weights; with a count, that many by systematic resampling."""
        return Draws(self.model, self.variables, self._normalized).draw(count, seed)

    def at_mean(self) -> Draws:
        """The network at the weighted average of the draws."""
        mean = averaged(self.variables, self.log_weights)
        return Draws(self.model, mean, Draws.uniform(mean), record=self.record)

    def members(self, count: int | None = None) -> Variables:
        return resampled(self.variables, self.log_weights, count or self.variables.members)

    def check(self) -> None:
        super().check()
        check_log_weights(self.log_weights, self.variables)
        if self.k.ndim or not self.k.is_floating_point() or bool(self.k.isnan()):
            raise ValueError("k, the shape of the tail of the weights, must be a single number")

    @property
    def _normalized(self) -> Tensor:
        return self.log_weights.double().log_softmax(0)

    @property
    def notes(self) -> tuple[str, ...]:
        """What credo chose for you and what it noticed, in sentences, with a verdict on the weights."""
        return (*self.record.notes, *self.verdicts)

    @property
    def verdicts(self) -> tuple[str, ...]:
        """What the weights are worth, in sentences."""
        found, count = self.log_evidence, len(self.log_weights)
        worth = (
            f"{count} draws are worth {self.effective_draws:.1f} after weighting",
            f"log evidence {found.value:.2f}, standard error {found.standard_error:.2g}",
        )
        if self.reliable:
            return worth
        k = float(self.k)
        tail = "k-hat cannot be estimated from so few draws" if math.isinf(k) else f"k-hat is {k:.2f}, above {USABLE}"
        return (
            *worth,
            f"the weights miss the posterior: {tail}, so neither predictions nor evidence can be "
            "relied on; take more draws, propose from a posterior that is closer (one of BayesByBackprop), anneal "
            "(AnnealedImportanceSampling, or more temperatures of it), or sample with a Markov chain",
        )
