"""Batches from a DataLoader, repeatable and resumable."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler

from credo.core.rng import Stream
from credo.loop.batches import CheckTargets, Source, check_rows, prepared
from credo.model import Batch


class LoaderSource(Source):
    """A DataLoader. All members see the same batches.

    Where the loader draws from a plain (random or sequential) sampler, the order is drawn from credo's own stream, so
    that it can be repeated and resumed, and the number of data is that of the data set. A sampler of another kind is
    used as it is, and the number of data is what it gives in an epoch. Random transforms of the data set that read
    torch's generator are repeatable in either case.
    """

    def __init__(self, loader: DataLoader[Any], *, order: Stream, device: torch.device, dtype: torch.dtype) -> None:
        self.loader, self.order, self.device, self.dtype = loader, order, device, dtype
        self.plain = loader.batch_size is not None and type(loader.sampler) in _PLAIN
        self.size, self.batches = _lengths(loader)
        if not self.plain:
            self.notes = (
                "the DataLoader has its own order of examples, which the seed does not repeat; it is taken to give "
                f"{self.size} examples per epoch",
            )
        self._check: CheckTargets = lambda y: y
        self._example = next(self._epoch(0))

    @property
    def example(self) -> tuple[Tensor, Tensor]:
        return self._example

    def check(self, check_targets: CheckTargets) -> None:
        self._check = check_targets

    def steps(self, start: int) -> Iterator[Batch]:
        epoch, first = divmod(start, self.batches)
        while True:
            for x, y in islice(self._epoch(epoch), first, None):
                yield Batch(x, self._check(y))
            epoch, first = epoch + 1, 0

    def _epoch(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        stream = self.order.child(epoch)
        given = 0
        with stream.child("workers").borrowed_global():
            items = iter(self._loader(stream))
        while True:
            with stream.child("transforms", given).borrowed_global():
                item = next(items, None)
            if item is None:
                break
            given += 1
            yield self._pair(item)
        if not given:
            raise ValueError(f"the DataLoader gave no batch in epoch {epoch + 1}: its sampler must begin anew")

    def _pair(self, item: Any) -> tuple[Tensor, Tensor]:
        if not isinstance(item, list | tuple) or len(item) != 2:
            raise ValueError("the DataLoader must give pairs (x, y)")
        x, y = prepared(item[0], "x", self.dtype), prepared(item[1], "y", self.dtype)
        check_rows(x, y)
        return x.to(self.device), y.to(self.device)

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
            worker_init_fn=_DeafWorker(given.worker_init_fn),
            multiprocessing_context=given.multiprocessing_context,
            prefetch_factor=given.prefetch_factor,
            generator=stream.child("workers").generator(),
        )

    def fingerprint(self) -> str:
        return f"DataLoader of {self.size} examples in {self.batches} batches"


_PLAIN = (RandomSampler, SequentialSampler)


@dataclass(frozen=True)
class _DeafWorker:
    """Ctrl-C is the loop's to hear: a worker that died of it would take the last step's batch with it."""

    then: Callable[[int], None] | None

    def __call__(self, worker: int) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self.then is not None:
            self.then(worker)


def _lengths(loader: DataLoader[Any]) -> tuple[int, int]:
    """Number of examples, and of batches in an epoch."""
    if loader.batch_sampler is None and loader.batch_size is None:
        raise ValueError("the DataLoader has batch_size=None, so credo cannot count its examples: give it a batch_size")
    whole = isinstance(loader.dataset, IterableDataset) or type(loader.sampler) in _PLAIN
    counted: Any = loader.dataset if whole else loader.sampler
    try:
        size, batches = len(counted), len(loader)
    except TypeError:
        raise ValueError(
            "the DataLoader has no length: credo must know the number of examples to weigh likelihood against prior; "
            "use a data set with __len__, or tensors"
        ) from None
    if batches == 0:
        raise ValueError("the DataLoader gives no batch: its data set is empty, or smaller than a batch with drop_last")
    return size, batches
