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

    def __init__(self) -> None:
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

    def close(self, epoch: float, seconds: float, extra: dict[str, Tensor]) -> None:
        """End an epoch's row.

        Args:
            epoch: epochs done.
            seconds: time so far.
            extra: numbers of the epoch that no step reported.
        """
        self._latest = {name: value.mean() / self._counts[name] for name, value in self._sums.items()}
        self._pending.append(({"epoch": epoch, "seconds": round(seconds, 4)}, {**self._latest, **extra}))
        self._sums, self._counts = {}, {}

    def rows(self) -> list[Row]:
        """All rows so far, as numbers."""
        columns = [value.double().reshape(1) for _, values in self._pending for value in values.values()]
        numbers = iter(torch.cat(columns).cpu().tolist() if columns else [])
        self._rows += [{**fixed, **{name: next(numbers) for name in values}} for fixed, values in self._pending]
        self._pending = []
        return self._rows

    def diverged(self) -> bool:
        """Whether what the latest steps reported is no longer finite."""
        newest = self._sums or self._latest
        return bool(newest) and not bool(torch.stack([value.isfinite().all() for value in newest.values()]).all())

    def first_broken_epoch(self) -> float | None:
        """The epoch of the first row in which a number that steps report is not finite."""
        broken = (row for row in self.rows() if not all(math.isfinite(row.get(name, 0.0)) for name in self._latest))
        return next((row["epoch"] for row in broken), None)

    def saved(self) -> tuple[dict[str, Any], Info]:
        """Rows and counts for JSON, and the sums of the epoch that is not over."""
        return {"rows": self.rows(), "counts": self._counts}, self._sums

    @staticmethod
    def restored(saved: dict[str, Any], sums: Info) -> History:
        """The inverse of `saved`."""
        history = History()
        history._rows, history._counts = list(saved["rows"]), dict(saved["counts"])
        history._sums = {name: sums[name] for name in history._counts}
        return history
