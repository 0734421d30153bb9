"""Batches from a DataLoader, repeatable and resumable."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
)

from credo.core.inputs import Inputs, Targets, leaves_of
from credo.core.rng import Stream
from credo.core.storage import fingerprint
from credo.loop.batches import CheckTargets, Observed, Source, all_observed, total_weight, weight_note
from credo.loop.masks import NOTHING_OBSERVED, any_observed
from credo.loop.roles import PAIR, Examples, Roles, examples
from credo.model import Batch

COMPARED = 32
"""Examples of a data set that tell it from others when a run is resumed."""


class LoaderSource(Source):
    """A DataLoader. All members see the same batches.

    Where the loader draws from a plain (random or sequential) sampler, the order is drawn from credo's own stream, so
    that it can be repeated and resumed. A sampler of another kind is used as it is. Random transforms of the data set
    that read torch's generator are repeatable in either case.
    """

    def __init__(
        self, loader: DataLoader[Any], roles: Roles = PAIR, *, order: Stream, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.loader, self.roles, self.order, self.device, self.dtype = loader, roles, order, device, dtype
        self.plain = loader.batch_size is not None and type(loader.sampler) in _PLAIN
        with order.child("counting").borrowed_global():
            self.epoch = _epoch_of(loader)
        self.size, self.batches = float(self.epoch.size), self.epoch.batches
        self.factor = self.batches * self.epoch.size / self.epoch.examples
        self.notes = self.epoch.notes
        self._check: CheckTargets = lambda y: y
        self._observed: Observed = all_observed
        self._example = self._first()
        self.weighted = roles.weights is not None
        if self.weighted:
            self._weigh()

    @property
    def example(self) -> tuple[Inputs, Targets]:
        return self._example.x, self._example.y

    def _first(self) -> Examples:
        self._parts: tuple[tuple[str, ...], ...] | None = None
        return next(self._epoch(0))

    def _weigh(self) -> None:
        """Add up the weights, by which optimizers divide and which no batch alone can tell."""
        total = sum(total_weight(each.weights) for each in self._epoch(0) if each.weights is not None)
        if not total:
            raise ValueError("the weights that the DataLoader gives are all zero: there is nothing to learn from")
        self.size = total * self.epoch.size / self.epoch.examples
        once = "the DataLoader was read once before the first step, to add up its weights"
        self.notes = (*self.notes, once, *weight_note(self.size, self.epoch.size))

    def check(self, check_targets: CheckTargets, observed: Observed = all_observed) -> None:
        self._check, self._observed = check_targets, observed

    def all_examples(self) -> Iterator[Examples]:
        return self._epoch(0)

    def steps(self, start: int) -> Iterator[Batch]:
        epoch, first = divmod(start, self.batches)
        found = first > 0
        while True:
            for x, given, weights in islice(self._epoch(epoch), first, None):
                y = self._check(given)
                found = found or any_observed(self._observed(y))
                yield Batch(x, y, weight=weights, factor=self.factor)
            if not found:
                raise ValueError(NOTHING_OBSERVED.format("y"))
            epoch, first = epoch + 1, 0

    def _epoch(self, epoch: int) -> Iterator[Examples]:
        stream = self.order.child(epoch)
        batches = rows = 0
        with stream.child("workers").borrowed_global():
            items = iter(self._loader(stream))
        while True:
            with stream.child("transforms", batches).borrowed_global():
                item = next(items, None)
            if item is None:
                break
            found = self._examples(item)
            batches, rows = batches + 1, rows + len(found.x)
            if batches >= self.batches:  # before the last batch is learned from: there may be no later check
                self._check_length(epoch, batches, rows)
            yield found
        if not batches:
            raise ValueError(
                f"the DataLoader gave no batch in epoch {epoch + 1}: its sampler must begin anew in every epoch"
            )
        self._check_length(epoch, batches, rows)

    def _check_length(self, epoch: int, batches: int, examples: int) -> None:
        """Refuse an epoch of another length than was counted, by which its examples would weigh too much or too little.

        A sampler of batches may give some examples more or less in each epoch, if it gives as many batches.
        """
        counted = self.epoch.examples if self.epoch.exact else examples
        if batches != self.batches or examples != counted:
            raise ValueError(
                f"the DataLoader gave {examples} examples in {batches} batches in epoch {epoch + 1}, and its length "
                f"says {counted} in {self.batches}: credo must know how many there are to weigh likelihood against "
                "prior; correct __len__ of the data set or of the sampler (which must begin anew in every epoch), and "
                "let collate_fn keep the number of rows"
            )

    def _examples(self, item: Any) -> Examples:
        if isinstance(item, Tensor) or not isinstance(item, list | tuple | Mapping):
            raise ValueError(
                "the DataLoader must give pairs (x, y), or dicts and tuples of which fit(..., targets=...) names the "
                f"targets, got {type(item).__name__}"
            )
        found = examples(self.roles.split(item, "a batch of the DataLoader"), self.dtype, of_loader=True)
        parts = tuple(tuple(leaves_of(values)) for values in found[:2])
        self._parts = self._parts or parts
        if parts != self._parts:
            raise ValueError(
                f"the DataLoader gives other parts than in its first batch: {parts} in the place of {self._parts}; "
                "every batch must have the same"
            )
        return found.to(self.device)

    def _loader(self, stream: Stream) -> DataLoader[Any]:
        given = self.loader
        if not self.plain:
            return given
        sampler: Any = given.sampler
        if type(sampler) is RandomSampler:
            sampler = RandomSampler(
                sampler.data_source,
                replacement=sampler.replacement,
                num_samples=sampler.num_samples,
                generator=stream.child("order").generator(),
            )
        return DataLoader(
            given.dataset,
            batch_size=given.batch_size,
            sampler=sampler,
            drop_last=given.drop_last,
            num_workers=given.num_workers,
            collate_fn=given.collate_fn,
            pin_memory=given.pin_memory,
            timeout=given.timeout,
            worker_init_fn=_InterruptIgnored(given.worker_init_fn),
            multiprocessing_context=given.multiprocessing_context,
            prefetch_factor=given.prefetch_factor,
            generator=stream.child("workers").generator(),
        )

    def fingerprint(self) -> str:
        """Counts, how batches are made, and what can be read of the examples without going through all of them."""
        counts = f"DataLoader of {self.size} examples in {self.batches} batches"
        order = f"{type(self.loader.sampler).__name__} by {self.loader.batch_size}, drop_last={self.loader.drop_last}"
        roles = "" if self.roles == PAIR else f"{self.roles!r}, "
        return f"{counts} ({order}), {roles}{_content(self.loader.dataset, self.order.child('fingerprint'))}"


def _content(data: Any, rng: Stream) -> str:
    """A text that differs when the examples differ: by all tensors of a TensorDataset, by some examples of others.

    Examples that differ from one reading to the next, by noise that the stream does not repeat, say nothing.
    """
    if isinstance(data, TensorDataset):
        return fingerprint({str(i): tensor for i, tensor in enumerate(data.tensors)})
    if isinstance(data, Subset):
        return f"{fingerprint({'indices': torch.as_tensor(list(data.indices))})} of {_content(data.dataset, rng)}"
    if isinstance(data, ConcatDataset):
        return " and ".join(_content(part, rng) for part in data.datasets)
    if isinstance(data, IterableDataset):
        return type(data).__name__
    count = len(data)
    rows = sorted({round(i * (count - 1) / (COMPARED - 1)) for i in range(COMPARED)})

    def texts() -> list[str]:
        with rng.borrowed_global():
            return [_text(data[row]) for row in rows]

    first, second = texts(), texts()
    steady = [text if text == again else "" for text, again in zip(first, second, strict=True)]
    return hashlib.blake2b(repr((type(data).__name__, count, steady)).encode(), digest_size=16).hexdigest()


def _text(value: Any) -> str:
    """What an example holds, as far as it is numbers or text."""
    if isinstance(value, Mapping):
        return repr([(key, _text(item)) for key, item in value.items()])
    if isinstance(value, list | tuple):
        return repr([_text(item) for item in value])
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"{value.dtype} {value.shape} {hashlib.blake2b(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    if isinstance(value, Tensor):
        return fingerprint({"": value})
    return repr(value) if isinstance(value, int | float | str | bytes | np.generic) else type(value).__name__


_PLAIN = (RandomSampler, SequentialSampler)


@dataclass(frozen=True)
class _InterruptIgnored:
    """Ctrl-C is handled by the loop: a worker that died of it would take the last step's batch with it."""

    then: Callable[[int], None] | None

    def __call__(self, worker: int) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self.then is not None:
            self.then(worker)


