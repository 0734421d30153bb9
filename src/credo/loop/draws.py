"""Where a sampler's draws go: to memory, or to a file that grows as they come."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path

import torch
from torch import Tensor

from credo.core.storage import StorageError
from credo.core.trees import Variables
from credo.methods.base import Info, Kept

DRAWS = "draws.bin"


class Rows(ABC):
    """A growing table of numbers, (T, M, width): one entry for each kept step."""

    @abstractmethod
    def add(self, row: Tensor) -> None:
        """Append the numbers of one step, (M, width)."""

    @abstractmethod
    def truncate(self, count: int, members: int, width: int, dtype: torch.dtype) -> None:
        """Go back to the first `count` steps."""

    @abstractmethod
    def flush(self) -> None:
        """Return when what was added would survive a crash."""

    @abstractmethod
    def table(self, members: int, width: int, dtype: torch.dtype) -> Tensor:
        """All numbers, (T, M, width)."""


class InMemory(Rows):
    """Rows where the chains are, on the device."""

    def __init__(self) -> None:
        self.rows: list[Tensor] = []

    def add(self, row: Tensor) -> None:
        self.rows.append(row)

    def truncate(self, count: int, members: int, width: int, dtype: torch.dtype) -> None:
        del self.rows[count:]

    def flush(self) -> None:
        pass

    def table(self, members: int, width: int, dtype: torch.dtype) -> Tensor:
        return torch.stack(self.rows)


class OnDisk(Rows):
    """Rows in a file of plain numbers, which is mapped into memory when it is read.

    Args:
        folder: of the run's checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / DRAWS
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.path.touch()
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written ({error})") from error

    def add(self, row: Tensor) -> None:
        try:
            with self.path.open("ab") as file:
                file.write(row.cpu().contiguous().view(torch.uint8).numpy().data)
        except OSError as error:
            raise StorageError(f"the draws cannot be written to {self.path} ({error})") from error

    def truncate(self, count: int, members: int, width: int, dtype: torch.dtype) -> None:
        size, there = count * members * width * dtype.itemsize, self.path.stat().st_size
        if there < size:
            raise StorageError(
                f"{self.path} holds {there} bytes of draws and the checkpoint speaks of {size}: the file is truncated, "
                "so the run cannot go on; start it anew in another folder"
            )
        os.truncate(self.path, size)

    def flush(self) -> None:
        with self.path.open("rb") as file:
            os.fsync(file.fileno())

    def table(self, members: int, width: int, dtype: torch.dtype) -> Tensor:
        count = self.path.stat().st_size // dtype.itemsize // (members * width)
        numbers = torch.from_file(str(self.path), shared=False, size=count * members * width, dtype=dtype)
        return numbers.view(count, members, width)


class Collector:
    """Copies what steps leave behind, and gives it back as weights of draws.

    Running statistics of batch norm differ between draws and are kept with the weights; frozen parameters and counters
    are the same for all, and are not.

    Args:
        rows: where the numbers go.
        frozen: names of buffers that never change.
    """

    def __init__(self, rows: Rows, frozen: tuple[str, ...]) -> None:
        self.rows, self.frozen = rows, frozen
        self.count = 0
        self.statistics: list[str] = []

    def add(self, variables: Variables, info: Info) -> None:
        """Keep the state after a step, (M, *shape), and what the step reported of it, (M,)."""
        self.statistics = sorted(info)
        parts, _, dtype = self._form(variables)
        numbers = [info[name].to(dtype).reshape(-1, 1) for name in self.statistics]
        row = torch.cat([*(t.unsqueeze(-1).flatten(1) for t in parts.values()), *numbers], dim=1)
        self.rows.add(row.detach())
        self.count += 1

    def resume(self, count: int, statistics: list[str], variables: Variables) -> None:
        """Go back to the first `count` kept states of a run that is resumed."""
        self.count, self.statistics = count, statistics
        _, width, dtype = self._form(variables)
        self.rows.truncate(count, variables.members, width, dtype)

    def kept(self, variables: Variables) -> Kept:
        """All that was kept. `variables`, those of the last state, give names, shapes and what never changes."""
        parts, width, dtype = self._form(variables)
        table = self.rows.table(variables.members, width, dtype).to(variables.device)
        flat, start, found = table.view(-1, width), 0, {}
        for name, t in parts.items():
            size = t[0].numel()
            found[name] = flat[:, start : start + size].view(len(flat), *t.shape[1:])
            start += size
        params = {name: found[name] for name in variables.params}
        same = {name: t[:1].expand(len(flat), *t.shape[1:]) for name, t in variables.buffers.items()}
        buffers = {name: found.get(name, t) for name, t in same.items()}
        statistics = {name: table[:, :, start + i] for i, name in enumerate(self.statistics)}
        return Kept(Variables(params, buffers), statistics)

    def _form(self, variables: Variables) -> tuple[dict[str, Tensor], int, torch.dtype]:
        """What is kept of a state, how many numbers that are for each member, and their type."""
        changing = {n: t for n, t in variables.buffers.items() if n not in self.frozen and t.is_floating_point()}
        parts = {**variables.params, **changing}
        width = sum(t[0].numel() for t in parts.values()) + len(self.statistics)
        return parts, width, next(iter(parts.values())).dtype
