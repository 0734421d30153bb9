"""Inputs without labels, each with a number: tensors in memory, or a data set that is read when it is needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Sized
from typing import Any, cast

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
)

from credo.core.inputs import Graph, Inputs, TensorTree, inputs, leaves_of
from credo.core.rng import Stream
from credo.core.storage import fingerprint

Places = str | int | Sequence[str | int] | None
"""Keys or places of the parts of an example that are inputs; None for all of them."""

AT_ONCE = 1024
"""Inputs of a pool that are read at a time."""
COMPARED = 32
"""Examples of a data set that tell it from others."""


class Pool(ABC):
    """N inputs by their numbers."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def rows(self, numbers: Sequence[int]) -> Any:
        """The inputs with these numbers, in the form that `fit` and `predict` take."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A text that differs when the inputs, or their order, differ."""

    def parts(self, numbers: Sequence[int]) -> Iterator[Any]:
        """The same, some at a time."""
        return (self.rows(numbers[start : start + AT_ONCE]) for start in range(0, len(numbers), AT_ONCE))


class TensorPool(Pool):
    """Inputs in memory: a tensor, or several in a dict or tuple, in the precision in which they came."""

    def __init__(self, values: Inputs) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, numbers: Sequence[int]) -> Any:
        return _given(self.values[torch.as_tensor(numbers, dtype=torch.long)])

    def fingerprint(self) -> str:
        return fingerprint(leaves_of(self.values))


class DatasetPool(Pool):
    """The examples of a data set, read anew whenever they are needed, so that they need not fit into memory.

    Random transforms are repeated: an example looks the same each time.
    """

    def __init__(self, data: Dataset[Any], places: Places, collate: Any = default_collate) -> None:
        self.data, self.places, self.collate = data, places, collate
        self._check()

    def __len__(self) -> int:
        return len(cast("Sized", self.data))

    def rows(self, numbers: Sequence[int]) -> Any:
        return _chosen(self.collate([self._example(number) for number in numbers]), self.places, "an example")

    def fingerprint(self) -> str:
        """By its length and some of its examples: reading all of them may take long."""
        chosen = sorted({round(i * (len(self) - 1) / (COMPARED - 1)) for i in range(COMPARED)})
        return f"{len(self)} examples, {fingerprint(leaves_of(_tensors(self.rows(chosen))))}"

    def _example(self, number: int) -> Any:
        with Stream(0, ("pool", number)).borrowed_global():
            return self.data[number]

    def _check(self) -> None:
        if isinstance(self.data, IterableDataset) or not hasattr(self.data, "__len__"):
            raise ValueError(
                "the pool is a data set without numbered examples, and a label must know which one it belongs to: give "
                "one with __getitem__ and __len__, or tensors"
            )


def pool_of(values: Any, places: Places = None) -> Pool:
    """What a person gave as a pool.

    Args:
        values: a tensor or array (N, ...), several of them in a dict or tuple, a Dataset, or a DataLoader, which is
            read in the order of its data set.
        places: keys or places of the parts that are inputs, where there are others; None for all.
    """
    if isinstance(values, Graph):
        raise ValueError("the pool is a graph, which cannot be cut into inputs: give rows")
    if isinstance(values, DataLoader):
        _check_order(values)
        found: Pool = DatasetPool(values.dataset, places, values.collate_fn)
    elif isinstance(values, Dataset):
        found = DatasetPool(values, places)
    else:
        found = TensorPool(_tensors(_chosen(values, places, "the pool") if places is not None else values))
    if len(found) == 0:
        raise ValueError("the pool is empty: there is nothing to ask for")
    return found


def _check_order(loader: DataLoader[Any]) -> None:
    """Refuse a loader that does not go through its data set: nobody could say what the number of an example is."""
    batches = loader.batch_sampler
    sampler = batches.sampler if type(batches) is BatchSampler else loader.sampler if batches is None else batches
    if batches is None or type(sampler) not in (RandomSampler, SequentialSampler):
        what = "batch_size=None" if batches is None else f"a {type(sampler).__name__} of its own"
        raise ValueError(
            f"the pool is a DataLoader with {what}, so its examples have no fixed numbers: give its data set, or "
            "torch.utils.data.Subset(data, numbers)"
        )


def _chosen(values: Any, places: Places, name: str) -> Any:
    """The parts that are inputs."""
    if isinstance(values, list):  # what a DataLoader makes of tuples
        values = values[0] if len(values) == 1 else tuple(values)
    if places is None:
        return values
    try:
        if isinstance(places, str | int):
            return values[places]
        parts = {place: values[place] for place in places}
    except (LookupError, TypeError):
        listed = ", ".join(map(repr, values)) if isinstance(values, Mapping) else f"{len(values)} parts"
        raise ValueError(f"{name} has no {places!r}: it has {listed}") from None
    return parts if isinstance(values, Mapping) else tuple(parts.values())


def _tensors(values: Any) -> Inputs:
    """Inputs as tensors; real numbers in double precision, unless they came in less."""
    found = inputs(values, "pool", torch.float64)
    return inputs(values, "pool", torch.float32) if all(map(_single, _arrays(values))) else found


def _arrays(values: Any) -> Iterator[Any]:
    if isinstance(values, Mapping):
        values = tuple(values.values())
    if isinstance(values, tuple):
        for value in values:
            yield from _arrays(value)
    else:
        yield values


def _single(value: Any) -> bool:
    kind = str(getattr(value, "dtype", "unknown")).removeprefix("torch.")
    return kind != "float64" and kind not in ("unknown", "object")


def _given(values: Inputs) -> Any:
    """As a person gives them."""
    return values.value if isinstance(values, TensorTree) else values
