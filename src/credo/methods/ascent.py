"""What methods share that climb an objective by its gradient."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_options, check_positive
from credo.core.optimizers import Adam, Constant, Optimizer, Schedule
from credo.core.trees import Params
from credo.methods.base import Method, StateT, Tick
from credo.model import Target


@dataclass(frozen=True)
class Group:
    """Leaves that move with one step size."""

    leaves: Params  # what is moved, (M, *shape) each; they require a gradient
    memory: list[Tensor]  # the optimizer's, of these leaves
    learning_rate: float  # step size


LARGE = 2**22
"""Entries of the leaves from which on terms are differentiated one after the other: that takes less memory."""


def per_example_gradient(
    objective: Tensor | Sequence[Tensor], leaves: Sequence[Tensor], target: Target
) -> list[Tensor]:
    """Of objective / N, so that a learning rate means the same for any number N of data.

    Args:
        objective: on the scale of all the data, (M,), with a graph down to the leaves; or its terms.
        leaves: what it is differentiated by.
        target: whose number of data divides.
    """
    terms = [objective] if isinstance(objective, Tensor) else list(objective)
    if len(terms) == 1 or sum(leaf.numel() for leaf in leaves) < LARGE:
        total = reduce(torch.add, terms)
        return list(torch.autograd.grad(total.sum() / target.size, leaves, materialize_grads=True))
    # the same numbers: autograd would hold both gradients of a leaf, and their sum beside them
    for term in terms:
        torch.autograd.backward(term.sum() / target.size, inputs=list(leaves))
    return [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]


def leaves_of(tree: Mapping[str, Tensor]) -> Params:
    """The same tensors, in the same memory, as something to differentiate by."""
    return {name: t.detach().requires_grad_() for name, t in tree.items()}


@dataclass(frozen=True)
class GradientAscent(Method[StateT], ABC):
    """Epochs of minibatch steps by an optimizer, for all members at once.

    Args:
        epochs: passes over the data.
        learning_rate: step size of the optimizer.
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

    def ascend(self, objective: Tensor | Sequence[Tensor], groups: Sequence[Group], target: Target, tick: Tick) -> None:
        """Move the leaves of all groups, in place, up an objective (M,), or its terms, each at its own rate."""
        leaves = [leaf for group in groups for leaf in group.leaves.values()]
        terms = [objective] if isinstance(objective, Tensor) else objective
        found = iter(per_example_gradient([-term for term in terms], leaves, target))
        for group in groups:
            rate = tick.scheduled(self._scheduled(group.learning_rate))
            values = {name: leaf.detach() for name, leaf in group.leaves.items()}
            with torch.no_grad():
                self.optimizer.update(values, list(islice(found, len(values))), group.memory, rate)

    def _scheduled(self, learning_rate: float) -> Callable[[Tick], float]:
        return lambda now: learning_rate * self.schedule.factor(now.fraction)
