"""A prediction of numbers whose distribution function goes through a monotone map."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from credo.calibration.scores import ScoreMap
from credo.core.integrals import even_points, nodes
from credo.core.rng import Stream
from credo.likelihoods.gaussian import normal_cdf
from credo.predictive import GaussianPredictive, NumericMixture, NumericPredictive, Predictive

REACH = 7.1
"""Normal scores between which integrals go: 1e-12 of the mass lies outside."""
DEEPEST = 37.0
"""The normal score of the base beyond which its density has no number."""
PIECE = 2**14
"""Entries of the draws for which moments are computed at a time: they should fit the cache."""
SUMMED = 2048
"""Whole numbers up to this many are summed one by one; what is spread wider is as good as continuous."""


class MappedMoments(NamedTuple):
    """Of the calibrated components, (S, B, D) each."""

    weights: Tensor  # sum to one over S
    mean: Tensor
    variance: Tensor


@dataclass(frozen=True, eq=False, repr=False)
class MappedPredictive(NumericPredictive):
    """F(y) = g(F_base(y)): what `CdfMap` makes of a prediction; where outputs have positions, at each of them.

    The calibrated density p(y) g'(F(y)) of a mixture p = sum_s w_s p_s is again one of S components, of weights
    w_s r_s and densities p_s(y) g'(F(y)) / r_s, r_s = E_s[g'(F)]; epistemic and aleatoric are theirs.

    Attributes:
        base: the prediction before.
        score_map: h, with g = Phi h Phi^-1.
    """

    base: NumericPredictive
    score_map: ScoreMap

    def elements(self, y: Tensor) -> tuple[Predictive, Tensor, Tensor]:
        rows, targets, example = self.base.elements(y)
        return self._of_rows(rows), targets, example

    def rows(self) -> Predictive:
        return self._of_rows(self.base.rows())

    def _of_rows(self, rows: Predictive) -> Predictive:
        """The map of the rows' own distribution functions."""
        assert isinstance(rows, NumericPredictive)
        each = ScoreMap(*(t.flatten() for t in vars(self.score_map).values()))
        made = MappedPredictive(rows.likelihood, rows.draws, rows.params, rows.log_weights, rows, each)
        return replace(made, conformal=self.conformal)

    def in_double(self) -> NumericPredictive:
        exact = self.base.in_double()
        return replace(self, draws=exact.draws, params=exact.params, log_weights=exact.log_weights, base=exact)

    def normal_score(self, y: Tensor) -> Tensor:
        return self.score_map(self.base.normal_score(y))

    def at_normal_score(self, z: Tensor | float) -> Tensor:
        wanted = torch.as_tensor(z, dtype=torch.float64, device=self.draws.device)
        return self.base.at_normal_score(self._unmapped(wanted))

    def _unmapped(self, z: Tensor) -> Tensor:
        """Normal scores of the base, as far out as it has a density; infinite ones stay infinite."""
        return torch.where(z.isinf(), z, self.score_map.inverse(z).clamp(-DEEPEST, DEEPEST))

    def support(self) -> tuple[Tensor, Tensor]:
        lower, upper = self._ends()
        return lower.to(self.draws.dtype), upper.to(self.draws.dtype)

    def _ends(self) -> tuple[Tensor, Tensor]:
        """Where integrals begin and end, (B, D) in float64: as far out as the base has a density."""
        reach = torch.full((), REACH, dtype=torch.float64, device=self.draws.device)
        return self.at_normal_score(-reach), self.at_normal_score(reach)

    def cdf(self, y: Tensor) -> Tensor:
        return normal_cdf(self.normal_score(y)).to(self.draws.dtype)

    def survival(self, y: Tensor) -> Tensor:
        return normal_cdf(-self.normal_score(y)).to(self.draws.dtype)

    def _quantile(self, below: float, above: float) -> Tensor:
        tail = torch.tensor(min(below, above), dtype=torch.float64, device=self.draws.device)
        z = torch.special.ndtri(tail)
        return self.at_normal_score(z if below <= above else -z).to(self.draws.dtype)

    def log_prob(self, y: Tensor) -> Tensor:
        """log p(t) + sum_d log g'(F_d(y_d)) + log p_d(y_d) - log p_d(t_d), with t_d = F_d^-1(g(F_d(y_d))), (B,).

        The dependence of several targets on each other stays that of the draws; of a single one it is
        log p(y) + log g'(F(y)).
        """
        if self.likelihood.event_axes == 1 and (each := self.log_prob_each(y)).shape[-1] == 1:
            return each.squeeze(-1)
        there, change = self._moved(y)
        return self.base.log_prob(there) + change

    def by_draw(self, y: Tensor) -> Tensor:
        there, change = self._moved(y)
        return self.base.by_draw(there) + change

    def joint_log_prob(self, y: Tensor, groups: Tensor | None = None) -> Tensor:
        """The same of all examples together, (), or of each group, (G,): they share the draw, at t."""
        there, change = self._moved(y)
        numbers, joint = self._groups(groups), self.base.joint_log_prob(there, groups)
        total = change.new_zeros(int(numbers.max()) + 1).index_add_(0, numbers, change)
        return joint + (total[0] if groups is None else total)

    def _moved(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """t, and the sum of log p_calibrated(y) - log p(t) of each target of an example on its own, (B,)."""
        if self.likelihood.discrete:
            raise ValueError("the joint density of calibrated counts and other targets is not known: use log_prob_each")
        targets = self._targets(y)
        observed = self.likelihood.observed(targets)
        known = targets if observed is None else torch.where(observed, targets, self.mean)
        there = self.base.at_normal_score(self.normal_score(known)).to(self.draws.dtype)
        change = (self.log_prob_each(known) - self.base.log_prob_each(there)).double()
        if observed is not None:
            there, change = torch.where(observed, there, torch.nan), torch.where(observed, change, 0.0)
        return there, change.flatten(1).sum(1)

    def log_prob_each(self, y: Tensor) -> Tensor:
        targets = self._targets(y)
        if not self.likelihood.discrete:
            change = self.score_map.log_gradient(self.base.normal_score(targets))
            return (self.base.log_prob_each(targets).double() + change).to(self.draws.dtype)
        at, below = self.normal_score(targets), self.normal_score(targets - 1.0)
        return self._log_mass(at, below).to(self.draws.dtype)

    def _log_mass(self, at: Tensor, below: Tensor) -> Tensor:
        """log of Phi(at) - Phi(below), by the tail that keeps its digits."""
        flip = torch.where(at + below > 0.0, -1.0, 1.0)
        mass = flip * (normal_cdf(flip * at) - normal_cdf(flip * below))
        return mass.clamp_min(torch.finfo(mass.dtype).tiny).log()

    def sample(self, count: int, seed: int = 0) -> Tensor:
        """`count` targets for each input, (count, B, D): those of the base, moved to where the map has them."""
        return self._mapped_samples(self.base.sample(count, seed))

    def sample_of(self, chosen: Tensor, rng: Stream) -> Tensor:
        return self._mapped_samples(self.base.sample_of(chosen, rng))

    def _mapped_samples(self, drawn: Tensor) -> Tensor:
        scores = (self._unmapped(self._inside(y)) for y in drawn)
        return torch.stack([self.base.at_normal_score(z) for z in scores]).to(drawn)

    def _inside(self, y: Tensor) -> Tensor:
        """Normal scores of targets; of counts in the middle of their jump."""
        at = self.base.normal_score(y)
        if not self.likelihood.discrete:
            return at
        below = normal_cdf(self.base.normal_score(y - 1.0))
        middle = 0.5 * (below + normal_cdf(at))
        return torch.special.ndtri(middle.clamp(torch.finfo(middle.dtype).tiny, 1.0 - torch.finfo(middle.dtype).eps))

    def _nodes(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Points (B, D) and the weights of their densities, (B, D): whole numbers weigh one."""
        exact = self.base.in_double()
        first, last = self._ends()
        if exact.likelihood.logarithmic:
            yield from ((t.exp(), step * t.exp()) for t, step in nodes(*self._span()))
            return
        if not self.likelihood.discrete:
            knots = exact.likelihood.knots(exact.draws, exact.params)
            yield from nodes(*self._span(), knots)
            return
        # what is spread wider than so many whole numbers is summed over some of them
        step = ((last - first) / SUMMED).ceil().clamp_min(1.0)
        for offset in range(int(((last - first) / step).max()) + 1):
            k = first + offset * step
            yield k, torch.where(k <= last, step, 0.0)

    def _span(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Where components begin and end, (S, B, D), and integrals, (B, D); of logarithms where these are even."""
        exact = self.base.in_double()
        lower, upper = exact.likelihood.spread(exact.draws, exact.params)
        first, last = self._ends()
        if exact.likelihood.logarithmic:
            return _log(lower), _log(upper), _log(first), _log(last)
        return lower, upper, first, last

    @cached_property
    def _moments(self) -> MappedMoments:
        """Of the calibrated components; a few rows at a time, and such together as need as many points."""
        if not self._divisible:
            return self._moments_at_once()
        found = [(rows, self._some(rows)._moments_at_once()) for rows in self._groups_of_rows()]
        order = torch.cat([rows for rows, _ in found]).argsort()
        joined = (torch.cat(parts, -2)[..., order, :] for parts in zip(*(each for _, each in found), strict=True))
        return MappedMoments(*joined)

    @property
    def _divisible(self) -> bool:
        """Whether rows can be taken out of the prediction: those of mixtures whose draws share their parameters."""
        shared = self.likelihood.params_at(self.params, slice(0, 1), len(self)) is self.params
        return type(self.base) is NumericMixture and shared and self.likelihood.event_axes == 1

    def _some(self, rows: Tensor) -> MappedPredictive:
        base = replace(self.base, draws=self.base.draws[:, rows])
        return replace(self, base=base, draws=base.draws, score_map=self.score_map.at(rows, len(self)))

    def _groups_of_rows(self) -> Iterator[Tensor]:
        points = even_points(*self._span()).amax(-1)
        for count in sorted(set(points.tolist())):
            rows = (points == count).nonzero()[:, 0]
            yield from rows.split(max(1, PIECE // len(self.draws)))

    def _moments_at_once(self) -> MappedMoments:
        """Sums over the components: s has the density w_s p_s(y) g'(F(y)) at a point."""
        exact = self.base.in_double()
        center = self.at_normal_score(0.0)
        sums = [exact.draws.new_zeros(len(exact.draws), *center.shape) for _ in range(3)]
        log_weights = exact.log_weights.view(-1, *[1] * center.ndim)
        below = None
        for y, weight in self._nodes():
            each = exact.likelihood.log_prob_each(exact.draws, y, exact.params) + log_weights
            if self.likelihood.discrete:
                at = self.normal_score(y)
                if below is None or bool((weight > 1.0).any()):  # else that of the number before, y - 1
                    below = self.normal_score(y - 1.0)
                change = self._log_mass(at, below) - each.logsumexp(0)
                below = at
            else:
                change = self.score_map.log_gradient(self.base.normal_score(y))
            part, apart = (each + (change + weight.log())).exp(), y - center
            for total, value in zip(sums, (part, part * apart, part * apart.square()), strict=True):
                total += value
        mass = sums[0].sum(0)  # one, but for the rule of integration
        weights, kept = sums[0] / mass, sums[0].clamp_min(torch.finfo(mass.dtype).tiny)
        mean = sums[1] / kept
        return MappedMoments(weights, center + mean, (sums[2] / kept - mean.square()).clamp_min(0.0))

    @cached_property
    def _entropies(self) -> tuple[Tensor, Tensor]:
        """Of the whole, and the average of the calibrated components, (B, D) each."""
        exact, shape = self.base.in_double(), self._ends()[0].shape
        log_weights = exact.log_weights.view(-1, *[1] * len(shape))
        information = exact.draws.new_zeros(len(exact.draws), *shape)
        total, mass = torch.zeros_like(information[0]), torch.zeros_like(information)
        for y, weight in self._nodes():
            each = exact.likelihood.log_prob_each(exact.draws, y, exact.params)
            log_density = each + self._log_change(y, (each + log_weights).logsumexp(0))
            part = weight * (log_density + log_weights).exp()
            mass += part
            information += torch.where(part > 0.0, part * log_density, 0.0)
            mixed = part.sum(0)
            total -= torch.where(mixed > 0.0, mixed * (log_density + log_weights).logsumexp(0), 0.0)
        kept = mass.clamp_min(torch.finfo(mass.dtype).tiny)
        # -E_s[log(p_s g' / r_s)], with r_s the part of the calibrated mass over that of the base
        entropy = (kept / mass.sum(0)).log() - log_weights - information / kept
        return total / mass.sum(0), (mass / mass.sum(0) * entropy).sum(0)

    def _log_change(self, y: Tensor, log_prob: Tensor | None) -> Tensor:
        """log g'(F(y)), (B, D); of counts log of the calibrated probability over that of the base."""
        if self.likelihood.discrete and log_prob is not None:
            return self.log_prob_each(y).double() - log_prob
        return self.score_map.log_gradient(self.base.normal_score(y))

    @cached_property
    def mean(self) -> Tensor:
        """E[y], (B, D), of the calibrated distribution."""
        found = self._moments
        return (found.weights * found.mean).sum(0).to(self.draws.dtype)

    @cached_property
    def epistemic(self) -> Tensor:
        """Variance of the means of the calibrated components, (B, D)."""
        found = self._moments
        apart = found.mean - found.mean[0]
        between = (found.weights * (apart - (found.weights * apart).sum(0)).square()).sum(0)
        return (between + (found.weights * found.variance * self._doubted()).sum(0)).to(self.draws.dtype)

    @cached_property
    def aleatoric(self) -> Tensor:
        """Mean of the variances of the calibrated components, (B, D)."""
        found = self._moments
        return (found.weights * found.variance * (1.0 - self._doubted())).sum(0).to(self.draws.dtype)

    def _doubted(self) -> Tensor:
        """The part of the variance of a component that is the doubt of the outputs themselves."""
        base = self.base
        if not isinstance(base, GaussianPredictive):
            return torch.zeros((), dtype=torch.float64, device=self.draws.device)
        outputs = base.outputs.variance.double()
        return outputs / (outputs + base.noise.double())

    @property
    def entropy(self) -> Tensor:
        """Entropy of each target's distribution in nats, (B, D)."""
        return self._entropies[0].to(self.draws.dtype)

    @cached_property
    def expected_entropy(self) -> Tensor:
        """Average entropy of the calibrated components in nats, (B, D)."""
        return self._entropies[1].to(self.draws.dtype)


def _log(ends: Tensor) -> Tensor:
    """Also of ends that are too close to zero to be told from it."""
    return ends.clamp_min(torch.finfo(ends.dtype).tiny).log()
