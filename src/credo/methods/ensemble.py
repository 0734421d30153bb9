"""An ensemble of any method: several members that differ in their first weights, data order and noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from credo.core.checks import check_at_least, check_options
from credo.methods.base import Method, StateT
from credo.methods.point import MAP, PointState
from credo.model import Target
from credo.posteriors import Posterior


def _forwarded(name: str) -> Any:
    """What the method of an ensemble has by this name."""
    return property(lambda ensemble: getattr(ensemble.method, name))


@dataclass(frozen=True)
class Ensemble(Method[StateT]):
    """`members` independent runs of a method, advanced together; the posterior is their equal mixture.

    p(y | x, data) = 1/M sum_m p(y | x, run m)

    A run that diverges leaves the others alone, and has no part in the posterior.

    Args:
        method: any method.
        members: M.

    Reference: B. Lakshminarayanan, A. Pritzel, C. Blundell, "Simple and scalable predictive uncertainty estimation
        using deep ensembles", 2017, https://arxiv.org/abs/1612.01474
    """

    method: Method[StateT]
    members: int = 5

    def __post_init__(self) -> None:
        check_options(self, method="MAP()")
        check_at_least("members", self.members, 1)
        if self.method.members != 1:
            raise ValueError("an ensemble of an ensemble is a larger ensemble: multiply the members instead")

    # everything but the number of members is the method's own; a test holds this list against the attributes of Method

    batch_size = _forwarded("batch_size")
    whole_data = _forwarded("whole_data")
    graph_safe = _forwarded("graph_safe")
    noise_off = _forwarded("noise_off")
    start_from = _forwarded("start_from")
    needs_gradient = _forwarded("needs_gradient")
    steps = _forwarded("steps")
    prepare = _forwarded("prepare")
    init = _forwarded("init")
    begin_at = _forwarded("begin_at")
    step = _forwarded("step")
    attempt = _forwarded("attempt")
    finish = _forwarded("finish")
    summary = _forwarded("summary")
    loss = _forwarded("loss")
    held_out = _forwarded("held_out")
    current = _forwarded("current")
    is_finite = _forwarded("is_finite")

    def posterior(self, target: Target, state: StateT) -> Posterior:
        posterior = self.method.posterior(target, state)
        finite = self.is_finite(state)
        return posterior.of_members(finite.nonzero()[:, 0]) if finite.any() and not finite.all() else posterior


def DeepEnsemble(members: int = 5, **numbers: Any) -> Ensemble[PointState]:  # noqa: N802 (reads as a method's name)
    """A deep ensemble: `Ensemble(MAP(**numbers), members)`.

    Args:
        members: M.
        numbers: those of `MAP`: epochs, learning_rate, batch_size, optimizer, schedule.
    """
    return Ensemble(MAP(**numbers), members)
