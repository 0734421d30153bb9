"""Where the examples of a step come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from credo.core.arrays import tensor
from credo.core.rng import Stream
from credo.core.storage import fingerprint
from credo.likelihoods.base import check_finite
from credo.model import Batch

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
    notes: tuple[str, ...] = ()
    """What a person should know about where the batches come from."""

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
    """Whole tensors in memory; a new permutation per epoch, one for each member, cut into batches of even sizes."""

    def __init__(
        self, x: Tensor, y: Tensor, *, batch_size: int | None, members: int, order: Stream, per_member: bool = False
    ) -> None:
        self.x, self.y, self.per_member, self.members, self.order = x, y, per_member, members, order
        self.size = int(x.shape[1 if per_member else 0])
        self.batches = -(-self.size // min(batch_size or self.size, self.size))

    @property
    def example(self) -> tuple[Tensor, Tensor]:
        return (self.x[0], self.y[0]) if self.per_member else (self.x, self.y)

    def check(self, check_targets: CheckTargets) -> None:
        self.y = torch.stack([check_targets(y) for y in self.y]) if self.per_member else check_targets(self.y)

    def steps(self, start: int) -> Iterator[Batch]:
        if self.batches == 1:
            whole = Batch(self.x, self.y, self.per_member, factor=1.0)
            while True:
                yield whole
        epoch, first = divmod(start, self.batches)
        members, factor = torch.arange(self.members, device=self.x.device).unsqueeze(1), float(self.batches)
        while True:
            order = self._order(epoch)
            for i in range(first, self.batches):
                # sizes differ by one at most: a last batch of a single example would break batch norm
                chosen = order[..., i * self.size // self.batches : (i + 1) * self.size // self.batches]
                if self.per_member:
                    yield Batch(self.x[members, chosen], self.y[members, chosen], per_member=True, factor=factor)
                elif self.members > 1:
                    yield Batch(self.x[chosen], self.y[chosen], per_member=True, factor=factor)
                else:  # the same rows, in a tenth of the time on a CPU
                    yield Batch(self.x.index_select(0, chosen), self.y.index_select(0, chosen), factor=factor)
            epoch, first = epoch + 1, 0

    def _order(self, epoch: int) -> Tensor:
        """The examples in this epoch's order: (N,), or (M, N) with several members."""
        each = [self.order.child(m, epoch).permutation(self.size, self.x.device) for m in range(self.members)]
        return torch.stack(each) if self.members > 1 or self.per_member else each[0]

    def fingerprint(self) -> str:
        return fingerprint({"x": self.x, "y": self.y})


def tensor_source(
    data: Any, *, batch_size: int | None, members: int, order: Stream, device: torch.device, dtype: torch.dtype
) -> Source:
    """The source for whole arrays: a pair (x, y), a TensorDataset or data per member."""
    per_member = isinstance(data, PerMember)
    x, y = (prepared(v, n, dtype) for v, n in zip(pair(data), ("x", "y"), strict=True))
    if per_member and (len(x) != members or len(y) != members):
        raise ValueError(
            f"x is for {len(x)} members, y for {len(y)}, and the method has {members}: they must be the same number"
        )
    if per_member and min(x.ndim, y.ndim) < 2:
        raise ValueError("data per member need an axis for members and one for examples: x (M, N, ...), y (M, N)")
    check_rows(x[0] if per_member else x, y[0] if per_member else y)
    return TensorSource(
        x.to(device), y.to(device), batch_size=batch_size, members=members, order=order, per_member=per_member
    )


def pair(data: Any) -> tuple[Any, Any]:
    """Inputs and targets out of a pair, a TensorDataset or data per member."""
    if isinstance(data, PerMember):
        return data.x, data.y
    if isinstance(data, TensorDataset):
        data = data.tensors
    if not isinstance(data, list | tuple):
        raise TypeError(f"data must be a pair (x, y), a TensorDataset or a DataLoader, got {type(data).__name__}")
    if len(data) != 2:
        raise ValueError(f"data must be a pair (x, y): inputs and targets, got {len(data)} of them")
    return data[0], data[1]


def check_rows(x: Tensor, y: Tensor) -> None:
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} rows and y has {len(y)}: they must be the same number")
    if len(x) == 0:
        raise ValueError("the data are empty: there is nothing to learn from")


def prepared(values: Any, name: str, dtype: torch.dtype) -> Tensor:
    """A tensor; real numbers in the network's precision, and finite."""
    result = tensor(values, name)
    if result.ndim == 0:
        raise ValueError(f"{name} is a single number: it needs one row per example")
    if result.is_floating_point():
        result = result.to(dtype)
        check_finite(result, name)
    return result
