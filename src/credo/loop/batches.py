"""Where the examples of a step come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from credo.core.inputs import Inputs, Targets, is_graph, leaves_of, stack
from credo.core.rng import Stream
from credo.core.storage import fingerprint
from credo.core.trees import map_tensors
from credo.loop.masks import NOTHING_OBSERVED, any_observed, masked
from credo.loop.roles import PAIR, Examples, PerMember, Roles, examples
from credo.model import Batch

CheckTargets = Callable[[Any], Any]
Observed = Callable[[Any], Tensor | None]
"""Which elements of checked targets were observed; None for all of them."""
FAR = 2.0
"""How many times the number of examples their weights may add up to, or the other way round, without a word."""


def all_observed(y: Any) -> None:
    """For targets that are all there."""


class Source(ABC):
    """The training data as a sequence of batches, one for each step, the same whenever it is asked again."""

    size: float
    """N, the number of examples (of each member), or their total weight."""
    batches: int
    """Batches per epoch."""
    weighted: bool = False
    """Whether examples have weights."""
    notes: tuple[str, ...] = ()
    """What a person should know about where the batches come from."""

    @property
    @abstractmethod
    def example(self) -> tuple[Inputs, Targets]:
        """A few inputs and targets as they came, to look at shapes and types."""

    @abstractmethod
    def check(self, check_targets: CheckTargets, observed: Observed = all_observed) -> None:
        """Bring the targets into the shape and type that the likelihood wants, and refuse them if none was observed."""

    @abstractmethod
    def all_examples(self) -> Iterator[Examples]:
        """Every example once, some at a time, those of all members one after the other."""

    @abstractmethod
    def steps(self, start: int) -> Iterator[Batch]:
        """The batches from step `start` on, without end."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A short text that differs when the data differ."""


class TensorSource(Source):
    """Whole tensors in memory; a new permutation per epoch, one for each member, cut into batches of even sizes.

    A graph is one batch.
    """

    def __init__(
        self, data: Examples, *, batch_size: int | None, members: int, order: Stream, per_member: bool = False
    ) -> None:
        self.x, self.y, self.weights = data
        self.per_member, self.members, self.order = per_member, members, order
        self.rows = len(self.x[0] if per_member else self.x)
        whole = is_graph(self.x)
        self.batches = 1 if whole else -(-self.rows // min(batch_size or self.rows, self.rows))
        self.size: float = self.rows
        self.weighted = self.weights is not None
        if self.weights is not None:
            self.size = total_weight(self.weights, members if per_member else 1)
            self.notes = () if whole else weight_note(self.size, self.rows)

    @property
    def example(self) -> tuple[Inputs, Targets]:
        return (self.x[0], self.y[0]) if self.per_member else (self.x, self.y)

    def check(self, check_targets: CheckTargets, observed: Observed = all_observed) -> None:
        if self.per_member:
            self.y = stack([check_targets(self.y[m]) for m in range(self.members)])
        else:
            self.y = check_targets(self.y)
        if not any_observed(observed(self.y)):
            raise ValueError(NOTHING_OBSERVED.format("y"))

    def all_examples(self) -> Iterator[Examples]:
        whole = Examples(self.x, self.y, self.weights)
        yield map_tensors(lambda _, t: t.flatten(0, 1), whole) if self.per_member else whole

    def steps(self, start: int) -> Iterator[Batch]:
        if self.batches == 1:
            whole = Batch(self.x, self.y, self.per_member, self.weights, factor=1.0)
            while True:
                yield whole
        epoch, first = divmod(start, self.batches)
        factor = float(self.batches)
        while True:
            order = self._order(epoch)
            for i in range(first, self.batches):
                # sizes differ by one at most: a last batch of a single example would break batch norm
                chosen = order[..., i * self.rows // self.batches : (i + 1) * self.rows // self.batches]
                x, y = self._rows(self.x, chosen), self._rows(self.y, chosen)
                weight = None if self.weights is None else self._rows(self.weights, chosen)
                yield Batch(x, y, per_member=chosen.ndim == 2, weight=weight, factor=factor)
            epoch, first = epoch + 1, 0

    def _rows(self, values: Any, chosen: Tensor) -> Any:
        """Those of each member, (M, B, ...), or of all of them, (B, ...)."""
        if self.per_member:
            return values[torch.arange(self.members, device=chosen.device).unsqueeze(1), chosen]
        # the same rows, in a tenth of the time on a CPU
        return values.index_select(0, chosen) if chosen.ndim == 1 else values[chosen]

    def _order(self, epoch: int) -> Tensor:
        """The examples in this epoch's order: (N,), or (M, N) with several members."""
        each = [self.order.child(m, epoch).permutation(self.rows, self.x.device) for m in range(self.members)]
        return torch.stack(each) if self.members > 1 or self.per_member else each[0]

    def fingerprint(self) -> str:
        named = {"x": self.x, "y": self.y, **({} if self.weights is None else {"weights": self.weights})}
        leaves = {(name, path): t for name, values in named.items() for path, t in leaves_of(values).items()}
        return fingerprint({f"{name}/{path}" if path else name: t for (name, path), t in leaves.items()})


def tensor_source(
    data: Any,
    roles: Roles = PAIR,
    *,
    batch_size: int | None,
    members: int,
    order: Stream,
    device: torch.device,
    dtype: torch.dtype,
    weights: Any = None,
    mask: Any = None,
) -> Source:
    """The source for whole arrays: a pair (x, y), a TensorDataset, data per member, or what the roles say."""
    per_member = isinstance(data, PerMember)
    given = roles.split(data, "data")
    if weights is not None:
        if given.weights is not None:
            raise ValueError("weights are given twice, in PerMember(...) and in fit(..., weights=...): give them once")
        given = given._replace(weights=weights)
    if mask is not None:
        given = given._replace(y=masked(given.y, mask))
    found = examples(given, dtype, per_member=per_member, members=members if per_member else None)
    if not per_member:
        found = weighted_rows(found)
    return TensorSource(found.to(device), batch_size=batch_size, members=members, order=order, per_member=per_member)


def weighted_rows(data: Examples) -> Examples:
    """The data without the rows that weigh nothing, which are as good as absent; a graph stays whole."""
    x, y, weights = data
    if weights is None or bool((weights > 0).all()) or is_graph(x):
        return data
    rows = weights.nonzero()[:, 0]
    return Examples(x.index_select(0, rows), y.index_select(0, rows), weights[rows])


def total_weight(weights: Tensor, members: int = 1) -> float:
    """The sum of all weights, for each member."""
    return float(weights.double().sum()) / members


def weight_note(total: float, rows: float) -> tuple[str, ...]:
    """A sentence where weights do not count examples, as those do that add up to one."""
    if 1.0 / FAR <= total / rows <= FAR:
        return ()
    return (
        f"the weights add up to {total:.4g}, and there are {rows:g} examples: a weight of two is an example that comes "
        f"twice, so that the data count as {total:.4g} examples beside the prior; multiply the weights by "
        f"{rows / total:.4g} for as many as there are",
    )
