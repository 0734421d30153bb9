"""How the outputs of a network say what may be observed."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from credo.core.trees import Params


class Likelihood(ABC):
    """The distribution of a target, given a network's outputs.

    Shapes: outputs are (..., B, E) with any axes for draws or members in front; the likelihood's own learned parameters
    are (..., D) with the same axes in front; targets are (B, D), or (B,) for classes, and broadcast against the front.
    """

    @abstractmethod
    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        """The targets in the likelihood's own shape and type, or a sentence that says what is wrong with them.

        Args:
            y: targets as the user gave them.
            outputs: E, the number of outputs of the network.
        """

    def parameters(self, outputs: int) -> Params:
        """First values of what the likelihood itself learns, without member axis."""
        return {}

    def log_prior(self, params: Params) -> Tensor | float:
        """Log density of the learned parameters, (...)."""
        return 0.0

    def draw_parameters(self, outputs: int, members: int, generator: torch.Generator) -> Params:
        """Draws of the learned parameters from their prior, (members, *shape) each: what `parameters` names."""
        return {}

    @abstractmethod
    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        """log p(y | outputs) of each example, summed over its D targets: (..., B)."""

    @abstractmethod
    def mean(self, outputs: Tensor, params: Params) -> Tensor:
        """Expected target, (..., B, D); for classes the probabilities."""

    @abstractmethod
    def variance(self, outputs: Tensor, params: Params) -> Tensor:
        """Variance of the target, (..., B, D); for classes that of the one-hot vector."""

    @abstractmethod
    def sample(self, outputs: Tensor, params: Params, generator: torch.Generator) -> Tensor:
        """One target for every entry of outputs."""

    @abstractmethod
    def entropy(self, outputs: Tensor, params: Params) -> Tensor:
        """Entropy of the target in nats: (..., B) for classes, (..., B, D) for D separate targets."""


class NumericLikelihood(Likelihood):
    """A likelihood of numbers that have an order, so that there are quantiles and intervals."""

    discrete: bool = False

    @abstractmethod
    def cdf(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        """P(target <= y), (..., B, D)."""

    @abstractmethod
    def density(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        """log p of each target on its own, (..., B, D)."""

    @abstractmethod
    def spread(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        """Lower and upper ends between which all but a negligible part (1e-12) of the mass lies, (..., B, D)."""


def as_columns(y: Tensor, outputs: int, name: str, per_target: int = 1) -> Tensor:
    """Targets as real numbers (B, D), where the network has `per_target` outputs for each of D targets."""
    if y.ndim not in (1, 2):
        raise ValueError(
            f"y has shape {tuple(y.shape)}: likelihoods.{name} needs one row per example and one column per target"
        )
    if y.ndim == 1:
        y = y.unsqueeze(1)
    if y.shape[1] * per_target != outputs:
        raise ValueError(
            f"y has {y.shape[1]} column(s) and the network {outputs} output(s): likelihoods.{name} needs "
            f"{per_target} output(s) per column of y"
        )
    return y if y.is_floating_point() else y.to(torch.get_default_dtype())


def check_finite(y: Tensor) -> None:
    bad = ~torch.isfinite(y)
    if bool(bad.any()):
        row = int(bad.nonzero()[0, 0])
        raise ValueError(
            f"y has NaN or infinite values ({int(bad.sum())}, the first in row {row}): remove or fill them"
        )
