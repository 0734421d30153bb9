"""Which parts of the data are inputs, targets and weights, and whether they fit together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from credo.core.arrays import check_finite, tensor
from credo.core.checks import check_kind
from credo.core.inputs import Graph, Inputs, Targets, graph_mask, inputs, leaves_of, real_numbers
from credo.core.weights import check_weights, example_weights
from credo.likelihoods import Joint, Likelihood
from credo.likelihoods.joint import targets_of
from credo.likelihoods.positions import MASKED
from credo.loop.head_weights import weights_of_heads
from credo.loop.masks import masked

Place = str | int
"""The key of a part of a dict, or its place in a tuple."""


@dataclass(frozen=True)
class PerMember:
    """Data of which each member has its own.

    Args:
        x: inputs (M, N, ...), or several of them in a dict or tuple.
        y: targets (M, N) or (M, N, D).
        weights: how much each example counts, (M, N), or a dict of such by the name of a head; None for one each.
    """

    x: Any
    y: Any
    weights: Any = None


class Given(NamedTuple):
    """Inputs, targets and weights as a person, or a loader, gave them."""

    x: Any
    y: Any
    weights: Any = None


class Examples(NamedTuple):
    """The same as tensors, checked."""

    x: Inputs
    y: Targets
    weights: Tensor | None = None

    def to(self, device: torch.device) -> Examples:
        weights = None if self.weights is None else self.weights.to(device)
        return Examples(self.x.to(device), self.y.to(device), weights)


@dataclass(frozen=True)
class Roles:
    """What the parts of the data are.

    Attributes:
        inputs: keys or places of the inputs; None for what is neither targets nor weights.
        targets: key or place of the targets, or several keys; None where the data are a pair (x, y).
        weights: key or place of the weights of the examples; None where they are not among the data.
        mask: key or place of what says which positions were observed. Of a dict it is an input too, if nothing else is
            said: `forward` takes an attention mask.
    """

    inputs: Place | Sequence[Place] | None = None
    targets: Place | Sequence[str] | None = None
    weights: Place | None = None
    mask: Place | None = None

    def __post_init__(self) -> None:
        for name, example, several in (
            ("inputs", "'image'", True),
            ("targets", "'labels'", True),
            ("weights", "2", False),
            ("mask", "'attention_mask'", False),
        ):
            places = getattr(self, name)
            if places is None:
                continue
            listed = list(places) if several and isinstance(places, list | tuple) else [places]
            for place in listed:
                check_kind(name, place, f"{example}, the name or place of a part of the data", str, int)

    def split(self, data: Any, name: str) -> Given:
        """The parts of the data by what they are.

        Args:
            data: a pair (x, y) or what the roles say: a tuple, a named tuple, a dict or a TensorDataset.
            name: what a person calls them.
        """
        if isinstance(data, PerMember):
            return self._per_member(data)
        if isinstance(data, TensorDataset):
            data = data.tensors
        if self.mask is not None and isinstance(data, Mapping | tuple | list):
            return self._masked(data, self.mask, name)
        if self.names and hasattr(data, "_asdict"):
            data = data._asdict()
        if isinstance(data, Mapping):
            return self._by_key(dict(data), name)
        if isinstance(data, list | tuple):
            return self._by_place(tuple(data), name)
        raise TypeError(
            f"{name} must be a pair (x, y), a TensorDataset or a DataLoader, got {type(data).__name__}; of a dict, "
            "fit(..., targets=...) names the targets"
        )

    def _per_member(self, data: PerMember) -> Given:
        if self.weights is not None:
            raise ValueError(
                f"data per member have no part {self.weights!r}: give their weights as PerMember(x, y, weights=...)"
            )
        return Given(data.x, data.y, data.weights)

    @property
    def names(self) -> bool:
        """Whether parts are called by names."""
        return any(isinstance(place, str) for place in self._all())

    def _all(self) -> list[Place]:
        several = [_listed(self.inputs), _listed(self.targets), _listed(self.weights)]
        return [place for places in several for place in places if place is not None]

    def _masked(self, data: Any, place: Place, name: str) -> Given:
        """The parts, with the mask written into the targets."""
        rest = replace(self, mask=None)
        if self.names and hasattr(data, "_asdict"):
            data = data._asdict()
        if isinstance(data, Mapping):
            if place not in data:
                raise ValueError(f"{name} has no {place!r}: it has {', '.join(map(repr, data))}")
            return _with_mask(rest.split(data, name), data[place])
        count = len(data)
        if not isinstance(place, int) or not -count <= place < count:
            raise ValueError(f"{name} has {count} parts without names, and {place!r} is none of them")
        others = [i for i in range(count) if i != place % count]
        moved = Roles(*(_moved(places, others, count) for places in (self.inputs, self.targets, self.weights)))
        return _with_mask(moved.split(tuple(data[i] for i in others), name), data[place])

    def _by_key(self, data: dict[Any, Any], name: str) -> Given:
        listed = ", ".join(map(repr, data))
        if self.targets is None:
            raise ValueError(
                f"{name} is a dict of {listed}: say which of them holds the targets, as in fit(..., targets='labels')"
            )
        for place in self._all():
            if place not in data:
                raise ValueError(f"{name} has no part {place!r}: it has {listed}")
        if self.weights in _listed(self.targets):
            raise ValueError(f"{name} has targets in {self.weights!r}, which cannot be the weights of the examples too")
        taken = [*_listed(self.targets), self.weights]
        rest = {key: value for key, value in data.items() if key not in taken}
        x = rest if self.inputs is None else _chosen(data, self.inputs)
        return Given(x, _chosen(data, self.targets), None if self.weights is None else data[self.weights])

    def _by_place(self, data: tuple[Any, ...], name: str) -> Given:
        count = len(data)
        if self.targets is None and self.weights is not None and count != 3:
            raise ValueError(
                f"{name} has {count} parts, and weights={self.weights!r} says which of them weighs the examples: there "
                "must be two more, x and y, or say which ones they are by fit(..., inputs=..., targets=...)"
            )
        if self.targets is None and self.weights is None and count != 2:
            raise ValueError(
                f"{name} must be a pair (x, y): inputs and targets, got {count} of them; fit(..., targets=...) and "
                "weights=... say which of several they are, by place, as in targets=-1 or weights=2"
            )
        if isinstance(self.targets, list | tuple):
            raise ValueError(f"{name} has parts without names, and several targets need them: give a dict")
        for place in self._all():
            if not isinstance(place, int) or not -count <= place < count:
                raise ValueError(
                    f"{name} has {count} parts without names, and {place!r} is none of them: give a place from 0 to "
                    f"{count - 1}"
                )
        weights = None if not isinstance(self.weights, int) else self.weights % count
        others = [i for i in range(count) if i != weights]
        targets = self.targets % count if isinstance(self.targets, int) else others[-1]
        if targets == weights:
            raise ValueError(f"{name} has targets in part {targets}, which cannot be the weights of the examples too")
        rest = [i for i in others if i != targets]
        chosen = rest if self.inputs is None else [place % count for place in _listed(self.inputs)]
        single = isinstance(self.inputs, int) or (self.inputs is None and len(rest) == 1)
        x = data[chosen[0]] if single else tuple(data[i] for i in chosen)
        return Given(x, data[targets], None if weights is None else data[weights])


PAIR = Roles()
"""Data that are a pair (x, y)."""


def _with_mask(given: Given, mask: Any) -> Given:
    return given._replace(y=masked(given.y, mask))


def _moved(places: Any, others: list[int], count: int) -> Any:
    """Places in a tuple as those in its rest."""
    if isinstance(places, list | tuple):
        return tuple(_moved(place, others, count) for place in places)
    return others.index(places % count) if isinstance(places, int) and places % count in others else places


def _listed(places: Any) -> list[Any]:
    return list(places) if isinstance(places, list | tuple) else [places]


def roles_of(inputs: Any, targets: Any, weights: Any, mask: Any = None) -> tuple[Roles, Any, Any]:
    """The roles that `fit` was told, and weights and mask where it was given them rather than their places."""
    places = [given if isinstance(given, str | int) else None for given in (weights, mask)]
    values = [None if isinstance(given, str | int) else given for given in (weights, mask)]
    return Roles(_plain(inputs), _plain(targets), *places), values[0], values[1]


def _plain(places: Any) -> Any:
    return tuple(places) if isinstance(places, list) else places


def _chosen(data: Mapping[Any, Any], places: Any) -> Any:
    return {key: data[key] for key in places} if isinstance(places, list | tuple) else data[places]


def examples(
    given: Given,
    dtype: torch.dtype,
    *,
    prefix: str = "",
    of_loader: bool = False,
    per_member: bool = False,
    members: int | None = None,
) -> Examples:
    """What was given as tensors, with a sentence where its parts do not fit together.

    Args:
        given: inputs, targets and weights.
        dtype: of real numbers.
        prefix: of their names, for sentences.
        of_loader: whether lists are several inputs: a DataLoader makes them out of tuples.
        per_member: whether there is an axis of members before the examples.
        members: how long that axis must be.
    """
    raw = _as_tuples(given.x) if of_loader else given.x
    x = inputs(raw, f"{prefix}x", dtype, member_axis=per_member)
    mask = graph_mask(given.x, f"{prefix}x") if isinstance(given.x, Graph) else None
    y = _targets(given.y if mask is None else _known(given.y, mask, prefix), f"{prefix}y", dtype, per_member=per_member)
    if members is not None:
        _check_members(x, y, members)
    rows, targets = (x[0], y[0]) if per_member else (x, y)
    check_rows(rows, targets, prefix)
    # a batch of a loader may weigh nothing; that all of them do is for their reader to find
    weights, some = given.weights, not of_loader
    if isinstance(weights, Mapping):
        y, weights = weights_of_heads(weights, y, _rows(y, per_member=per_member), dtype, prefix, some=some)
    if weights is not None:
        weights = checked_weights(weights, y, dtype, prefix, per_member=per_member, some=some)
    if mask is not None:
        weights = _known_weights(weights, mask.to(dtype), prefix)
    return Examples(x, y, weights)


def _known_weights(weights: Tensor | None, mask: Tensor, prefix: str) -> Tensor:
    """Weights of a graph's nodes, zero for those that the mask leaves out."""
    if weights is None:
        return mask
    check_weights(weights * mask, f"{prefix}weights of the nodes that the mask keeps", some=True)
    return weights * mask


