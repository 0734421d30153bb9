"""What warm-up learns: the step size and the metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from credo.methods.mcmc.metric import Metric, unit_metric
from credo.methods.mcmc.moments import Moments
from credo.methods.mcmc.step_size import DualAveraging, plausible_step
from credo.methods.mcmc.windows import Windows

Trial = Callable[[float, Metric], float]
"""The mean acceptance of one leapfrog step of this size under this metric."""


@dataclass(frozen=True)
class Adaptation:
    """Step size and metric, common to all chains, and what is known on the way to better ones.

    One step size for all chains keeps them abreast, so that none waits for another with smaller steps; and one
    metric is learnt from all of them.

    Attributes:
        search: for the step size.
        metric: in use.
        moments: of the window that will give the next metric.
    """

    search: DualAveraging
    metric: Metric
    moments: Moments

    @staticmethod
    def fresh(like: Tensor, *, dense: bool) -> Adaptation:
        """Before the first iteration, for positions like these, (C, P)."""
        metric = unit_metric(like.shape[1], like, dense=dense)
        return Adaptation(DualAveraging.around(1.0), metric, Moments.none(like, dense=dense))

    def begun(self, iteration: int, windows: Windows, trial: Trial, wished: float) -> Adaptation:
        """Ready for this iteration: at the first one, and under a new metric, the search for the step starts afresh."""
        if iteration != 0 and iteration - 1 not in windows.ends:
            return self
        step = plausible_step(lambda size: trial(size, self.metric), self.search.step, wished)
        return replace(self, search=DualAveraging.around(step))

    def updated(
        self, iteration: int, windows: Windows, position: Tensor, acceptance: Tensor, wished: float
    ) -> Adaptation:
        """After an iteration of warm-up that ended at `position`, (C, P), with these acceptances, (C,)."""
        search, metric, moments = self.search.updated(float(acceptance.mean()), wished), self.metric, self.moments
        if windows.collects(iteration):
            moments = moments.updated(position)
        if iteration in windows.ends:
            metric, moments = moments.metric(), Moments.none(position, dense=moments.scatter.ndim == 2)
        if iteration == windows.warmup - 1:
            search = search.ended()
        return replace(self, search=search, metric=metric, moments=moments)
