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
from credo.likelihoods import Joint, LearnedGaussian, Likelihood, NumbersAtPositions, Standardized
from credo.likelihoods.joint import share_of
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

TARGETS = "/targets/"
"""How names begin that no path of an input has; that of a head follows."""
Numbers = tuple[tuple[float, ...], tuple[float, ...]]
"""What is subtracted from each column, and what the rest is divided by."""


@dataclass(frozen=True)
class Standards:
    """What a model is standardized by; None, or nothing, for what is left as it is."""

    inputs: InputScaling | None = None
    targets: tuple[tuple[str, Numbers], ...] = ()  # by the name of the head, "" where there is but one

    def put_into(self, model: Model) -> Model:
        """The model in standardized numbers, whose inputs and targets are those of the user."""
        network, likelihood = model.network, model.likelihood
        if self.inputs is not None:
            network = network.with_scaling(self.inputs)
        for name, numbers in self.targets:
            likelihood = _standardized(likelihood, name, numbers)
        return model.with_network(network).with_likelihood(likelihood)

    def held_by(self, dtype: torch.dtype) -> bool:
        """Whether numbers of this precision hold the data and show the differences between examples."""
        pairs = (pair for _, numbers in self.targets for pair in zip(*numbers, strict=True))
        return all(shown_by(dtype, *pair) for pair in pairs) and (self.inputs is None or self.inputs.held_by(dtype))


def _standardized(likelihood: Likelihood, name: str, numbers: Numbers) -> Likelihood:
    """The likelihood, or that of one head, of standardized targets."""
    if isinstance(likelihood, Joint):
        heads = (
            replace(h, likelihood=_standardized(h.likelihood, "", numbers)) if h.name == name else h
            for h in likelihood.heads
        )
        return likelihood.with_heads(tuple(heads))
    if type(likelihood) is NumbersAtPositions and type(likelihood.base) is LearnedGaussian:
        return replace(likelihood, base=Standardized(likelihood.base, *numbers))
    return Standardized(likelihood, *numbers) if type(likelihood) is LearnedGaussian else likelihood


def standards_of(model: Model) -> Standards:
    """Those of a model that has been standardized before."""
    given = model.given_likelihood
    return Standards(model.network.scaling, () if given is None else target_standards(given))


def target_standards(likelihood: Likelihood) -> tuple[tuple[str, Numbers], ...]:
    """By what the targets of each head are standardized, if they are."""
    parts = ((name, _base(part)) for name, part in parts_of(likelihood))
    return tuple((name, (base.loc, base.scale)) for name, base in parts if type(base) is Standardized)


def parts_of(likelihood: Likelihood) -> tuple[tuple[str, Likelihood], ...]:
    """The likelihoods of all heads by name; the name of the only one is empty."""
    if not isinstance(likelihood, Joint):
        return (("", likelihood),)
    return tuple((head.name, head.likelihood) for head in likelihood.heads)


def _base(likelihood: Likelihood) -> Likelihood:
    """The likelihood of one row, at positions too."""
    return likelihood.base if type(likelihood) is NumbersAtPositions else likelihood


@dataclass(frozen=True)
class Wanted:
    """What of a model may be standardized, and sentences about what may not."""

    inputs: tuple[str, ...]  # paths of tensors
    targets: tuple[str, ...]  # names of heads
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.inputs) or bool(self.targets)


def wanted(model: Model, variables: Variables, x: Inputs, y: Any) -> Wanted:
    """Look at what the network does with inputs like x, and where its outputs come from."""
    real = {path: t for path, t in leaves_of(x).items() if t.is_floating_point()}
    if is_graph(x):  # which edges there are is no feature
        real = {path: t for path, t in real.items() if t.ndim != 2 or t.shape[0] != t.shape[1]}
    numbers = tuple(name for name, part in parts_of(model.likelihood) if type(_base(part)) is LearnedGaussian)
    if not real and not numbers:
        return Wanted((), ())
    found, notes = uses(model.network, variables, x), list[str]()
    for path, function in found.inputs.items():
        if path in real and not _is_mask(real[path]):
            notes.append(
                f"{named(path)} is not standardized: the network computes with the numbers themselves ({function}) "
                "before a layer has them"
            )
    if numbers and found.outputs:
        names = ", ".join(map(named_target, numbers))
        notes.append(
            f"{names} is not standardized: the network's outputs come out of {found.outputs}, which may have a range "
            "or units of its own; scale it to order one if it is far from that"
        )
    free = tuple(path for path in real if path not in found.inputs)
    return Wanted(free, () if found.outputs else numbers, tuple(notes))


