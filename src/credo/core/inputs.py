"""What a network is called on, and what it is compared with: a tensor, or a tree of tensors, one row per example.

A tree is handled like a tensor of rows (`len(x)`, `x[rows]`, `x.to(device)`), so that whatever cuts batches, moves or
repeats examples does so without knowing which of the two it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from credo.core.arrays import check_finite, tensor
from credo.core.trees import flatten, map_tensors


@dataclass(frozen=True, eq=False, repr=False)
class TensorTree:
    """Tensors in dicts, tuples and lists, as a person gave them; examples are the first axis of every tensor.

    What is no tensor (None, True, a number or a text) belongs to the tree and is the same for all examples.

    Attributes:
        value: the tensors in their dicts, tuples and lists.
        nodes: of a graph, which is one thing and cannot be cut into rows: the number of rows of its outputs.
    """

    value: Any
    nodes: int | None = None

    def __len__(self) -> int:
        return len(next(iter(self.leaves.values()))) if self.nodes is None else self.nodes

    def __getitem__(self, index: Any) -> Any:
        """The part of this name; or these rows of every tensor."""
        if isinstance(index, str):
            part = self.value[index]
            return part if isinstance(part, Tensor) else TensorTree(part)
        if self.nodes is not None:
            return self._whole(index)
        return map_tensors(lambda _, t: t[index], self)

    def __repr__(self) -> str:
        return _shown(self.value)

    @property
    def leaves(self) -> dict[str, Tensor]:
        """The tensors, by their paths."""
        return flatten(self.value)

    @property
    def device(self) -> torch.device:
        return next(iter(self.leaves.values())).device

    def to(self, device: torch.device | str) -> TensorTree:
        """The same on another device."""
        return map_tensors(lambda _, t: t.to(device), self)

    def index_select(self, axis: int, index: Tensor) -> TensorTree:
        """These rows of every tensor."""
        return map_tensors(lambda _, t: t.index_select(axis, index), self)

    def _whole(self, index: Any) -> TensorTree:
        if not isinstance(index, slice) or index.indices(len(self)) != (0, len(self), 1):
            raise ValueError("a graph is one example, which cannot be cut into rows")
        return self


Inputs = Tensor | TensorTree
Targets = Any
"""A tensor, or a tree for a likelihood that takes targets with names."""


@dataclass(frozen=True, eq=False)
class Graph:
    """Inputs that belong together and are no rows, such as the nodes and edges of a graph, with an output per node.

    One graph is one batch: it is never cut or shuffled, and its tensors may have any lengths.

    Args:
        x: what `forward` takes: a tensor, or a tuple or dict of tensors, such as `(features, edge_index)`.
        mask: which nodes have targets to be learned from (or to be compared with, in validation), (nodes,); None for
            all of them. A prediction is made for all nodes, whatever the mask.

    Examples:
        `credo.fit(net, (credo.Graph((features, edge_index), mask=training), labels), credo.MAP())`
    """

    x: Any
    mask: Any = None


def leaves_of(x: Inputs) -> dict[str, Tensor]:
    """The tensors, by their paths; a tensor alone has none."""
    return flatten(x) if isinstance(x, Tensor) else x.leaves


def is_graph(x: Inputs) -> bool:
    """Whether these are no rows, but one thing."""
    return isinstance(x, TensorTree) and x.nodes is not None


def shape_key(x: Inputs) -> tuple[Any, ...]:
    """Something hashable that is the same for inputs that differ in their values and in the number of rows alone."""
    if isinstance(x, Tensor):
        return tuple(x.shape[1:]), x.dtype
    return x.nodes, _structure(x.value, whole=x.nodes is not None)


def stack(parts: Sequence[Inputs]) -> Inputs:
    """Parts of one structure side by side, along a new first axis."""
    if isinstance(parts[0], Tensor):
        return torch.stack([part for part in parts if isinstance(part, Tensor)])
    leaves = [leaves_of(part) for part in parts]
    value = map_tensors(lambda path, _: torch.stack([each[path] for each in leaves]), parts[0].value)
    return TensorTree(value, parts[0].nodes)


def few(x: Inputs, count: int) -> Inputs:
    """So many examples, in turn where there are fewer; a graph is what it is."""
    if is_graph(x):
        return x
    chosen: Inputs = x[torch.arange(count, device=x.device) % len(x)]
    return chosen


def rows_at_once(x: Inputs, rows: int) -> int:
    """How many rows may be taken at a time, where `rows` would be wanted."""
    return len(x) if is_graph(x) else max(1, min(rows, len(x)))


def _structure(value: Any, *, whole: bool) -> Any:
    if isinstance(value, Tensor):
        return tuple(value.shape[0 if whole else 1 :]), value.dtype
    if isinstance(value, dict):
        return dict, tuple((key, _structure(item, whole=whole)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return type(value), tuple(_structure(item, whole=whole) for item in value)
    return type(value), value


def _shown(value: Any) -> str:
    """The tree with shapes in the place of tensors."""
    if isinstance(value, Tensor):
        return f"({', '.join(['B', *map(str, value.shape[1:])])})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_shown(item)}' for key, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_shown, value))})"
    return repr(value)


def is_tree(values: Any) -> bool:
    """Whether these are several inputs, rather than the rows of one: a dict, or a tuple of arrays."""
    if isinstance(values, Mapping):
        return True
    return isinstance(values, tuple) and any(getattr(item, "ndim", 0) > 0 or is_tree(item) for item in values)


def inputs(values: Any, name: str, dtype: torch.dtype, *, member_axis: bool = False, missing: bool = False) -> Inputs:
    """What a person gave for inputs (or named targets) as a tensor or a tree, or a sentence that says what is wrong.

    Real numbers come in the network's precision and are finite; whole numbers and yes or no stay what they are.

    Args:
        values: a tensor or array; or several of them in a dict or tuple.
        name: of the argument, for sentences.
        dtype: of real numbers.
        member_axis: whether there is an axis of members before the examples.
        missing: whether NaN may stand for what is missing.
    """
    if isinstance(values, Graph):
        return _graph(values, name, dtype)
    if not is_tree(values):
        return real_numbers(values, name, dtype)
    found: dict[str, Tensor] = {}
    value = _converted(values, name, dtype, found, missing=missing)
    _check_leaves(found, name, member_axis=member_axis)
    if type(value) is tuple and len(value) == 1 and isinstance(value[0], Tensor):
        return value[0]
    if len(flatten(value)) < len(found):
        raise ValueError(f"{name} has names that cannot be told apart when they are joined by '/': rename them")
    return TensorTree(value)


def real_numbers(values: Any, name: str, dtype: torch.dtype, *, missing: bool = False) -> Tensor:
    """A tensor; real numbers in the network's precision, and finite, or NaN where that may stand for a missing one."""
    result = tensor(values, name)
    if result.ndim == 0:
        raise ValueError(f"{name} is a single number: it needs one row per example")
    return _finite(result, name, dtype, missing=missing)


