"""A target at each of many positions: a class per pixel, a number per token; some of them may not be observed."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from credo.core.arrays import check_finite
from credo.core.checks import check_kind, check_options
from credo.core.trees import Params
from credo.likelihoods.base import ClassLikelihood, Elements, Likelihood, NumericLikelihood
from credo.likelihoods.gaussian import MarginalGaussian

UNOBSERVED = -100
"""The class number of a position that was not observed, which is torch's own `ignore_index`."""

MASKED = -(2**63)
"""Where a mask says no, in whole numbers of which it is not known yet whether they are classes: nothing else is."""


@dataclass(frozen=True)
class AtPositions(Likelihood, ABC):
    """What likelihoods of classes and of numbers at positions share: every position is a row of the base.

    log p(y_b | f_b) = sum over the observed positions i of log p_base(y_bi | f_bi)
    """

    base: Likelihood
    axes: int
    class_axis: int = 1

    def __post_init__(self) -> None:
        check_options(self, base="likelihoods.Categorical()", axes="2")
        if self.axes < 1:
            raise ValueError(f"axes must be 1 or more, the number of axes of positions, got {self.axes}")
        if self.base.event_axes != 1:
            raise ValueError(f"{self.base} has positions of its own: give it alone")
        axis = self.class_axis if self.class_axis < 0 else self.class_axis - self.axes - 2
        if not -self.axes - 1 <= axis <= -1:
            raise ValueError(
                f"class_axis must be one of 1 to {self.axes + 1}, an axis of outputs (B, ...) with {self.axes} axes of "
                f"positions, got {self.class_axis}"
            )
        object.__setattr__(self, "class_axis", axis)
        object.__setattr__(self, "event_axes", self.axes + 1)

    @property
    @abstractmethod
    def columns(self) -> bool:
        """Whether targets have an axis of their own at each position, where the outputs have theirs."""

    @abstractmethod
    def missing(self, y: Tensor) -> Tensor:
        """Which entries of targets, as a person gave them, stand for what was not observed."""

    def held_by(self, dtype: torch.dtype) -> bool:
        return self.base.held_by(dtype)

    def observed(self, y: Tensor) -> Tensor:
        return ~(y.isnan() if y.is_floating_point() else y == UNOBSERVED)

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        y = self._in_layout(y)
        if y.is_floating_point():
            check_finite(torch.where(y.isnan(), 0.0, y))
        rows = self._rows(y) if self.columns else y.flatten()
        missing = self._missing_rows(rows)
        values = self._checked(rows[~missing], outputs)
        if self.columns and values.ndim == 1:
            values = values.unsqueeze(-1)
        shape = (len(rows), *values.shape[1:])
        full = values.new_full(shape, math.nan if values.is_floating_point() else UNOBSERVED)
        full[~missing] = values
        return self._back(full, y) if self.columns else full.reshape(y.shape)

    def _checked(self, observed: Tensor, outputs: int) -> Tensor:
        """Rows of targets as the base wants them."""
        return self.base.check_targets(observed, outputs)

    def _in_layout(self, y: Tensor) -> Tensor:
        """(B, *positions), or with the axis of columns where the outputs have it."""
        if y.ndim == self.axes + 2:
            if self.columns:
                return y
            for axis in (self.class_axis, -1):
                if y.shape[axis] == 1:
                    return y.squeeze(axis)
        elif y.ndim == self.axes + 1:
            return y.unsqueeze(self.class_axis) if self.columns else y
        wanted = "one class number" if not self.columns else "one number, or a column of them,"
        raise ValueError(
            f"y has shape {tuple(y.shape)}, and the network has outputs at {self.axes} axes of positions: y needs "
            f"{wanted} at each position, (B, {', '.join(['...'] * self.axes)})"
        )

    def _missing_rows(self, rows: Tensor) -> Tensor:
        missing = self.missing(rows)
        if not self.columns:
            return missing
        if bool((missing.any(-1) & ~missing.all(-1)).any()):
            raise ValueError(
                "y has positions at which some targets are observed and others not: a position is observed as a whole, "
                f"or not at all (its targets are taken to lie along axis {self.axes + 2 + self.class_axis}; "
                "Model(net, class_axis=...) says otherwise)"
            )
        return missing.all(-1)

    def _rows(self, values: Tensor) -> Tensor:
        """(..., B, *event) as rows (..., N, E), one for each position of each example."""
        return values.movedim(self.class_axis, -1).flatten(-self.axes - 2, -2)

    def _positions(self, like: Tensor) -> list[int]:
        """B and the lengths of the axes of positions."""
        sizes = list(like.shape[-self.axes - 2 :])
        del sizes[self.class_axis]
        return sizes

    def _back(self, rows: Tensor, like: Tensor) -> Tensor:
        """Rows (..., N, D) where the outputs have them, (..., B, *event)."""
        return _split(rows, -2, self._positions(like)).movedim(-1, self.class_axis)

    def _aligned(self, outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rows of outputs and of targets, and which of them were observed; the others hold numbers without meaning.

        They are replaced before anything is computed: not even a NaN among them reaches a result or a gradient.
        """
        rows = self._rows(outputs)
        targets = self._rows(y) if self.columns else y.flatten(-self.axes - 1)
        self._check_sizes(outputs, y)
        kept = self.observed(targets)
        kept = kept.all(-1) if self.columns else kept
        first = kept.int().argmax(-1, keepdim=True)  # any observed target is one that the base can take
        if self.columns:
            some = targets.take_along_dim(first.unsqueeze(-1), -2).nan_to_num()
            targets = torch.where(kept.unsqueeze(-1), targets, some)
        else:
            targets = torch.where(kept, targets, targets.take_along_dim(first, -1).clamp_min(0))
        return torch.where(kept.unsqueeze(-1), rows, 0.0), targets, kept

    def _check_sizes(self, outputs: Tensor, y: Tensor) -> None:
        if self._sizes(y) != self._positions(outputs):
            raise ValueError(
                f"y has targets at {_by(self._sizes(y)[1:])} positions of {self._sizes(y)[0]} examples, and the "
                f"network outputs at {_by(self._positions(outputs)[1:])} of {self._positions(outputs)[0]}: they must "
                "be the same"
            )

    def _sizes(self, y: Tensor) -> list[int]:
        return self._positions(y) if self.columns else list(y.shape[-self.axes - 1 :])

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        rows, targets, kept = self._aligned(outputs, y)
        each = torch.where(kept, self.base.log_prob(rows, targets, params), 0.0)
        return _split(each, -1, self._positions(outputs)).flatten(-self.axes).sum(-1)

    def log_prob_each(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        rows, targets, kept = self._aligned(outputs, y)
        each = self.base.log_prob_each(rows, targets, params)
        if not self.columns:
            return _split(torch.where(kept, each, 0.0), -1, self._positions(outputs))
        return self._back(torch.where(kept.unsqueeze(-1), each, 0.0), outputs)

    def elements(self, outputs: Tensor, y: Tensor | None, params: Params) -> Elements:
        rows = self._rows(outputs)
        if y is None:
            return Elements(self.base, rows, params)
        self._check_sizes(outputs, y)
        targets = self._rows(y) if self.columns else y.flatten()
        kept = self.observed(targets)
        kept = kept.all(-1) if self.columns else kept
        if not bool(kept.any()):
            raise ValueError("y has no position that was observed: there is nothing to compare the prediction with")
        if type(self.base) is MarginalGaussian:  # whose scales are those of single rows
            params = {name: value[..., kept, :] for name, value in params.items()}
        example = torch.arange(len(kept), device=kept.device).div(len(kept) // self._sizes(y)[0], rounding_mode="floor")
        return Elements(self.base, rows[..., kept, :], params, targets[kept], example[kept])

    def parameters(self, outputs: int) -> Params:
        return self.base.parameters(outputs)

    def log_prior(self, params: Params) -> Tensor | float:
        return self.base.log_prior(params)

    def draw_parameters(self, outputs: int, members: int, generator: torch.Generator) -> Params:
        return self.base.draw_parameters(outputs, members, generator)

    def hessian(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        """Of each position, (..., B, *positions, E, E); zero where nothing was observed."""
        rows, targets, kept = self._aligned(outputs, y)
        each = self.base.hessian(rows, targets, params)
        return _split(torch.where(kept[..., None, None], each, 0.0), -3, self._positions(outputs))

    def fisher(self, outputs: Tensor, params: Params) -> Tensor:
        """Of each position, (..., B, *positions, E, E)."""
        return _split(self.base.fisher(self._rows(outputs), params), -3, self._positions(outputs))

    def params_at(self, params: Params, rows: slice, examples: int) -> Params:
        return self.base.params_at(params, rows, examples)

    def fisher_root(self, outputs: Tensor, params: Params) -> Tensor:
        """Of each position, (..., B, *positions, E, R)."""
        return _split(self.base.fisher_root(self._rows(outputs), params), -3, self._positions(outputs))

    def observed_roots(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        """Roots of the Fisher information of each position, (..., B, N, E, R), zero where nothing was observed."""
        rows, _, kept = self._aligned(outputs, y)
        root = self.base.fisher_root(rows, params)
        count = outputs.shape[-self.axes - 2]
        root = torch.where(kept[..., None, None], root, 0.0)
        return root.reshape(*root.shape[:-3], count, -1, *root.shape[-2:])

    def at_rows(self, values: Tensor, like: Tensor) -> Tensor:
        """Numbers of each position, (..., B, N, E), where outputs have them."""
        return self._back(values.flatten(-3, -2), like)

    def in_units(self, outputs: Tensor, params: Params) -> tuple[Self, Tensor, Params]:
        base, rows, params = self.base.in_units(self._rows(outputs), params)
        return replace(self, base=base), self._back(rows, outputs), params

    def mean(self, outputs: Tensor, params: Params) -> Tensor:
        return self._back(self.base.mean(self._rows(outputs), params), outputs)

    def variance(self, outputs: Tensor, params: Params) -> Tensor:
        return self._back(self.base.variance(self._rows(outputs), params), outputs)

    def sample(self, outputs: Tensor, params: Params, generator: torch.Generator) -> Tensor:
        return self._placed(self.base.sample(self._rows(outputs), params, generator), outputs)

    def entropy(self, outputs: Tensor, params: Params) -> Tensor:
        return self._placed(self.base.entropy(self._rows(outputs), params), outputs)

    def _placed(self, rows: Tensor, like: Tensor) -> Tensor:
        """Rows with columns or without, (..., N, D) or (..., N), at their positions."""
        return self._back(rows, like) if self.columns else _split(rows, -1, self._positions(like))


@dataclass(frozen=True)
class ClassesAtPositions(AtPositions, ClassLikelihood):
    """A class, or D yes-or-no answers, at each position; `at_positions` makes it.

    Args:
        base: the likelihood of one position, such as `Categorical()` or `Bernoulli()`.
        axes: how many axes of positions there are: 2 for the pixels of an image, 1 for tokens.
        class_axis: where the outputs of a position lie, in (B, ...); stored as counted from the end.
        ignore_index: the class number of a position that was not observed. So do -100, and NaN among real numbers.
    """

    base: ClassLikelihood
    ignore_index: int = UNOBSERVED

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "exclusive", self.base.exclusive)

    @property
    def columns(self) -> bool:
        return not self.exclusive

    def _checked(self, observed: Tensor, outputs: int) -> Tensor:
        try:
            return super()._checked(observed, outputs)
        except ValueError as error:
            known = not self.exclusive or bool(((observed >= 0) & (observed < max(outputs, 2))).all())
            more = (
                f"; a position that was not observed has the class {self.ignore_index} (another number is "
                "ignore_index= of likelihoods.at_positions), or a mask says so, fit(..., mask=...)"
            )
            raise ValueError(f"{error}{'' if known else more}") from None

    def missing(self, y: Tensor) -> Tensor:
        if y.is_floating_point():
            return (y == self.ignore_index) | (y == UNOBSERVED) | y.isnan()
        classes = y.long()  # a short type would compare with these numbers modulo its size
        return (classes == self.ignore_index) | (classes == UNOBSERVED) | (classes == MASKED)


@dataclass(frozen=True)
class NumbersAtPositions(AtPositions, NumericLikelihood):
    """Numbers at each position; `at_positions` makes it. A learned scale is shared by all positions.

    Args:
        base: the likelihood of one position, such as `LearnedGaussian()`.
        axes: how many axes of positions there are: 2 for the pixels of an image, 1 for the steps of a series.
        class_axis: where the outputs of a position lie, in (B, ...); stored as counted from the end.
    """

    base: NumericLikelihood

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "discrete", self.base.discrete)

    @property
    def columns(self) -> bool:
        return True

    def missing(self, y: Tensor) -> Tensor:
        return y.isnan() if y.is_floating_point() else y.long() == MASKED

    def cdf(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return self._back(self.base.cdf(self._rows(outputs), self._values(y), params), outputs)

    def survival(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return self._back(self.base.survival(self._rows(outputs), self._values(y), params), outputs)

    def _values(self, y: Tensor) -> Tensor:
        return self._rows(y) if y.ndim else y

    def spread(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        lower, upper = self.base.spread(self._rows(outputs), params)
        return self._back(lower, outputs), self._back(upper, outputs)


def at_positions(
    base: Likelihood, axes: int, class_axis: int = 1, ignore_index: int | None = None
) -> ClassesAtPositions | NumbersAtPositions:
    """A likelihood of one target for each of many positions: pixels, tokens, steps of a series.

    log p(y_b | f_b) = sum over the observed positions i of log p_base(y_bi | f_bi)

    `fit` makes it for a network whose outputs have positions. Masks are written into the targets: a class of -100, or a
    NaN, is a position that was not observed. Predictions have the shapes of the outputs.

    Args:
        base: the likelihood of one position.
        axes: how many axes of positions there are: 2 for the pixels of an image, 1 for tokens.
        class_axis: where the E outputs of a position lie, in outputs (B, ...): 1 for (B, K, H, W), -1 for (B, T, K).
        ignore_index: another class number of positions that were not observed.

    Examples:
        >>> import torch
        >>> from credo.likelihoods import Categorical, at_positions
        >>> pixels = at_positions(Categorical(), axes=2, class_axis=1)
        >>> y = torch.tensor([[[0, 2, -100], [1, 1, -100]]])
        >>> pixels.log_prob(torch.zeros(1, 4, 2, 3), y, {}).exp()
        tensor([0.0039])
    """
    check_kind("base", base, "likelihoods.Categorical()", Likelihood)
    if isinstance(base, ClassLikelihood):
        return ClassesAtPositions(base, axes, class_axis, UNOBSERVED if ignore_index is None else ignore_index)
    if not isinstance(base, NumericLikelihood):
        raise TypeError(
            f"{type(base).__name__} is neither a NumericLikelihood nor a ClassLikelihood, so it is not known what a "
            "target at a position is: derive it from one of them, or let it take outputs with positions itself, and "
            "say so by event_axes and class_axis"
        )
    if ignore_index is not None:
        raise ValueError("ignore_index is for classes: numbers that were not observed are NaN in y")
    return NumbersAtPositions(base, axes, class_axis)


def _split(values: Tensor, axis: int, sizes: list[int]) -> Tensor:
    """One axis, counted from the end, as several."""
    shape = values.shape
    return values.reshape(*shape[: len(shape) + axis], *sizes, *shape[len(shape) + axis + 1 :])


def _by(sizes: list[int]) -> str:
    return " x ".join(map(str, sizes))
