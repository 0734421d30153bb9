"""What methods share that climb an objective of the weights by the gradient."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass

from credo.core.checks import check_at_least, check_options, check_positive
from credo.core.optimizers import Adam, Constant, Optimizer, Schedule
from credo.methods.base import Method


@dataclass(frozen=True)
class GradientAscent(Method, ABC):
    """Epochs of minibatch steps by an optimiser, for all members at once.

    Args:
        epochs: passes over the data.
        learning_rate: step size of the optimiser.
        batch_size: examples per step; None for all of them.
        optimizer: the update rule.
        schedule: how the learning rate changes in the course of the run.
    """

    epochs: int = 100
    learning_rate: float = 1e-3
    batch_size: int | None = 128
    optimizer: Optimizer = Adam()
    schedule: Schedule = Constant()

    def __post_init__(self) -> None:
        check_options(self)
        check_at_least("epochs", self.epochs, 1)
        check_positive("learning_rate", self.learning_rate)
        if self.batch_size is not None:
            check_at_least("batch_size", self.batch_size, 1)

    def steps(self, batches: int) -> int:
        return self.epochs * batches