def named(path: str) -> str:
    """A tensor of the inputs, for a person."""
    return f"x[{path!r}]" if path else "x"


def named_target(name: str) -> str:
    """The targets of a head, for a person."""
    return f"y[{name!r}]" if name else "y"


@dataclass(frozen=True)
class Measured:
    """What is known of one tensor of the inputs, or of the targets."""

    moments: ColumnMoments
    positions: int  # axes behind the features
    mask: bool  # whether it says yes and no, or what an attention must not see

    def joined(self, other: Measured) -> Measured:
        return Measured(self.moments.joined(other.moments), self.positions, self.mask and other.mask)

    @property
    def numbers(self) -> Numbers:
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
    whole = reduce(_joined, parts)
    inputs = {path: item.settled for path, item in whole.items() if not (is_target(path) or item.mask)}
    # each target keeps numbers of its own: what shares a range as an input, as pixels do, is still several targets
    return {**inputs, **{path: item for path, item in whole.items() if is_target(path)}}


def _joined(one: Found, other: Found) -> Found:
    """Of both parts; a head may have no target in one of them."""
    both = {path: one[path].joined(other[path]) for path in one.keys() & other.keys()}
    return {path: both.get(path) or one.get(path) or other[path] for path in {**one, **other}}


def is_target(path: str) -> bool:
    return path.startswith(TARGETS)


def head_of(path: str) -> str:
    """The name of the head whose targets these are."""
    return path.removeprefix(TARGETS)


def standards_from(found: Found) -> Standards:
    """What inputs and targets with these means and standard deviations are standardized by."""
    leaves = tuple(LeafScaling(path, *m.numbers, m.positions) for path, m in found.items() if not is_target(path))
    targets = tuple((head_of(path), m.numbers) for path, m in found.items() if is_target(path))
    return Standards(InputScaling(leaves) if leaves else None, targets)


def _found(wanted: Wanted, data: Examples, likelihood: Likelihood, outputs: int) -> Found:
    """Of one part of the examples."""
    x, y, weights = data
    leaves, by_row = leaves_of(x), None if is_graph(x) else weights
    found = {path: _measured(leaves[path], by_row) for path in wanted.inputs}
    if not wanted.targets:
        return found
    checked: Any = likelihood.check_targets(y, outputs)
    parts = dict(parts_of(likelihood))
    for name in wanted.targets:
        share = share_of(checked, name) if name else None
        each = weights if share is None or weights is None else weights * share
        rows, shares = _observed(parts[name], checked[name] if name else checked, each)
        if len(rows):
            found[TARGETS + name] = _measured(rows, shares)
    return found


def _observed(likelihood: Likelihood, y: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Targets that were observed as rows (N, D), and what each weighs."""
    rows = y.movedim(likelihood.class_axis, -1).flatten(1, -2) if y.ndim > 2 else y.unsqueeze(1)  # (B, positions, D)
    shares = None if weights is None else weights.unsqueeze(1).expand(rows.shape[:2]).flatten()
    rows = rows.flatten(0, 1)
    known = ~rows.isnan().any(-1)
    if bool(known.all()):
        return rows, shares
    return rows[known], None if shares is None else shares[known]


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
    parts = [f"{named(path)} {_how(item)}" for path, item in found.items() if not is_target(path)]
    both = [*parts, *(named_target(head_of(path)) for path in found if is_target(path))]
    return (
        f"standardized inside the model, by means and standard deviations of the training examples: {', '.join(both)}; "
        "predictions are in your units, weights and learned noise in standardized ones (Model(net, likelihood=...) "
        "leaves the data as they are)"
    )


def _how(item: Measured) -> str:
    if item.positions:
        return "by channel"
    return "as a whole" if len(item.moments.mean) == 1 else "by column"
