"""Warm-up: when the step size is sought and when the metric is learned, and how."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from credo.methods.mcmc.integrators import DenseMetric, DiagonalMetric, Metric, unit_metric

FIRST, LAST, BASE = 75, 50, 25
"""Stan's numbers: iterations before the first window, after the last one, and of the first one."""


@dataclass(frozen=True)
class Windows:
    """Warm-up in three parts: to the typical set; windows of growing length, each of which ends with a new metric
    learned from it alone; and a last search for the step.
    """

    warmup: int  # iterations in all
    begin: int  # the first iteration whose position counts for a metric
    ends: tuple[int, ...]  # the iterations after which a metric is made, in order

    def collects(self, iteration: int) -> bool:
        """Whether the position after this iteration counts for the next metric."""
        return bool(self.ends) and self.begin <= iteration <= self.ends[-1]


def stan_windows(warmup: int) -> Windows:
    """Stan's schedule; warm-ups that are too short for it keep 15 % before and 10 % after one window.

    Examples:
        >>> stan_windows(1000)
        Windows(warmup=1000, begin=75, ends=(99, 149, 249, 449, 949))

    Reference: Stan Development Team, "Stan reference manual", section on automatic parameter tuning,
        https://mc-stan.org/docs/reference-manual/mcmc.html
    """
    if warmup < 20:
        return Windows(warmup, warmup, ())
    first, last, base = FIRST, LAST, BASE
    if first + last + base > warmup:
        first, last = int(0.15 * warmup), int(0.1 * warmup)
        base = warmup - first - last
    ends, start, size, stop = [], first, base, warmup - last
    while start < stop:
        # a window that would leave too little for the one after it takes all that is left
        end = stop if start + 3 * size > stop else start + size
        ends.append(end - 1)
        start, size = end, 2 * size
    return Windows(warmup, first, tuple(ends))


