"""What a method is: numbers, and three functions that the loop calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Variables
from credo.model import Batch, Model, Target
from credo.posteriors import Posterior

State = Any
"""A frozen dataclass of tensors and trees of tensors: all that the next step needs, and nothing else."""

Info = dict[str, Tensor]
"""What only a person needs of a step: numbers per member, (M,), which the history averages over each epoch."""


Keeper = Callable[[Callable[["Tick"], float]], Tensor]


@dataclass(frozen=True)
class Tick:
    """Where in the run a step stands, and the noise that belongs to it.

    Attributes:
        step: number of this step, from 0.
        total: number of steps of the whole run.
        noise: this step's own stream.
    """

    step: int
    total: int
    noise: Stream
    keeper: Keeper | None = field(default=None, compare=False, repr=False)

    @property
    def fraction(self) -> float:
        """The part of the run that is over, 0 to 1."""
        return self.step / self.total

    def value(self, of: Callable[[Tick], float]) -> float | Tensor:
        """A number that changes from step to step, such as a learning rate.

        On a GPU a step is recorded once and replayed, and plain numbers would stay as they were when it was recorded; a
        number asked for in this way is kept in a tensor that is filled anew for every step.

        Args:
            of: the number as a function of the step's place in the run.
        """
        return of(self) if self.keeper is None else self.keeper(of)


class Method(ABC):
    """A way from data to a posterior. A method is a final frozen dataclass of numbers: it is its own config.

    All members advance together: every tensor in a state has a leading axis of M members. A method that is written
    for that axis makes an ensemble of itself at no cost.
    """

    batch_size: int | None
    """Examples per step; None for all of them."""
    whole_data: ClassVar[bool] = False
    """Whether a step makes sense with all the data only, so that a loader with several batches is refused."""
    recordable: ClassVar[bool] = True
    """Whether all steps run the same operations, so that one can be recorded on a GPU and replayed."""

    @property
    def members(self) -> int:
        """M."""
        return 1

    @property
    def follows_slopes(self) -> bool:
        """Whether the network must have slopes: outputs that can be differentiated by its weights."""
        return True

    @abstractmethod
    def steps(self, batches: int) -> int:
        """Number of steps of the whole run, when the data make so many batches."""

    def prepare(self, model: Model, x: Tensor) -> tuple[Model, tuple[str, ...]]:
        """The model as this method needs it, and what a person should know of the change.

        Args:
            model: the user's.
            x: a few inputs, to look at a forward pass.
        """
        return model, ()

    @abstractmethod
    def init(self, target: Target, variables: Variables, noise: Stream) -> State:
        """The state before the first step, from fresh or given weights of every member."""

    @abstractmethod
    def step(self, target: Target, state: State, batch: Batch, tick: Tick) -> tuple[State, Info]:
        """One step of all members. The tensors of the old state are consumed: they may be overwritten."""

    def attempt(self, target: Target, state: State, batch: Batch, tick: Tick) -> None:
        """As much of a step as tells how long steps take: what an execution plan is chosen by."""
        self.step(target, state, batch, tick)

    def summary(self, target: Target, state: State, noise: Stream) -> Info:
        """What a person is told of the state at the end of an epoch, beside what the steps told; no step needs it."""
        return {}

    @abstractmethod
    def current(self, state: State) -> Variables:
        """The weights that stand for the state so far, one per member: what validation looks at."""

    @abstractmethod
    def posterior(self, target: Target, state: State) -> Posterior:
        """What is believed when the run ends in this state."""


@dataclass(frozen=True)
class Kept:
    """The states that a sampler has kept, in the order in which they came.

    Attributes:
        variables: weights of T states of M chains, (T * M, *shape): those of one step are neighbours.
        statistics: what the steps reported of them, (T, M) each.
    """

    variables: Variables
    statistics: Mapping[str, Tensor]


class Sampler(Method):
    """A method whose posterior is made of states that its chains pass through.

    The loop copies the weights and the report of every step that is to be kept, to memory or, when there is a
    checkpoint folder, to a file there, so that draws need not fit into memory and survive a kill.
    """

    @abstractmethod
    def keeps(self, step: int, total: int) -> bool:
        """Whether the state after this step of the run is a draw."""

    @abstractmethod
    def collected(self, target: Target, state: State, kept: Kept) -> Posterior:
        """What is believed, given the states that were kept; there is at least one."""

    def posterior(self, target: Target, state: State) -> Posterior:
        """What the present state alone says: all there is when a run ends before its first draw."""
        variables = self.current(state)
        return self.collected(target, state, Kept(variables, {}))