def _targets(values: Any, name: str, dtype: torch.dtype, *, per_member: bool) -> Inputs:
    """Targets are a tree where they have names; a tuple is one of rows."""
    # `checked_targets` knows whether any may be missing
    if isinstance(values, Mapping):
        found = inputs(values, name, dtype, member_axis=per_member, missing=True)
    else:
        found = real_numbers(values, name, dtype, missing=True)
    for path, t in leaves_of(found).items():
        if t.is_complex():
            raise ValueError(f"{name}{path and f'[{path!r}]'} is complex: give real and imaginary parts as columns")
    return found


def checked_targets(likelihood: Likelihood, outputs: int, y: Targets, name: str = "y") -> Targets:
    """Targets as the likelihood wants them; NaN is refused where it does not stand for what was not observed."""
    if not isinstance(y, Tensor) and not isinstance(likelihood, Joint):
        if len(targets_of(y)) < len(y.value):
            raise ValueError(
                f"weights by the name of a head are for likelihoods.Joint, and the likelihood is {likelihood}: give "
                "one number for each example"
            )
        for path, values in leaves_of(y).items():
            check_finite(values, f"{name}[{path!r}]")
    if isinstance(y, Tensor) and likelihood.event_axes == 1:
        check_finite(y, name)
        if not y.is_floating_point() and bool((y.long() == MASKED).any()):
            raise ValueError(
                f"a mask is for targets at positions, and {name} has one row of them per example: an example that does "
                "not count has the weight 0, fit(..., weights=...)"
            )
    return likelihood.check_targets(y, outputs)


