"""What the methods share that drop units or weights: gradient ascent on an evidence bound."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from credo.core.trees import Params
from credo.methods.ascent import GradientAscent
from credo.methods.base import Tick
from credo.model import Model, Target
from credo.priors import Normal


@dataclass(frozen=True)
class Group:
    """Leaves that move with one step size.

    Attributes:
        leaves: what is moved, (M, *shape) each; they require a gradient.
        memory: the optimiser's, of these leaves.
        learning_rate: step size.
    """

    leaves: Params
    memory: list[Tensor]
    learning_rate: float


def leaves_of(tree: Mapping[str, Tensor]) -> Params:
    """The same tensors, in the same memory, as something to differentiate by."""
    return {name: t.detach().requires_grad_() for name, t in tree.items()}


@dataclass(frozen=True)
class DropoutMethod(GradientAscent):
    """Gradient ascent on the evidence bound of a distribution that drops units or weights, for all members at once."""

    @abstractmethod
    def prepare(self, model: Model, x: Tensor) -> tuple[Model, tuple[str, ...]]:
        """The model with dropout in it, and where it is."""

    def ascend(self, groups: Sequence[Group], bound: Tensor, target: Target, tick: Tick) -> None:
        """Move the leaves of all groups, in place, up the bound (M,), which is on the scale of the full data."""
        leaves = [t for group in groups for t in group.leaves.values()]
        # divided by the number of data, so that a learning rate means the same for any N
        gradients = iter(torch.autograd.grad(-bound.sum() / target.size, leaves))
        for group in groups:
            rate = tick.value(self._pace(group.learning_rate))
            slopes = list(islice(gradients, len(group.leaves)))
            with torch.no_grad():
                self.optimizer.update({n: t.detach() for n, t in group.leaves.items()}, slopes, group.memory, rate)

    def _pace(self, learning_rate: float) -> Callable[[Tick], float]:
        return lambda now: learning_rate * self.schedule.factor(now.fraction)


def with_length_scale(model: Model, length_scale: float | None) -> Model:
    """The model with the prior N(0, 1 / l^2) for all weights; None leaves its own."""
    if length_scale is None:
        return model
    return Model(model.network, model.given_likelihood, Normal(1.0 / length_scale))
