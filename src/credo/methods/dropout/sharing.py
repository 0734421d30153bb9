"""Which weights have one noise level alpha in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass


class Sharing(ABC):
    """How the weights of a layer share their alpha."""

    @abstractmethod
    def shape(self, weight: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the alphas for a weight of this shape (outputs, inputs, ...), to be broadcast to it."""


@dataclass(frozen=True)
class PerLayer(Sharing):
    """One alpha for a layer, as one dropout rate."""

    def shape(self, weight: tuple[int, ...]) -> tuple[int, ...]:
        return (1,) * len(weight)


@dataclass(frozen=True)
class PerUnit(Sharing):
    """One alpha for each input unit, or input channel of a convolution."""

    def shape(self, weight: tuple[int, ...]) -> tuple[int, ...]:
        return (1, weight[1], *(1,) * (len(weight) - 2))


@dataclass(frozen=True)
class PerWeight(Sharing):
    """One alpha for each weight."""

    def shape(self, weight: tuple[int, ...]) -> tuple[int, ...]:
        return weight


SHARING: dict[str, Sharing] = {"layer": PerLayer(), "unit": PerUnit(), "weight": PerWeight()}
"""The names that `sharing=` takes in the place of a value."""


def resolved(sharing: Sharing | str) -> Sharing:
    if isinstance(sharing, Sharing):
        return sharing
    if not isinstance(sharing, str) or sharing not in SHARING:
        raise ValueError(f"sharing must be one of {', '.join(SHARING)}, or a value such as PerUnit(); got {sharing!r}")
    return SHARING[sharing]
