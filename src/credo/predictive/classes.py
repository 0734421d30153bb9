"""Predictions of classes: probabilities, labels and sets of them."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from credo.core.checks import check_between
from credo.likelihoods import ClassLikelihood
from credo.likelihoods.base import Elements
from credo.predictive.base import Predictive

NEARLY_ONE = 0.05
"""By how much a sum of probabilities may differ from one, in half precision too."""


class SetRule(Protocol):
    """What gives sets of classes a guarantee."""

    def includes(self, probs: Tensor, level: float) -> Tensor:
        """Which classes belong to the set of this level, (..., K), given their probabilities."""


@dataclass(frozen=True, eq=False, repr=False)
class ClassPredictive(Predictive, ABC):
    """A mixture over classes, or over D separate yes-or-no targets.

    Attributes:
        conformal: what gives sets of classes their guarantee; None for sets by the probabilities themselves.
    """

    likelihood: ClassLikelihood
    conformal: SetRule | None = field(default=None, kw_only=True)

    @property
    def probs(self) -> Tensor:
        """Probabilities: (B, K) of the K classes, or (B, D) of yes."""
        return self.mean

    @property
    def label(self) -> Tensor:
        """The most probable class (B,), or yes / no as 1 / 0 (B, D)."""
        if not self.likelihood.exclusive:
            return (self.probs > 0.5).long()
        self._check_classes()
        return self.probs.argmax(self.likelihood.class_axis)

    @cached_property
    def entropy(self) -> Tensor:
        each = torch.special.entr(self.probs)
        if not self.likelihood.exclusive:
            return each + torch.special.entr(1.0 - self.probs)
        self._check_classes()
        return each.sum(self.likelihood.class_axis)

    def prediction_set(self, level: float = 0.95) -> Tensor:
        """Which classes may be the right one, (B, K) of True and False: what an interval is for numbers.

        Where there are positions, in the shape of the outputs, such as (B, K, H, W).

        The most probable classes whose probabilities add up to `level` or more, or those that a conformal calibrator
        names so that the right one is among them with this probability. The most probable class always belongs to it.
        """
        check_between("level", level)
        if not self.likelihood.exclusive:
            raise ValueError("a set of classes is for one of K classes: these targets are separate yes-or-no answers")
        self._check_classes()
        probs = self.probs.movedim(self.likelihood.class_axis, -1)
        found = _most_probable(probs, level) if self.conformal is None else self.conformal.includes(probs, level)
        return found.movedim(-1, self.likelihood.class_axis)

    def _check_classes(self) -> None:
        """A likelihood that has one class per example must not have probabilities of several."""
        total = self.probs.sum(self.likelihood.class_axis)
        if bool(((total - 1.0).abs() > NEARLY_ONE).any()):
            raise ValueError(
                f"the probabilities of {type(self.likelihood).__name__} add up to {float(total.max()):.4g} for an "
                "example, where it says that classes exclude each other: for a class at each of many positions let the "
                "network return (B, K, positions) and use likelihoods.at_positions(...); for separate yes-or-no "
                "answers set exclusive = False"
            )

    def _mixture(self, found: Elements) -> ClassMixture:
        likelihood, outputs, params = found.likelihood.in_units(found.outputs, found.params)
        assert isinstance(likelihood, ClassLikelihood)
        return ClassMixture(likelihood, outputs, params, self.log_weights, conformal=self.conformal)


def _most_probable(probs: Tensor, level: float) -> Tensor:
    """The most probable of K classes whose probabilities (..., K) add up to the level."""
    ordered = probs.double().sort(dim=-1, descending=True, stable=True)
    before = ordered.values.cumsum(-1) - ordered.values
    return torch.zeros_like(before, dtype=torch.bool).scatter(-1, ordered.indices, before < level)


@dataclass(frozen=True, eq=False, repr=False)
class ClassMixture(ClassPredictive):
    """A mixture of drawn functions, over classes or D separate yes-or-no targets."""
