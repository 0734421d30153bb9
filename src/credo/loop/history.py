"""Numbers per step to rows per epoch, without waiting for the device at every step."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from credo.methods.base import Info


class History:
    """Averages what steps report over each epoch and over members; rows become numbers only when they are read."""

    def __init__(self, rows: list[dict[str, float]], first_step: int) -> None:
        self._rows = rows
        self._pending: list[tuple[dict[str, float], dict[str, Tensor]]] = []
        self._sums: Info = {}
        self._count = 0
        self._from = first_step

    def add(self, info: Info) -> None:
        """One step's report."""
        if self._count:
            for name, value in info.items():
                self._sums[name] += value
        else:
            self._sums = {name: value.clone() for name, value in info.items()}
        self._count += 1

    def close(self, epoch: float, seconds: float, extra: dict[str, Tensor]) -> None:
        """End an epoch's row."""
        if not self._count:
            return
        averages = {name: value.mean() / self._count for name, value in self._sums.items()}
        self._pending.append(({"epoch": epoch, "seconds": round(seconds, 4)}, {**averages, **extra}))
        self._sums, self._count = {}, 0

    def rows(self) -> list[dict[str, float]]:
        """All rows so far, as numbers."""
        if self._pending:
            columns = [torch.stack([v.double() for v in values.values()]) for _, values in self._pending]
            numbers = torch.cat(columns).cpu().tolist()
            for fixed, values in self._pending:
                taken, numbers = numbers[: len(values)], numbers[len(values) :]
                self._rows.append({**fixed, **dict(zip(values, taken, strict=True))})
            self._pending = []
        return self._rows

    def trouble(self) -> int | None:
        """The epoch in which a number stopped being finite, if any."""
        rows = self.rows()
        if not rows or all(math.isfinite(v) for v in rows[-1].values()):
            return None
        return next(int(row["epoch"]) for row in rows if not all(math.isfinite(v) for v in row.values()))
