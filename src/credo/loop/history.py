"""Numbers per step to rows per epoch, without waiting for the device at every step."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from credo.methods.base import Info

Row = dict[str, float]


class History:
    """Averages what steps report over each epoch and over members; rows become numbers only when they are read."""

    def __init__(self, *, independent: bool = False) -> None:
        self.independent = independent  # whether members are runs of their own, so that one may diverge alone
        self._rows: list[Row] = []
        self._pending: list[tuple[Row, dict[str, Tensor]]] = []
        self._sums: Info = {}
        self._counts: dict[str, int] = {}
        self._latest: Info = {}

    def add(self, info: Info) -> None:
        """One step's report. A number that only some steps report is averaged over these."""
        for name, value in info.items():
            before = self._sums.get(name)
            self._sums[name] = value.detach().clone() if before is None else before.to(value.device) + value.detach()
            self._counts[name] = self._counts.get(name, 0) + 1

    def averages(self) -> Info:
        """Of the epoch so far, for each member."""
        return {name: value / self._counts[name] for name, value in self._sums.items()}

    def close(self, epoch: float, seconds: float, extra: Info) -> None:
        """End the row of an epoch, with numbers that no step reported, (M,) or one for all."""
        self._latest = self.averages()
        finite = self._finite(self._latest) if self._latest else torch.ones((), dtype=torch.bool)
        row = {name: _average(value, finite) for name, value in {**self._latest, **extra}.items()}
        self._pending.append(({"epoch": epoch, "seconds": round(seconds, 4)}, row))
        self._sums, self._counts = {}, {}

    def rows(self) -> list[Row]:
        """All rows so far, as numbers."""
        columns = [value.double().reshape(1) for _, values in self._pending for value in values.values()]
        numbers = iter(torch.cat(columns).cpu().tolist() if columns else [])
        self._rows += [{**fixed, **{name: next(numbers) for name in values}} for fixed, values in self._pending]
        self._pending = []
        return self._rows

    def diverged(self) -> bool:
        """Whether what the latest steps reported is no longer finite, for all members if these are independent."""
        newest = self._sums or self._latest
        return bool(newest) and not bool(self._finite(newest).any())

    def first_broken_epoch(self) -> float | None:
        """The epoch of the first row in which a number that steps report is not finite."""
        broken = (row for row in self.rows() if not all(math.isfinite(row.get(name, 0.0)) for name in self._latest))
        return next((row["epoch"] for row in broken), None)

    def saved(self) -> tuple[dict[str, Any], Info]:
        """Rows and counts for JSON, and the sums of the epoch that is not over."""
        return {"rows": self.rows(), "counts": self._counts}, self._sums

    @staticmethod
    def restored(saved: dict[str, Any], sums: Info) -> History:
        """The inverse of `saved`; a ValueError if it is not a history."""
        rows, counts = list(saved["rows"]), dict(saved["counts"])
        numbers = [number for row in rows for number in dict(row).values()]
        if not all(type(number) in (int, float) for number in numbers) or not all(
            type(count) is int and count > 0 for count in counts.values()
        ):
            raise ValueError("the history holds what is no number")
        history = History()
        history._rows, history._counts, history._sums = rows, counts, {name: sums[name] for name in counts}
        return history

    def _finite(self, metrics: Info) -> Tensor:
        """Whether all numbers of a member are finite, (M,); of all members together where they are not independent."""
        each = [v.isfinite() if self.independent and v.ndim == 1 else v.isfinite().all() for v in metrics.values()]
        return torch.stack(torch.broadcast_tensors(*each)).all(0)  # type: ignore[no-untyped-call]


def _average(value: Tensor, finite: Tensor) -> Tensor:
    """Over the members whose numbers are finite; not finite where there are none."""
    if value.shape != finite.shape or finite.ndim == 0:
        return value.mean()
    return torch.where(finite, value, 0.0).sum() / finite.sum()