def _known(values: Any, mask: Tensor, prefix: str) -> Any:
    """Targets of a graph's nodes; those that weigh nothing get that of one that counts: theirs may be missing."""
    if isinstance(values, Mapping):
        return {key: _known(item, mask, prefix) for key, item in values.items()}
    y = tensor(values, f"{prefix}y")
    if y.shape[:1] != mask.shape:
        raise ValueError(f"{prefix}y has shape {tuple(y.shape)}, and the mask of the graph is for {len(mask)} nodes")
    first = int(mask.nonzero()[0, 0])
    return torch.where(mask.view(-1, *[1] * (y.ndim - 1)), y, y[first : first + 1])


def _check_members(x: Inputs, y: Inputs, members: int) -> None:
    if len(x) != members or len(y) != members:
        raise ValueError(
            f"x is for {len(x)} members, y for {len(y)}, and the method has {members}: they must be the same number"
        )
    if min(t.ndim for values in (x, y) for t in leaves_of(values).values()) < 2:
        raise ValueError("data per member need an axis for members and one for examples: x (M, N, ...), y (M, N)")


def _as_tuples(values: Any) -> Any:
    """Lists of tensors as tuples: what several inputs have become in a DataLoader."""
    if isinstance(values, Mapping):
        return {key: _as_tuples(item) for key, item in values.items()}
    if isinstance(values, list) and any(isinstance(item, Tensor | Mapping | list) for item in values):
        return tuple(map(_as_tuples, values))
    return values


def check_rows(x: Inputs, y: Inputs, prefix: str = "") -> None:
    if len(x) != len(y):
        raise ValueError(f"{prefix}x has {len(x)} rows and {prefix}y has {len(y)}: they must be the same number")
    if len(x) == 0:
        raise ValueError(f"the {prefix}data are empty: there is nothing to {'judge by' if prefix else 'learn from'}")


def _rows(y: Inputs, *, per_member: bool) -> tuple[int, ...]:
    """N, or M and N."""
    first = next(iter(leaves_of(y).values()))
    return tuple(first.shape[: 2 if per_member else 1])


def checked_weights(
    values: Any, y: Inputs, dtype: torch.dtype, prefix: str = "", *, per_member: bool = False, some: bool = True
) -> Tensor:
    """Weights of examples, (N,) or (M, N), in the precision of the model."""
    name = f"{prefix}weights"
    weights = example_weights(values, _rows(y, per_member=per_member), name, some=some)
    precise = weights.to(dtype)
    check_weights(precise, f"{name}, as {str(dtype).removeprefix('torch.')},", some=some)
    return precise