def early_windows(warmup: int) -> Windows:
    """Windows that double from a twentieth of warm-up on, for samplers to which a first rough metric saves much work.

    Examples:
        >>> early_windows(200)
        Windows(warmup=200, begin=10, ends=(19, 39, 79, 179))
    """
    marks = [warmup // 20, warmup // 10, warmup // 5, 2 * warmup // 5, 9 * warmup // 10]
    if marks[0] == 0:
        return Windows(warmup, warmup, ())
    return Windows(warmup, marks[0], tuple(mark - 1 for mark in marks[1:]))


_PRIOR_COUNT = 5.0
_PRIOR_VARIANCE = 1e-3
"""Stan's regularization: the estimate is mixed with this variance, as if it had been seen so many times."""


@dataclass(frozen=True)
class Moments:
    """Sums over a window, by Welford's recursion.

    Chains are pooled: each is centered at its own mean, and their scatter is added up. So C chains learn the metric C
    times as fast, and chains that sit in different (for a network often mirrored) modes do not mistake the distance
    between the modes for the spread within one.
    """

    count: Tensor  # iterations seen, (1,)
    mean: Tensor  # of each chain, (C, P)
    scatter: Tensor  # sum over chains and iterations of squared deviations, (P,), or of their products, (P, P)

    @staticmethod
    def none(like: Tensor, *, dense: bool) -> Moments:
        """Nothing seen yet, of positions like these, (C, P)."""
        size = like.shape[1]
        scatter = like.new_zeros((size, size) if dense else (size,))
        return Moments(torch.zeros(1, dtype=torch.float64), torch.zeros_like(like), scatter)

    @property
    def seen(self) -> float:
        return float(self.count)

    def updated(self, position: Tensor) -> Moments:
        """With one more position of every chain, (C, P)."""
        count = self.count + 1.0
        before = position - self.mean
        mean = self.mean + before / float(count)
        after = position - mean
        if self.scatter.ndim == 2:
            return Moments(count, mean, torch.addmm(self.scatter, before.T, after))
        return Moments(count, mean, self.scatter + (before * after).sum(0))

    def metric(self) -> Metric:
        """The metric that this window teaches."""
        chains, total = len(self.mean), self.seen * len(self.mean)
        shrink = total / (total + _PRIOR_COUNT)
        covariance = self.scatter * (shrink / max(total - chains, 1.0))
        ridge = (1.0 - shrink) * _PRIOR_VARIANCE
        if self.scatter.ndim == 2:
            covariance.diagonal().add_(ridge)
            factor, failed = torch.linalg.cholesky_ex(covariance)
            if not bool(failed):
                # LAPACK lays it out by columns and a checkpoint by rows: products would round differently
                return DenseMetric(factor.contiguous())
            return DenseMetric(torch.diag(covariance.diagonal().sqrt()))
        return DiagonalMetric((covariance + ridge).sqrt())


_STABILITY = 10.0
"""t_0: how much the first iterations are damped."""
_SHRINKAGE = 0.05
"""gamma: how strongly the step is drawn back to its center."""
_FORGETTING = 0.75
"""kappa: how fast early steps lose their weight in the average."""


@dataclass(frozen=True)
class DualAveraging:
    """The state of a search for the step size at which trajectories are accepted as often as asked for.

    Numbers are 64-bit scalars on the CPU, since only Python looks at them.

    Reference: M. Hoffman, A. Gelman, "The No-U-Turn sampler", 2014, section 3.2, https://arxiv.org/abs/1111.4246
    """

    numbers: Tensor  # log step, its average, the average error, the center mu and the count t, (5,)

    @staticmethod
    def around(step: float) -> DualAveraging:
        """A fresh search, which tries steps up to ten times as long as this one."""
        log_step = math.log(step)
        return DualAveraging(torch.tensor([log_step, log_step, 0.0, log_step + math.log(10.0), 0.0]).double())

    @property
    def step(self) -> float:
        """The step to try next."""
        return math.exp(self.numbers[0])

    @property
    def settled(self) -> float:
        """The averaged step, for when the search is over."""
        return math.exp(self.numbers[1])

    def updated(self, acceptance: float, target_acceptance: float) -> DualAveraging:
        """The search after one more iteration, eq. 6 of the paper.

        Args:
            acceptance: mean acceptance probability of the iteration, all chains together.
            target_acceptance: delta, the acceptance to be reached.
        """
        _, log_average, error, center, count = self.numbers.tolist()
        count += 1.0
        weight = 1.0 / (count + _STABILITY)
        error = (1.0 - weight) * error + weight * (target_acceptance - acceptance)
        log_step = center - math.sqrt(count) / _SHRINKAGE * error
        weight = count**-_FORGETTING
        log_average = weight * log_step + (1.0 - weight) * log_average
        return DualAveraging(torch.tensor([log_step, log_average, error, center, count]).double())

    def ended(self) -> DualAveraging:
        """The search at rest: the step to try is the averaged one."""
        return DualAveraging(self.numbers[[1, 1, 2, 3, 4]])


def plausible_step(acceptance: Callable[[float], float], step: float, target_acceptance: float) -> float:
    """A first step: doubled or halved until the acceptance of one leapfrog step crosses what is asked for.

    Args:
        acceptance: mean acceptance probability of a leapfrog step of this size.
        step: where to begin.
        target_acceptance: the acceptance to be reached.
    """
    longer = acceptance(step) > target_acceptance
    for _ in range(60):
        following = 2.0 * step if longer else 0.5 * step
        if (acceptance(following) > target_acceptance) is not longer:
            return step if longer else following
        step = following
    return step


Trial = Callable[[float, Metric], float]
"""The mean acceptance of one leapfrog step of this size under this metric."""


@dataclass(frozen=True)
class Adaptation:
    """Step size and metric, common to all chains, and what is known on the way to better ones.

    One step size for all chains keeps them abreast, so that none waits for another with smaller steps; and one
    metric is learned from all of them.
    """

    search: DualAveraging  # for the step size
    metric: Metric  # in use
    moments: Moments  # of the window that will give the next metric

    @staticmethod
    def fresh(like: Tensor, *, dense: bool) -> Adaptation:
        """Before the first iteration, for positions like these, (C, P)."""
        metric = unit_metric(like.shape[1], like, dense=dense)
        return Adaptation(DualAveraging.around(1.0), metric, Moments.none(like, dense=dense))

    def begun(self, iteration: int, windows: Windows, trial: Trial, target_acceptance: float) -> Adaptation:
        """Ready for this iteration: at the first one, and under a new metric, the search for the step starts afresh."""
        if iteration != 0 and iteration - 1 not in windows.ends:
            return self
        step = plausible_step(lambda size: trial(size, self.metric), self.search.step, target_acceptance)
        return replace(self, search=DualAveraging.around(step))

    def updated(
        self, iteration: int, windows: Windows, position: Tensor, acceptance: Tensor, target_acceptance: float
    ) -> Adaptation:
        """After an iteration of warm-up that ended at `position`, (C, P), with these acceptances, (C,)."""
        search, metric, moments = (
            self.search.updated(float(acceptance.mean()), target_acceptance),
            self.metric,
            self.moments,
        )
        if windows.collects(iteration):
            moments = moments.updated(position)
        if iteration in windows.ends:
            metric, moments = moments.metric(), Moments.none(position, dense=moments.scatter.ndim == 2)
        if iteration == windows.warmup - 1:
            search = search.ended()
        return replace(self, search=search, metric=metric, moments=moments)