def _finite(result: Tensor, name: str, dtype: torch.dtype, *, missing: bool = False) -> Tensor:
    if missing and result.is_floating_point() and bool(result.isnan().any()):
        check_finite(torch.where(result.isnan(), 0.0, result).to(dtype), name)
        return result.to(dtype)
    if result.is_floating_point():
        result = result.to(dtype)
        check_finite(result, name)
    return result


def _converted(values: Any, name: str, dtype: torch.dtype, found: dict[str, Tensor], *, missing: bool = False) -> Any:
    """The same structure of plain dicts, tuples and lists with tensors in it, which are listed by their names."""
    if values is None or isinstance(values, bool | int | float | str):
        return values
    if isinstance(values, Mapping):
        return {
            key: _converted(item, f"{name}[{key!r}]", dtype, found, missing=missing) for key, item in values.items()
        }
    if is_tree(values):
        fields = getattr(values, "_fields", None)
        names = [f"{name}.{field}" for field in fields] if fields else [f"{name}[{i}]" for i in range(len(values))]
        items = [
            _converted(item, each, dtype, found, missing=missing) for each, item in zip(names, values, strict=True)
        ]
        return type(values)(*items) if fields else tuple(items)
    found[name] = _finite(tensor(values, name), name, dtype, missing=missing)
    return found[name]


def _check_leaves(found: Mapping[str, Tensor], name: str, *, member_axis: bool) -> None:
    if not found:
        raise ValueError(f"{name} has no tensor in it: give at least one, with a row for each example")
    axes = 2 if member_axis else 1
    first, like = next(iter(found.items()))
    for leaf, values in found.items():
        if values.ndim < axes:
            raise ValueError(
                f"{leaf} has shape {tuple(values.shape)}: every part of {name} needs one row per example"
                + (" of each member" if member_axis else "; what is the same for all examples is given as a number")
            )
        if values.shape[:axes] != like.shape[:axes]:
            sizes = [" x ".join(map(str, t.shape[:axes])) for t in (values, like)]
            raise ValueError(
                f"{leaf} has {sizes[0]} rows and {first} has {sizes[1]}: every part of {name} needs one row per "
                f"example (a tuple is several inputs; the rows of one are given as a list or by torch.stack({name}))"
            )


def _graph(graph: Graph, name: str, dtype: torch.dtype) -> TensorTree:
    found: dict[str, Tensor] = {}
    value = _converted(graph.x, name, dtype, found)
    if not found:
        raise ValueError(f"{name} is a graph with no tensor in it")
    mask = graph_mask(graph, name)
    nodes = len(mask) if mask is not None else len(next(iter(found.values())))
    return TensorTree(value, nodes)


def graph_mask(graph: Graph, name: str) -> Tensor | None:
    """Which nodes count, (nodes,)."""
    if graph.mask is None:
        return None
    mask = tensor(graph.mask, f"the mask of {name}")
    if mask.dtype is not torch.bool or mask.ndim != 1:
        raise ValueError(
            f"the mask of {name} must say yes or no for each node, (nodes,) of dtype torch.bool, got shape "
            f"{tuple(mask.shape)} of {mask.dtype}"
        )
    if not bool(mask.any()):
        raise ValueError(f"the mask of {name} leaves out all nodes: there is nothing to look at")
    return mask
