"""Where the examples of a step come from."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, TensorDataset

from credo.core.rng import Stream
from credo.model import Batch, tensor

CheckTargets = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class PerMember:
    """Data of which each member has its own: x (M, N, ...) and y (M, N) or (M, N, D)."""

    x: Tensor
    y: Tensor


class Source(ABC):
    """The training data as a sequence of batches, one for each step, the same whenever it is asked again."""

    size: int
    """N, the number of examples (of each member)."""
    batches: int
    """Batches per epoch."""

    @property
    @abstractmethod
    def example(self) -> tuple[Tensor, Tensor]:
        """A few inputs and targets as they came, to look at shapes and types."""

    @abstractmethod
    def check(self, check_targets: CheckTargets) -> None:
        """Bring the targets into the shape and type that the likelihood wants."""

    @abstractmethod
    def steps(self, start: int) -> Iterator[Batch]:
        """The batches from step `start` on, without end."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A short text that differs when the data differ."""


class TensorSource(Source):
    """Whole tensors in memory; a new permutation per epoch, one for each member."""

    def __init__(
        self, x: Tensor, y: Tensor, *, batch_size: int | None, members: int, order: Stream, own: bool = False
    ) -> None:
        self.x, self.y, self.own, self.members, self.order = x, y, own, members, order
        self.size = int(x.shape[1 if own else 0])
        self.batch_size = min(batch_size or self.size, self.size)
        self.batches = -(-self.size // self.batch_size)

    @property
    def example(self) -> tuple[Tensor, Tensor]:
        return (self.x[0], self.y[0]) if self.own else (self.x, self.y)

    def check(self, check_targets: CheckTargets) -> None:
        self.y = torch.stack([check_targets(y) for y in self.y]) if self.own else check_targets(self.y)

    def steps(self, start: int) -> Iterator[Batch]:
        if self.batches == 1:
            whole = Batch(self.x, self.y, self.own)
            while True:
                yield whole
        epoch, first = divmod(start, self.batches)
        lanes = torch.arange(self.members, device=self.x.device).unsqueeze(1)
        while True:
            order = self._order(epoch)
            for i in range(first, self.batches):
                chosen = order[..., i * self.batch_size : (i + 1) * self.batch_size]
                if self.own:
                    yield Batch(self.x[lanes, chosen], self.y[lanes, chosen], own=True)
                else:
                    yield Batch(self.x[chosen], self.y[chosen], own=self.members > 1)
            epoch, first = epoch + 1, 0

    def _order(self, epoch: int) -> Tensor:
        """The examples in this epoch's order: (N,), or (M, N) with several members."""
        each = [self.order.child(m, epoch).permutation(self.size, self.x.device) for m in range(self.members)]
        return torch.stack(each) if self.members > 1 or self.own else each[0]

    def fingerprint(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for values in (self.x, self.y):
            digest.update(str((tuple(values.shape), values.dtype)).encode())
            digest.update(values.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()


class LoaderSource(Source):
    """A DataLoader. All members see the same batches.

    Where the loader draws from a plain (random or sequential) sampler, the order is drawn from credo's own stream, so
    that it can be repeated and resumed; a sampler of another kind is used as it is.
    """

    def __init__(self, loader: DataLoader[Any], *, order: Stream, device: torch.device) -> None:
        try:
            self.size = len(loader.dataset)  # type: ignore[arg-type]
            self.batches = len(loader)
        except TypeError:
            raise ValueError(
                "the DataLoader has no length: credo must know the number of examples to weigh likelihood against prior"
            ) from None
        self.loader, self.order, self.device = loader, order, device
        self._check: CheckTargets = lambda y: y
        self._example = next(iter(self._epoch(0)))

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
        for item in self._loader(epoch):
            if not isinstance(item, list | tuple) or len(item) != 2:
                raise ValueError("the DataLoader must give pairs (x, y)")
            yield item[0].to(self.device), item[1].to(self.device)

    def _loader(self, epoch: int) -> DataLoader[Any]:
        given, stream = self.loader, self.order.child(epoch)
        batched = type(given.batch_sampler) is BatchSampler
        if not batched or type(given.sampler) not in (RandomSampler, SequentialSampler):
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
            generator=stream.child("workers").generator(),
        )

    def fingerprint(self) -> str:
        return f"DataLoader of {self.size} examples in {self.batches} batches"


def source_of(
    data: Any, *, batch_size: int | None, members: int, order: Stream, device: torch.device, dtype: torch.dtype
) -> Source:
    """The source for what the user gave: a pair, a TensorDataset, a DataLoader or data per member."""
    if isinstance(data, DataLoader):
        return LoaderSource(data, order=order, device=device)
    own = isinstance(data, PerMember)
    x, y = (data.x, data.y) if isinstance(data, PerMember) else pair(data)
    x, y = prepared(x, "x", dtype).to(device), prepared(y, "y", dtype).to(device)
    if own and (len(x) != members or len(y) != members):
        raise ValueError(f"the data have {len(x)} members and the method {members}: they must be the same number")
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} rows and y has {len(y)}: they must be the same number")
    if x.shape[1 if own else 0] == 0:
        raise ValueError("the data are empty: there is nothing to learn from")
    return TensorSource(x, y, batch_size=batch_size, members=members, order=order, own=own)


def pair(data: Any) -> tuple[Any, Any]:
    """Inputs and targets out of a pair or a TensorDataset."""
    if isinstance(data, TensorDataset):
        data = data.tensors
    if not isinstance(data, list | tuple) or len(data) != 2:
        raise TypeError(f"data must be a pair (x, y), a TensorDataset or a DataLoader, got {type(data).__name__}")
    return data[0], data[1]


def prepared(values: Any, name: str, dtype: torch.dtype) -> Tensor:
    """A tensor; real numbers in the network's precision, and finite."""
    result = tensor(values, name)
    if result.ndim == 0:
        raise ValueError(f"{name} is a single number: it needs one row per example")
    if result.is_floating_point():
        result = result.to(dtype)
        finite = torch.isfinite(result)
        if not bool(finite.all()):
            row = int((~finite).nonzero()[0, 0])
            raise ValueError(f"{name} has NaN or infinite values (the first in row {row}): remove or fill them")
    return result
