"""How the outputs of a network say what may be observed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from credo.core.arrays import check_finite as check_finite
from credo.core.config import Registry
from credo.core.trees import Params


class Elements(NamedTuple):
    """What was observed, element by element: rows of outputs and targets, and the likelihood of one of them."""

    likelihood: Likelihood
    outputs: Tensor  # (..., N, E)
    params: Params  # of the likelihood
    y: Tensor | None = None  # (N, D), or (N,) for classes
    example: Tensor | None = None  # the number of the example that each of them belongs to, (N,)


class Likelihood(ABC):
    """The distribution of a target, given a network's outputs.

    Shapes: outputs are (..., B, E) with any axes for draws or members in front; the likelihood's own learned parameters
    are (..., D) with the same axes in front; targets are (B, D), or (B,) for classes, and broadcast against the front.
    A likelihood whose outputs have more axes after the batch, (..., B, *event), says so by `event_axes`; one with a
    target at each of many positions is made by `at_positions`.

    Subclasses are registered by their names, so that `credo.load` can make them from their numbers.

    Attributes:
        event_axes: how many axes the outputs of one example have.
        class_axis: which of them holds the E outputs of a class or target, counted from the end.
    """

    event_axes: int = 1
    class_axis: int = -1

    registry: ClassVar = Registry("likelihood")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.registry.add(cls)

    @abstractmethod
    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        """The targets in the likelihood's own shape and type, or a sentence that says what is wrong with them.

        Args:
            y: targets as the user gave them.
            outputs: E, the number of outputs of the network.
        """

    def outputs_of(self, shape: tuple[int, ...]) -> int:
        """E, for outputs whose shape for one example is this, or a sentence where the likelihood does not take them."""
        if len(shape) != self.event_axes:
            wanted = "outputs" if self.event_axes == 1 else ", ".join(["..."] * self.event_axes)
            got = "".join(f", {size}" for size in shape) or ","
            raise ValueError(
                f"the network returns outputs of shape (B{got}), and {type(self).__name__} needs (B, {wanted})"
                + ("; unsqueeze(1) makes a column of them" if not shape else "")
            )
        return shape[self.class_axis]

    def held_by(self, dtype: torch.dtype) -> bool:
        """Whether numbers of this precision hold the targets and show the differences between them."""
        return True

    def observed(self, y: Tensor) -> Tensor | None:
        """Which elements of targets (B, ...) were observed, in the shape of `log_prob_each`; None for all of them."""
        return None

    def elements(self, outputs: Tensor, y: Tensor | None, params: Params) -> Elements:
        """The elements of all examples that were observed, or all there are, as examples of their own."""
        if self.event_axes > 1:
            raise ValueError(f"{type(self).__name__} does not say what its elements are: give it a method elements")
        return Elements(self, outputs, params, y, torch.arange(outputs.shape[-2], device=outputs.device))

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

    def hessian(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        """-d^2 log p(y | f) / df^2 of each example, (..., B, E, E): the curvature that these targets show.

        By automatic differentiation; it may have negative eigenvalues.
        """
        with torch.enable_grad():
            leaf = outputs.detach().requires_grad_()
            total = self.log_prob(leaf, y, params).sum()  # examples do not share outputs
            (gradient,) = torch.autograd.grad(total, leaf, create_graph=True)
            each = (gradient[..., i].sum() + 0.0 * leaf.sum() for i in range(outputs.shape[-1]))
            rows = [-torch.autograd.grad(entry, leaf, retain_graph=True)[0] for entry in each]
        return torch.stack(rows, dim=-2)

    def log_prob_each(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        """log p of each element on its own: (..., B) for one class, (..., B, D) for D separate targets.

        What was not observed has log p = 0.
        """
        raise ValueError(
            f"{type(self).__name__} does not say the log probabilities of single elements: give it a method "
            "log_prob_each(outputs, y, params)"
        )

    def fisher(self, outputs: Tensor, params: Params) -> Tensor:
        """E_y[-d^2 log p(y | f) / df^2] of each example, (..., B, E, E), y drawn from the model: never negative.

        It is the curvature of the generalized Gauss-Newton matrix.
        """
        raise ValueError(
            f"{type(self).__name__} does not say its curvature in the outputs: give it a method fisher(outputs, params)"
        )

    def params_at(self, params: Params, rows: slice, examples: int) -> Params:
        """The learned parameters for some of the examples; all examples share them, unless a likelihood says otherwise.

        Args:
            params: for all examples.
            rows: which examples.
            examples: B, how many there are.
        """
        return params

    def total_fisher(self, outputs: Tensor, params: Params, weight: Tensor) -> Tensor:
        """sum_b weight_b fisher_b, (..., E, E), of outputs (..., B, E)."""
        return torch.einsum("b,...bij->...ij", weight, self.fisher(outputs, params))

    def fisher_root(self, outputs: Tensor, params: Params) -> Tensor:
        """S with S S^T = fisher, (..., B, E, R), R columns for each example."""
        fisher = self.fisher(outputs, params)
        diagonal = fisher.diagonal(dim1=-2, dim2=-1)
        if torch.equal(torch.diag_embed(diagonal), fisher):
            return torch.diag_embed(diagonal.clamp_min(0.0).sqrt())
        values, vectors = torch.linalg.eigh(fisher)
        return vectors * values.clamp_min(0.0).sqrt().unsqueeze(-2)

    def in_units(self, outputs: Tensor, params: Params) -> tuple[Likelihood, Tensor, Params]:
        """The same distributions by a likelihood, outputs and parameters in the units of the target.

        A likelihood that computes in other units says how; all others are in them already.
        """
        return self, outputs, params

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
    """A likelihood of numbers that have an order, so that there are quantiles and intervals.

    Attributes:
        discrete: whether targets are whole numbers.
        logarithmic: whether targets are above zero and their logarithms are what is smooth and even: quantiles are
            sought, and moments integrated, over log y.
    """

    discrete: bool = False
    logarithmic: bool = False

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return self.log_prob_each(outputs, y, params).sum(-1)

    @abstractmethod
    def cdf(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        """P(target <= y), (..., B, D)."""

    def survival(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        """P(target > y), (..., B, D); to be overridden where small probabilities can be had without cancellation."""
        return 1.0 - self.cdf(outputs, y, params)

    @abstractmethod
    def log_prob_each(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        """log p of each target on its own, (..., B, D)."""

    @abstractmethod
    def spread(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        """Lower and upper ends between which all but a negligible part (1e-12) of the mass lies, (..., B, D)."""

    def knots(self, outputs: Tensor, params: Params) -> Tensor | None:
        """Places from end to end where integrals over a density with a heavy tail are cut, (K, ..., B, D), rising.

        None where even pieces of the span do.
        """
        return None


class ClassLikelihood(Likelihood, ABC):
    """A likelihood of classes, or of several separate yes-or-no targets.

    Attributes:
        exclusive: whether an example has one of K classes, whose probabilities sum to one, rather than D separate
            answers. The entropy is then (..., B), otherwise (..., B, D).
    """

    exclusive: bool = True

    def log_prob_each(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        log_prob = self.log_prob(outputs, y, params)
        if self.exclusive:
            return log_prob
        return log_prob.unsqueeze(-1) if y.shape[-1] == 1 else super().log_prob_each(outputs, y, params)


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
