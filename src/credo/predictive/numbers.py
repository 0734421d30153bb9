"""Predictions of numbers: quantiles and intervals of the mixture itself."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from credo.core.checks import check_between
from credo.core.integrals import (
    crossing,
    entropy_by_integral,
    entropy_by_knots,
    entropy_by_sum,
    smallest_where,
    widened,
)
from credo.likelihoods import NumericLikelihood
from credo.likelihoods.base import Elements
from credo.predictive.base import Predictive


class LevelRule(Protocol):
    """What gives intervals a guarantee: ends by normal scores, z = Phi^-1(F(y)), in the place of the stated level's."""

    def reach(self, level: float) -> Tensor:
        """How far from the median an interval of this level reaches, in normal scores, (D,); infinite: everywhere."""


@dataclass(frozen=True, eq=False, repr=False)
class NumericPredictive(Predictive, ABC):
    """A mixture over numbers: its quantiles and intervals are its own, not those of a Gaussian fitted to it.

    Attributes:
        conformal: what moves quantiles and the ends of intervals, so that they hold what they promise; None for nothing
            but the mixture itself.
    """

    likelihood: NumericLikelihood
    conformal: LevelRule | None = field(default=None, kw_only=True)

    def cdf(self, y: Tensor) -> Tensor:
        """P(target <= y), (B, D), where y is (B, D), (B,) for a single target, or one number for all."""
        values = self._columns(y)
        return self.by_rows(
            lambda part, rows: part.average(part.likelihood.cdf(part.draws, self._at(values, rows), part.params))
        )

    def survival(self, y: Tensor) -> Tensor:
        """P(target > y), (B, D), exact where it is small and 1 - cdf(y) would be nothing but rounding."""
        values = self._columns(y)
        return self.by_rows(
            lambda part, rows: part.average(part.likelihood.survival(part.draws, self._at(values, rows), part.params))
        )

    def _at(self, values: Tensor, rows: slice) -> Tensor:
        """Values of some examples; what is the same for all stays what it is."""
        return values[rows] if values.ndim == self.likelihood.event_axes + 1 and len(values) == len(self) else values

    def _columns(self, y: Tensor) -> Tensor:
        y = torch.as_tensor(y, dtype=self.draws.dtype, device=self.draws.device)
        return y.unsqueeze(self.likelihood.class_axis) if y.ndim == self.likelihood.event_axes else y

    def by_target(self, values: Tensor) -> Tensor:
        """Numbers of the D targets, (D,), in a shape that broadcasts to those of all examples, (B, *event)."""
        shape = [1] * self.likelihood.event_axes
        shape[self.likelihood.class_axis] = len(values)
        return values.view(shape)

    def quantile(self, level: float) -> Tensor:
        """The smallest y with P(target <= y) >= level, (B, D)."""
        check_between("level", level)
        if self.conformal is not None:
            reach = self.by_target(self.conformal.reach(abs(2.0 * level - 1.0)))
            return self.at_normal_score(reach if level > 0.5 else -reach).to(self.draws.dtype)
        return self._quantile(level, 1.0 - level)

    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """Lower and upper ends, (B, D) each, with equal mass on either side and `level` between them."""
        check_between("level", level)
        if self.conformal is not None:
            reach = self.by_target(self.conformal.reach(level))
            lower, upper = self.at_normal_score(-reach), self.at_normal_score(reach)
            return lower.to(self.draws.dtype), upper.to(self.draws.dtype)
        tail = 0.5 * (1.0 - level)
        return self._quantile(tail, 1.0 - tail), self._quantile(1.0 - tail, tail)

    def joint_interval(self, level: float = 0.95, samples: int = 2000, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Ends of a box that holds all D targets of an example at once with this probability, (B, D) each.

        mean_d +- k stddev_d,   k = the level's quantile of max_d |y_d - mean_d| / stddev_d over samples y

        Of a conformal prediction: the box of intervals of level 1 - (1 - level) / D, which keeps their promise.

        Args:
            level: of all targets together; single intervals of this level hold them together less often.
            samples: targets that are drawn for each input.
            seed: of these.
        """
        check_between("level", level)
        if self.likelihood.event_axes != 1:
            raise ValueError("a joint interval is for targets beside each other, (B, D), and these have positions")
        if self.conformal is not None:
            return self.interval(1.0 - (1.0 - level) / self.mean.shape[-1])
        drawn = (self.sample(samples, seed) - self.mean) / self.stddev
        reach = drawn.abs().amax(-1).quantile(level, dim=0).unsqueeze(-1) * self.stddev
        return self.mean - reach, self.mean + reach

    def _quantile(self, below: float, above: float) -> Tensor:
        return self.by_rows(lambda part, _: part._crossing(below, above))

    def _crossing(self, below: float, above: float) -> Tensor:
        """By the tail that is the smaller one, whose probability keeps its digits."""
        lower, upper = self.likelihood.spread(self.draws, self.params)
        ends = lower.amin(0), upper.amax(0)

        if self.likelihood.discrete:

            def enough(y: Tensor) -> Tensor:
                return self.cdf(y) >= below if below <= 0.5 else self.survival(y) <= above

            return smallest_where(enough, *ends, discrete=True)

        def excess(y: Tensor) -> Tensor:
            """In standard deviations: a straight line where the mixture is a normal."""
            if below <= 0.5:
                return _probit(self.cdf(y)) - _probit(y.new_tensor(below))
            return _probit(y.new_tensor(above)) - _probit(self.survival(y))

        return crossing(excess, *ends)

    def normal_score(self, y: Tensor) -> Tensor:
        """z = Phi^-1(P(target <= y)), (B, D) in float64, by the tail that keeps its digits; at most 37.5 in size."""
        exact = self.in_double()
        below, above = exact.cdf(y), exact.survival(y)
        return torch.where(below <= 0.5, _probit(below), -_probit(above))

    def at_normal_score(self, z: Tensor | float) -> Tensor:
        """The y whose normal score is z, (B, D) in float64: a quantile that keeps its digits in both tails.

        Args:
            z: one number for all, or something that broadcasts to (B, D); infinite ones give infinite ends.
        """
        exact = self.in_double()
        lower, upper = exact.support()
        wanted = torch.as_tensor(z, dtype=lower.dtype, device=lower.device).expand_as(lower)
        limit = _probit(torch.ones_like(wanted) * 0.0).abs()
        beyond, inside = wanted.abs() >= limit, wanted.clamp(-limit, limit)

        if self.likelihood.discrete:

            def enough(y: Tensor) -> Tensor:
                return exact.normal_score(y) >= inside - 1e-12

            found = smallest_where(enough, *widened(enough, lower, upper), discrete=True)
        elif exact.likelihood.logarithmic:
            ends = (end.clamp_min(torch.finfo(end.dtype).tiny).log() for end in (lower, upper))
            found = crossing(lambda t: exact.normal_score(t.exp()) - inside, *ends).exp()
        else:
            found = crossing(lambda y: exact.normal_score(y) - inside, lower, upper)
        return torch.where(beyond, torch.sign(wanted) * torch.inf, found)

    def support(self) -> tuple[Tensor, Tensor]:
        """Ends between which all but a negligible part of the mass lies, (B, D) each."""
        lower, upper = self.likelihood.spread(self.draws, self.params)
        return lower.amin(0), upper.amax(0)

    def in_double(self) -> NumericPredictive:
        """The same in float64."""
        if self.draws.dtype == torch.float64:
            return self
        params = {name: value.double() for name, value in self.params.items()}
        return replace(self, draws=self.draws.double(), params=params, log_weights=self.log_weights.double())

    @cached_property
    def entropy(self) -> Tensor:
        """Entropy of each target's mixture in nats, (B, D), by numerical integration."""
        return self.by_rows(lambda part, _: part._entropy())

    def _entropy(self) -> Tensor:
        total = entropy_by_sum if self.likelihood.discrete else entropy_by_integral

        def log_density(y: Tensor) -> Tensor:
            return self._mixed(self.likelihood.log_prob_each(self.draws, y, self.params))

        knots = self.likelihood.knots(self.draws, self.params)
        if knots is not None:
            return entropy_by_knots(log_density, knots)
        return total(log_density, *self.likelihood.spread(self.draws, self.params))

    def _mixture(self, found: Elements) -> NumericMixture:
        likelihood, outputs, params = found.likelihood.in_units(found.outputs, found.params)
        assert isinstance(likelihood, NumericLikelihood)
        return NumericMixture(likelihood, outputs, params, self.log_weights, conformal=self.conformal)


@dataclass(frozen=True, eq=False, repr=False)
class NumericMixture(NumericPredictive):
    """A mixture of drawn functions, over numbers."""


def _probit(probability: Tensor) -> Tensor:
    info = torch.finfo(probability.dtype)
    return torch.special.ndtri(probability.clamp(info.tiny, 1.0 - info.eps))
