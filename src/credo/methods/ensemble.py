"""An ensemble of any method: several members that differ in their first weights, data order and noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from credo.core.checks import check_at_least, check_options
from credo.core.rng import Stream
from credo.core.trees import Variables
from credo.methods.base import Info, Method, State, Tick
from credo.methods.point import MAP
from credo.model import Batch, Model, Target
from credo.posteriors import Posterior


@dataclass(frozen=True)
class Ensemble(Method):
    """`members` independent runs of a method, advanced together; the posterior is their equal mixture.

    p(y | x, data) = 1/M sum_m p(y | x, run m)

    Args:
        method: any method.
        members: M.

    Reference: B. Lakshminarayanan, A. Pritzel, C. Blundell, "Simple and scalable predictive uncertainty estimation
        using deep ensembles", 2017, https://arxiv.org/abs/1612.01474
    """

    method: Method
    members: int = 5

    def __post_init__(self) -> None:
        check_options(self, method="MAP()")
        check_at_least("members", self.members, 1)
        if self.method.members != 1:
            raise ValueError("an ensemble of an ensemble is a larger ensemble: multiply the members instead")

    @property
    def batch_size(self) -> int | None:  # type: ignore[override]
        return self.method.batch_size

    @property
    def follows_slopes(self) -> bool:
        return self.method.follows_slopes

    def steps(self, batches: int) -> int:
        return self.method.steps(batches)

    def prepare(self, model: Model, x: Tensor) -> tuple[Model, tuple[str, ...]]:
        return self.method.prepare(model, x)

    def init(self, target: Target, variables: Variables, noise: Stream) -> State:
        return self.method.init(target, variables, noise)

    def step(self, target: Target, state: State, batch: Batch, tick: Tick) -> tuple[State, Info]:
        return self.method.step(target, state, batch, tick)

    def attempt(self, target: Target, state: State, batch: Batch, tick: Tick) -> None:
        self.method.attempt(target, state, batch, tick)

    def summary(self, target: Target, state: State, noise: Stream) -> Info:
        return self.method.summary(target, state, noise)

    def current(self, state: State) -> Variables:
        return self.method.current(state)

    def posterior(self, target: Target, state: State) -> Posterior:
        return self.method.posterior(target, state)


def DeepEnsemble(members: int = 5, **numbers: Any) -> Ensemble:  # noqa: N802 (reads as a method's name)
    """A deep ensemble: `Ensemble(MAP(**numbers), members)`.

    Args:
        members: M.
        numbers: those of `MAP`: epochs, learning_rate, batch_size, optimizer, schedule.
    """
    return Ensemble(MAP(**numbers), members)
