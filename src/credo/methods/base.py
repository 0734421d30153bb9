"""What a method is: numbers, and three functions that the loop calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from torch import Tensor

from credo.core.inputs import Inputs
from credo.core.rng import Stream
from credo.core.trees import Variables, finite_members
from credo.model import Batch, Model, Target
from credo.posteriors import Posterior

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    StateT = TypeVar("StateT", default=Any)
else:
    from typing import TypeVar

    StateT = TypeVar("StateT")
"""A frozen dataclass of tensors and trees of tensors: all that the next step needs, and nothing else."""

Info = dict[str, Tensor]
"""What only a person needs of a step: numbers per member, (M,), which the history averages over each epoch."""


class StartFrom(StrEnum):
    """What a method takes as the weights to begin with, unless `fit(start=...)` gives others."""

    FRESH = "fresh"
    """New weights for each member."""
    MODULE = "module"
    """Those that the module holds, the same for all members; a function that makes modules is called for each."""


ScheduledNumber = Callable[[Callable[["Tick"], float]], Tensor]


@dataclass(frozen=True)
class Tick:
    """Where in the run a step stands, and the randomness that belongs to it.

    Attributes:
        step: number of this step, from 0.
        total: number of steps of the whole run.
        rng: this step's own stream.
    """

    step: int
    total: int
    rng: Stream
    schedule: ScheduledNumber | None = field(default=None, compare=False, repr=False)

    @property
    def fraction(self) -> float:
        """The part of the run that is over, 0 to 1."""
        return self.step / self.total

    def scheduled(self, of: Callable[[Tick], float]) -> float | Tensor:
        """A number that changes from step to step, such as a learning rate.

        On a GPU a step is recorded once and replayed, and plain numbers would stay as they were when it was recorded; a
        number asked for in this way is kept in a tensor that is filled anew for every step.

        Args:
            of: the number as a function of the step's place in the run.
        """
        return of(self) if self.schedule is None else self.schedule(of)


class Method(ABC, Generic[StateT]):
    """A way from data to a posterior. A method is a final frozen dataclass of numbers: it is its own config.

    All members advance together: every tensor in a state that belongs to members has a leading axis of M. A method that
    is written for that axis makes an ensemble of itself at no cost.
    """

    batch_size: int | None
    """Examples per step; None for all of them."""
    whole_data: ClassVar[bool] = False
    """Whether a step makes sense with all the data only, so that a loader with several batches is refused."""
    graph_safe: ClassVar[bool] = False
    """Whether a step on a GPU may be recorded once and replayed for all others.

    That is so where all steps run the same operations, and every number that changes from step to step comes from
    `tick.rng` or `tick.scheduled`: whatever is read from `tick.step` in plain Python stays as it was recorded. A
    subclass says so for itself, since it may change the step.
    """
    noise_off: ClassVar[bool] = False
    """Whether noise that a network has in training is switched off, as for all samplers of weights."""
    start_from: ClassVar[StartFrom] = StartFrom.FRESH
    """The weights that the first state is made of."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "graph_safe" not in vars(cls):
            cls.graph_safe = False

    @property
    def members(self) -> int:
        """M."""
        return 1

    @property
    def needs_gradient(self) -> bool:
        """Whether the network's outputs must be differentiable by its weights."""
        return True

    @abstractmethod
    def steps(self, batches: int) -> int:
        """Number of steps of the whole run, when the data make so many batches."""

    def prepare(self, model: Model, x: Inputs) -> tuple[Model, tuple[str, ...]]:
        """The model as this method needs it, and what a person should know of the change.

        Args:
            model: the user's.
            x: a few inputs, to look at a forward pass.
        """
        return model, ()

    @abstractmethod
    def init(self, target: Target, variables: Variables, rng: Stream) -> StateT:
        """The state before the first step, from fresh or given weights of every member."""

    def begin_at(self, state: StateT, start: Posterior) -> StateT:
        """The first state, which has the weights of a posterior, with what else the method can take over from it.

        Args:
            state: that `init` has made of the posterior's networks.
            start: what the run begins with.
        """
        return state

    @abstractmethod
    def step(self, target: Target, state: StateT, batch: Batch, tick: Tick) -> tuple[StateT, Info]:
        """One step of all members. The tensors of the old state are consumed: they may be overwritten."""

    def attempt(self, target: Target, state: StateT, batch: Batch, tick: Tick) -> None:
        """As much of a step as tells how long steps take: what an execution plan is chosen by."""
        self.step(target, state, batch, tick)

    def finish(self, target: Target, state: StateT, batches: Iterable[Batch], tick: Tick) -> StateT:
        """The state after one more pass over the data, for what only the last weights can tell.

        The loop calls it once, after the last step; not when the run diverged or was stopped before. A run that is
        stopped in this pass has the state from before as its result, and makes the pass anew when it is resumed.

        Args:
            target: the density.
            state: after the last step; its tensors must stay as they are.
            batches: one epoch. The sum of `target.data_term(...)` over them is that over all data, as many times as
                there are batches.
            tick: its randomness is this pass's own.
        """
        return state

    def summary(self, target: Target, state: StateT, rng: Stream) -> Info:
        """Metrics of the state at the end of an epoch, (M,), beside those of the steps; no step needs them."""
        return {}

    def loss(self, target: Target, metrics: Info) -> Tensor | None:
        """The negative objective per example in an epoch, (M,), out of its metrics; None where there is none."""
        return None

    def held_out(self, target: Target, variables: Variables, batch: Batch, rng: Stream) -> Info | None:
        """What validation measures of each held-out example, (M, B), where that is not the log likelihood of y."""
        return None

    @abstractmethod
    def current(self, state: StateT) -> Variables:
        """The weights that stand for the state so far, one per member: what validation looks at."""

    def is_finite(self, state: StateT) -> Tensor:
        """Whether the numbers of each member are finite, (M,): those that are not have diverged."""
        return finite_members(self.current(state).params)

    @abstractmethod
    def posterior(self, target: Target, state: StateT) -> Posterior:
        """What is believed when the run ends in this state."""


@dataclass(frozen=True)
class SampledStates:
    """The draws of a sampler, in the order in which they came.

    Attributes:
        variables: weights of T states of M chains, (T * M, *shape): those of one step are neighbors.
        statistics: what the steps reported of them, (T, M) each.
    """

    variables: Variables
    statistics: Mapping[str, Tensor]


class Sampler(Method[StateT]):
    """A method whose posterior is made of states that its chains pass through.

    The loop copies the weights and the report of every step that is a draw, to memory or, when there is a checkpoint
    folder, to a file there, so that draws need not fit into memory and survive a kill.
    """

    @abstractmethod
    def is_draw(self, step: int, total: int) -> bool:
        """Whether the state after this step of the run is a draw."""

    @abstractmethod
    def from_draws(self, target: Target, state: StateT, draws: SampledStates) -> Posterior:
        """What is believed, given the draws; there is at least one."""

    def posterior(self, target: Target, state: StateT) -> Posterior:
        """What the present state alone says: all there is when a run ends before its first draw."""
        variables = self.current(state)
        return self.from_draws(target, state, SampledStates(variables, {}))
