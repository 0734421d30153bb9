"""Inputs and targets of order one inside a model of which nothing was given but the network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from credo.core.arrays import shown_by
from credo.core.inputs import Inputs, is_graph, leaves_of
from credo.core.moments import ENTRIES, ColumnMoments
from credo.core.trees import Variables
from credo.likelihoods import LearnedGaussian, Likelihood, Standardized
from credo.loop.batches import Source
from credo.loop.roles import Examples
from credo.model import Model
from credo.nets.scaling import InputScaling, LeafScaling
from credo.nets.uses import uses

IMAGE_AXES = 4
"""Axes, the batch included, from which on the second is taken for channels."""
SHARED_COLUMNS = 16
"""Columns of which a tensor must have so many to be taken for one picture rather than for a table."""
SHARED_RANGE = 0.25
"""Part of the columns with the same lowest and highest value that shows a picture."""
MASKED = -1e4
"""Numbers from here on down, beside zeros, are the mask of an attention."""

TARGETS = "/targets"
"""A name that no path of an input has."""


@dataclass(frozen=True)
class Standards:
    """What a model is standardized by; None for what is left as it is."""

    inputs: InputScaling | None = None
    targets: tuple[tuple[float, ...], tuple[float, ...]] | None = None  # loc and scale

    def put_into(self, model: Model) -> Model:
        """The model in standardized numbers, whose inputs and targets are those of the user."""
        network, likelihood = model.network, model.likelihood
        if self.inputs is not None:
            network = network.with_scaling(self.inputs)
        if self.targets is not None and type(likelihood) is LearnedGaussian:
            likelihood = Standardized(likelihood, *self.targets)
        return model.with_network(network).with_likelihood(likelihood)

    def held_by(self, dtype: torch.dtype) -> bool:
        """Whether numbers of this precision hold the data and show the differences between examples."""
        targets = self.targets is None or all(shown_by(dtype, *each) for each in zip(*self.targets, strict=True))
        return targets and (self.inputs is None or self.inputs.held_by(dtype))


def standards_of(model: Model) -> Standards:
    """Those of a model that has been standardized before."""
    likelihood = model.given_likelihood
    targets = (likelihood.loc, likelihood.scale) if type(likelihood) is Standardized else None
    return Standards(model.network.scaling, targets)


@dataclass(frozen=True)
class Wanted:
    """What of a model may be standardized, and sentences about what may not."""

    inputs: tuple[str, ...]  # paths of tensors
    targets: bool
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.inputs) or self.targets


def wanted(model: Model, variables: Variables, x: Inputs, y: Any) -> Wanted:
    """Look at what the network does with inputs like x, and where its outputs come from."""
    real = {path: t for path, t in leaves_of(x).items() if t.is_floating_point()}
    if is_graph(x):  # which edges there are is no feature
        real = {path: t for path, t in real.items() if t.ndim != 2 or t.shape[0] != t.shape[1]}
    numbers = type(model.likelihood) is LearnedGaussian and isinstance(y, Tensor) and y.ndim in (1, 2)
    if not real and not numbers:
        return Wanted((), targets=False)
    found, notes = uses(model.network, variables, x), list[str]()
    for path, function in found.inputs.items():
        if path in real and not _is_mask(real[path]):
            notes.append(
                f"{named(path)} is not standardized: the network computes with the numbers themselves ({function}) "
                "before a layer has them"
            )
    if numbers and found.outputs:
        notes.append(
            f"y is not standardized: the network's outputs come out of {found.outputs}, which may have a range or "
            "units of its own; scale y to order one if it is far from it"
        )
    free = tuple(path for path in real if path not in found.inputs)
    return Wanted(free, numbers and not found.outputs, tuple(notes))


def named(path: str) -> str:
    """A tensor of the inputs, for a person."""
    return f"x[{path!r}]" if path else "x"


@dataclass(frozen=True)
class Measured:
    """What is known of one tensor of the inputs, or of the targets."""

    moments: ColumnMoments
    positions: int  # axes behind the features
    mask: bool  # whether it says yes and no, or what an attention must not see

    def joined(self, other: Measured) -> Measured:
        return Measured(self.moments.joined(other.moments), self.positions, self.mask and other.mask)

    @property
    def numbers(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """What is subtracted, and what the rest is divided by."""
        return tuple(self.moments.mean.tolist()), tuple(self.moments.scale.tolist())

    @property
    def settled(self) -> Measured:
        """With one mean for the many columns of a picture that was flattened: most have the same range."""
        found = self.moments
        lowest, highest = found.lowest.min(), found.highest.max()
        shared = (found.lowest == lowest) & (found.highest == highest)
        if len(shared) < SHARED_COLUMNS or float(shared.double().mean()) < SHARED_RANGE:
            return self
        center = found.mean.mean()
        spread = (found.spread.square() + (found.mean - center).square()).mean().sqrt()
        mean, spread, lowest, highest = (t.reshape(1) for t in (center, spread, lowest, highest))
        pooled = ColumnMoments(found.count * len(shared), mean, spread, lowest, highest, found.resolution)
        return replace(self, moments=pooled)


Found = dict[str, Measured]


def measured(wanted: Wanted, source: Source, model: Model, outputs: int) -> Found:
    """Means and standard deviations of all examples, by their weights, in one pass."""
    parts = (_found(wanted, each, model.likelihood, outputs) for each in source.all_examples())
    whole = reduce(lambda one, other: {path: item.joined(other[path]) for path, item in one.items()}, parts)
    return {path: item.settled for path, item in whole.items() if path == TARGETS or not item.mask}


def standards_from(found: Found) -> Standards:
    """What inputs and targets with these means and standard deviations are standardized by."""
    targets = found.get(TARGETS)
    leaves = tuple(LeafScaling(path, *m.numbers, m.positions) for path, m in found.items() if path != TARGETS)
    return Standards(InputScaling(leaves) if leaves else None, None if targets is None else targets.numbers)


def _found(wanted: Wanted, data: Examples, likelihood: Likelihood, outputs: int) -> Found:
    """Of one part of the examples."""
    x, y, weights = data
    leaves, by_row = leaves_of(x), None if is_graph(x) else weights
    found = {path: _measured(leaves[path], by_row) for path in wanted.inputs}
    if wanted.targets:
        found[TARGETS] = _measured(likelihood.check_targets(y, outputs), weights)
    return found


def _measured(t: Tensor, weights: Tensor | None) -> Measured:
    if weights is not None:
        t, weights = t[weights > 0], weights[weights > 0]
    size = max(1, ENTRIES // max(1, t[0].numel()))
    rows = [_rows(part) for part in torch.split(t, size)]
    shares = [None] * len(rows) if weights is None else torch.split(weights, size)
    moments = (
        ColumnMoments.of(part.flatten(0, 1), None if w is None else w.repeat_interleave(part.shape[1]))
        for part, w in zip(rows, shares, strict=True)
    )
    positions = t.ndim - 2 if t.ndim >= IMAGE_AXES else 0
    return Measured(reduce(ColumnMoments.joined, moments), positions, _is_mask(t))


def _rows(t: Tensor) -> Tensor:
    """(N, positions, features): columns of a table, channels of an image; of anything else, one feature."""
    if t.ndim == 2:
        return t.unsqueeze(1)
    return t.flatten(2).mT if t.ndim >= IMAGE_AXES else t.reshape(len(t), -1, 1)


def _is_mask(t: Tensor) -> bool:
    """Whether there is nothing but zero and one, or zero and a number that no exponential survives."""
    zero = t == 0
    return bool((zero | (t == 1)).all()) or bool((zero | (t <= MASKED)).all())


def standards_note(found: Found) -> str:
    """What was standardized, and how, in a sentence."""
    parts = [f"{named(path)} {_how(item)}" for path, item in found.items() if path != TARGETS]
    both = [*parts, *(["y"] if TARGETS in found else [])]
    return (
        f"standardized inside the model, by means and standard deviations of the training examples: {', '.join(both)}; "
        "predictions are in your units, weights and learned noise in standardized ones (Model(net, likelihood=...) "
        "leaves the data as they are)"
    )


def _how(item: Measured) -> str:
    if item.positions:
        return "by channel"
    return "as a whole" if len(item.moments.mean) == 1 else "by column"
