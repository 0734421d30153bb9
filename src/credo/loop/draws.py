"""Where a sampler's draws go: to memory, or to a file that grows as they come."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import torch
from torch import Tensor

from credo.core.storage import StorageError, refuse_link
from credo.core.trees import Variables
from credo.methods.base import Info, SampledStates

DRAWS = "draws.bin"
DIVERGING = "diverging"
"""The number, 1 or 0, by which a sampler says that a step diverged."""
PIECE = 2**20
"""Bytes that are read at a time when a file is checked."""


@dataclass(frozen=True)
class Mark:
    """What a checkpoint says of the draws before it."""

    count: int = 0  # steps that gave draws
    statistics: tuple[str, ...] = ()  # names of the numbers beside the weights, in their order
    digest: str = ""  # of all the bytes in the file


class InMemory:
    """A growing table of numbers, (T, M, width), one entry for each step that is a draw, where the chains are."""

    def __init__(self) -> None:
        self.rows: list[Tensor] = []

    def add(self, row: Tensor) -> None:  # (M, width)
        self.rows.append(row)

    def begin(self) -> None:
        self.rows = []

    def resume(self, size: int, digest: str) -> None:
        raise StorageError("draws in memory are gone when a run is resumed")

    def flush(self) -> str:
        return ""

    def table(self, count: int, members: int, width: int, dtype: torch.dtype) -> Tensor:
        return torch.stack(self.rows)


class OnDisk:
    """The same table in a file of plain numbers, which is mapped into memory when it is read.

    The file is never cut: what lies behind the rows that count is overwritten, with the same numbers if it was this run
    that wrote them. So a posterior whose draws are mapped from it stays good while the run goes on.
    """

    def __init__(self, folder: Path) -> None:
        self.path, self.end, self.hash = refuse_link(folder / DRAWS), 0, hashlib.blake2b(digest_size=16)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.path.touch()
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written ({error})") from error

    def add(self, row: Tensor) -> None:
        """Append a row; one that does not fit on the disk is as good as not written, and those before it stay."""
        data = row.cpu().contiguous().view(torch.uint8).numpy().tobytes()
        try:
            with self.path.open("r+b", buffering=0) as file:
                file.seek(self.end)
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) :]
        except OSError as error:
            raise StorageError(f"the draws cannot be written to {self.path} ({error})") from error
        self.end += len(data)
        self.hash.update(data)

    def begin(self) -> None:
        """Begin with an empty table."""
        if self.path.stat().st_size:
            raise StorageError(
                f"{self.path} holds draws and there is no checkpoint that speaks of them: give another folder, or "
                "delete that file if you do not need it"
            )

    def resume(self, size: int, digest: str) -> None:
        """Go on with the first `size` bytes of a table that was flushed."""
        there = self.path.stat().st_size
        if there < size:
            raise StorageError(
                f"{self.path} holds {there} bytes of draws and the checkpoint speaks of {size}: the file is truncated, "
                "so the run cannot go on; start it anew in another folder"
            )
        for piece in self._pieces(size):
            self.hash.update(piece)
        self.end = size
        if self.hash.hexdigest() != digest:
            raise StorageError(
                f"{self.path} does not hold the draws that the checkpoint speaks of: the file is damaged or another "
                "run's, so the run cannot go on; start it anew in another folder"
            )

    def _pieces(self, size: int) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                for start in range(0, size, PIECE):
                    yield file.read(min(PIECE, size - start))
        except OSError as error:
            raise StorageError(f"{self.path} cannot be read ({error})") from error

    def flush(self) -> str:
        """Return, with a digest of all that was added, when it would survive a crash."""
        try:
            with self.path.open("r+b") as file:
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(f"the draws cannot be written to {self.path} ({error})") from error
        return self.hash.hexdigest()

    def table(self, count: int, members: int, width: int, dtype: torch.dtype) -> Tensor:
        """All numbers, (T, M, width)."""
        numbers = torch.from_file(str(self.path), shared=False, size=count * members * width, dtype=dtype)
        return numbers.view(count, members, width)


class Collector:
    """Copies what steps leave behind, and gives it back as weights of draws.

    Running statistics of batch norm differ between draws and are stored with the weights; frozen parameters and
    counters are the same for all, and are not.
    """

    def __init__(self, rows: InMemory | OnDisk, frozen: tuple[str, ...]) -> None:
        self.rows, self.frozen = rows, frozen
        self.count = 0
        self.statistics: tuple[str, ...] = ()
        self._diverged: Tensor | None = None

    def add(self, variables: Variables, info: Info) -> None:
        """Keep the state after a step, (M, *shape), and what the step reported of it, (M,).

        The first draw says which numbers are stored; one that a later step does not report is missing there.
        """
        statistics = self.statistics if self.count else tuple(sorted(info))
        parts, dtype = self._parts(variables)
        missing = torch.full((variables.members,), math.nan, device=variables.device)
        numbers = [info.get(name, missing).to(dtype).reshape(-1, 1) for name in statistics]
        flat = [t.to(dtype).unsqueeze(-1).flatten(1) for t in parts.values()]
        self.rows.add(torch.cat([*flat, *numbers], dim=1).detach())
        self.count, self.statistics = self.count + 1, statistics
        if DIVERGING in info:
            self._diverged = info[DIVERGING].detach().sum() + (0.0 if self._diverged is None else self._diverged)

    @property
    def divergences(self) -> int | None:
        """How many of the draws diverged, of all chains; None where the sampler does not say."""
        return None if self._diverged is None else round(float(self._diverged))

    def mark(self) -> Mark:
        """What a checkpoint must know to go on from here; all draws survive a crash from now on."""
        return Mark(self.count, self.statistics, self.rows.flush())

    def begin(self) -> None:
        """Begin a run."""
        self.rows.begin()

    def resume(self, mark: Mark, variables: Variables) -> None:
        """Go back to the draws of a checkpoint."""
        self.count, self.statistics = mark.count, mark.statistics
        _, dtype = self._parts(variables)
        self.rows.resume(mark.count * variables.members * self._width(variables) * dtype.itemsize, mark.digest)
        if DIVERGING in mark.statistics:
            self._diverged = self.states(variables).statistics[DIVERGING].sum()

    def states(self, variables: Variables) -> SampledStates:
        """All draws. `variables`, those of the last state, give names, shapes and what never changes."""
        (parts, dtype), width = self._parts(variables), self._width(variables)
        table = self.rows.table(self.count, variables.members, width, dtype).to(variables.device)
        flat, start, found = table.view(-1, width), 0, {}
        for name, t in parts.items():
            size = t[0].numel()
            found[name] = flat[:, start : start + size].view(len(flat), *t.shape[1:]).to(t.dtype)
            start += size
        params = {name: found[name] for name in variables.params}
        same = {name: t[:1].expand(len(flat), *t.shape[1:]) for name, t in variables.buffers.items()}
        buffers = {name: found.get(name, t) for name, t in same.items()}
        statistics = {name: table[:, :, start + i] for i, name in enumerate(self.statistics)}
        return SampledStates(Variables(params, buffers), statistics)

    def _parts(self, variables: Variables) -> tuple[dict[str, Tensor], torch.dtype]:
        """What is stored of a state, and the type of number that holds all of it."""
        changing = {n: t for n, t in variables.buffers.items() if n not in self.frozen and t.is_floating_point()}
        parts = {**variables.params, **changing}
        return parts, reduce(torch.promote_types, (t.dtype for t in parts.values()))

    def _width(self, variables: Variables) -> int:
        """Numbers that are stored of each member."""
        return sum(t[0].numel() for t in self._parts(variables)[0].values()) + len(self.statistics)
