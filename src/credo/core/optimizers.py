"""Gradient steps on trees of tensors: torch's own update rules, with their state in the open."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from credo.core.checks import check_not_negative, check_options, check_positive, check_rate, fractions
from credo.core.trees import Params

Rate = float | Tensor
"""A learning rate; a tensor where steps are recorded and replayed."""


class Optimizer(ABC):
    """An update rule. Its state is a list of tensors, so that it travels with a method's state.

    `update` works in place: the tensors it is given are consumed.
    """

    @abstractmethod
    def init(self, params: Params) -> list[Tensor]:
        """The state before the first step."""

    @abstractmethod
    def update(self, params: Params, gradients: list[Tensor], state: list[Tensor], learning_rate: Rate) -> None:
        """Move the parameters against the gradients."""


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam (Kingma and Ba 2015).

    Reference: D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization", 2015, https://arxiv.org/abs/1412.6980
    """

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        check_options(self)
        check_rate("beta_1", self.beta_1)
        check_rate("beta_2", self.beta_2)
        check_positive("epsilon", self.epsilon)

    def init(self, params: Params) -> list[Tensor]:
        first = [torch.zeros_like(p) for p in params.values()]
        second = [torch.zeros_like(p) for p in params.values()]
        steps = [torch.zeros((), dtype=torch.float32, device=p.device) for p in params.values()]
        return [*first, *second, *steps]

    def update(self, params: Params, gradients: list[Tensor], state: list[Tensor], learning_rate: Rate) -> None:
        n, weights = len(params), list(params.values())
        gradients = [_laid_out_as(p, g) for p, g in zip(weights, gradients, strict=True)]
        steps = state[2 * n :]
        lists: Any = (weights, gradients, state[:n], state[n : 2 * n], [], steps)
        numbers: Any = {"lr": learning_rate, "beta1": self.beta_1, "beta2": self.beta_2, "eps": self.epsilon}
        numbers |= {"weight_decay": 0.0, "amsgrad": False, "maximize": False}
        alike = all(p.device.type == "cpu" and p.dtype == weights[0].dtype for p in weights)
        if isinstance(learning_rate, float) and weights and alike:
            # what `adam` below ends in; for small networks, its way there takes longer than the kernel
            for step in steps:
                step.add_(1.0)
            torch._fused_adam_(*lists, **numbers)
        else:
            adam(*lists, foreach=False, fused=True, **numbers)  # type: ignore[misc]


def _laid_out_as(param: Tensor, gradient: Tensor) -> Tensor:
    """The gradient with its entries where the parameter has them in memory.

    torch's fused kernel for the CPU goes through memory without looking at strides, and the gradients of vectorized
    members come transposed.
    """
    if gradient.stride() == param.stride():
        return gradient
    return torch.empty_like(param).copy_(gradient)


@dataclass(frozen=True)
class SGD(Optimizer):
    """Gradient descent, with heavy-ball momentum when it is not zero."""

    momentum: float = 0.0

    def __post_init__(self) -> None:
        check_options(self)
        check_rate("momentum", self.momentum)

    def init(self, params: Params) -> list[Tensor]:
        return [torch.zeros_like(p) for p in params.values()] if self.momentum else []

    def update(self, params: Params, gradients: list[Tensor], state: list[Tensor], learning_rate: Rate) -> None:
        sgd(
            list(params.values()),
            [_laid_out_as(p, g) for p, g in zip(params.values(), gradients, strict=True)],
            list(state) if self.momentum else [None] * len(params),
            foreach=False,
            fused=True,
            weight_decay=0.0,
            momentum=self.momentum,
            lr=learning_rate,  # type: ignore[arg-type]  # a tensor too, where the kernel is fused
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )


class Schedule(ABC):
    """How the learning rate changes in the course of a run."""

    @abstractmethod
    def factor(self, fraction: float) -> float:
        """What the learning rate is multiplied by when `fraction` (0 to 1) of the run is over."""


@dataclass(frozen=True)
class Constant(Schedule):
    """The same learning rate from beginning to end."""

    def factor(self, fraction: float) -> float:
        return 1.0


@dataclass(frozen=True)
class Cosine(Schedule):
    """Half a cosine from 1 down to `final`."""

    final: float = 0.0

    def __post_init__(self) -> None:
        check_options(self)
        check_not_negative("final", self.final)

    def factor(self, fraction: float) -> float:
        return self.final + (1.0 - self.final) * 0.5 * (1.0 + math.cos(math.pi * fraction))


@dataclass(frozen=True)
class StepDecay(Schedule):
    """Multiplied by `by` at each of the given fractions of the run."""

    at: tuple[float, ...] = (0.5,)
    by: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", fractions("at", self.at))
        check_options(self)
        check_positive("by", self.by)

    def factor(self, fraction: float) -> float:
        return self.by ** sum(fraction >= point for point in self.at)
