"""Initial values of means and of rho."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from credo.core.checks import check_finite, check_options, check_positive
from credo.core.rng import Stream
from credo.core.trees import Params


class Initializer(ABC):
    """How every entry of a tree of tensors gets its initial value."""

    @abstractmethod
    def fill(self, like: Params, rng: Stream) -> Params:
        """New tensors in the shapes of others."""


@dataclass(frozen=True)
class ConstantInit(Initializer):
    """The same value everywhere."""

    value: float

    def __post_init__(self) -> None:
        check_options(self)
        check_finite("value", self.value)

    def fill(self, like: Params, rng: Stream) -> Params:
        return {name: torch.full_like(t, self.value) for name, t in like.items()}


@dataclass(frozen=True)
class UniformInit(Initializer):
    """Uniform between two values."""

    low: float
    high: float

    def __post_init__(self) -> None:
        check_options(self)
        check_finite("low", self.low)
        check_finite("high", self.high)
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got {self.low} and {self.high}")

    def fill(self, like: Params, rng: Stream) -> Params:
        generator = rng.generator(next(iter(like.values())).device)
        return {
            name: torch.empty_like(t).uniform_(self.low, self.high, generator=generator) for name, t in like.items()
        }


@dataclass(frozen=True)
class NormalInit(Initializer):
    """Normal around zero with this standard deviation."""

    scale: float

    def __post_init__(self) -> None:
        check_options(self)
        check_positive("scale", self.scale)

    def fill(self, like: Params, rng: Stream) -> Params:
        return {name: t.mul_(self.scale) for name, t in rng.normal_like(like).items()}


def rho_of(scale: float) -> float:
    """The inverse of softplus: rho with softplus(rho) = scale."""
    return scale + math.log(-math.expm1(-scale))