@dataclass(frozen=True)
class _Epoch:
    """What a DataLoader gives in an epoch."""

    size: int  # N, the number of examples that its epochs stand for
    examples: int  # that it gives in each of them
    batches: int  # in which it gives them
    exact: bool = True  # whether every epoch has as many examples
    notes: tuple[str, ...] = ()  # what a person should know of it


def _epoch_of(loader: DataLoader[Any]) -> _Epoch:
    """Counts an epoch, without reading an example."""
    if loader.batch_sampler is None and loader.batch_size is None:
        raise ValueError("the DataLoader has batch_size=None, so credo cannot count its examples: give it a batch_size")
    try:
        found = _counted(loader)
    except TypeError:
        raise ValueError(
            "the DataLoader has no length: credo must know the number of examples to weigh likelihood against prior; "
            "use a data set with __len__, or tensors"
        ) from None
    if found.batches == 0 or found.examples == 0:
        raise ValueError("the DataLoader gives no batch: its data set is empty, or smaller than a batch with drop_last")
    return found


def _counted(loader: DataLoader[Any]) -> _Epoch:
    batches, sampler, data = len(loader), loader.sampler, cast("Sized", loader.dataset)
    if loader.batch_size is None:
        # the data set's length says nothing of which examples a sampler of batches chooses, and how often
        given = sum(len(batch) for batch in cast("Iterable[Sized]", loader.batch_sampler))
        return _Epoch(given, given, batches, exact=False, notes=(_own_order(given),))
    given = len(data if isinstance(data, IterableDataset) else cast("Sized", sampler))
    dropped = given - batches * loader.batch_size if loader.drop_last else 0
    if type(sampler) is RandomSampler:
        return _Epoch(len(data), given - dropped, batches)
    if type(sampler) is SequentialSampler or isinstance(data, IterableDataset):
        note = (
            f"the DataLoader has drop_last=True and leaves out the last {dropped} of {given} examples in every epoch: "
            "they are not learned from"
        )
        notes = (() if type(sampler) is SequentialSampler else (_own_order(given - dropped),)) + (note,) * (dropped > 0)
        return _Epoch(given - dropped, given - dropped, batches, notes=notes)
    notes = (_own_order(given),)
    if dropped > 0:
        notes += (f"its drop_last=True leaves out {dropped} of them in every epoch, taken to be others each time",)
    return _Epoch(given, given - dropped, batches, notes=notes)


def _own_order(given: int) -> str:
    return (
        "the DataLoader has its own order of examples, which the seed does not repeat; it is taken to give "
        f"{given} examples per epoch"
    )
