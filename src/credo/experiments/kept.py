"""Results that a run folder keeps row by row: a run that was cut short goes on with them, a second one needs fewer."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from credo.core.storage import SCHEMA, environment, find, read_json, write_folder

FOLDER = "rows"
"""Where the rows lie in a run folder."""


class Described(Protocol):
    """A row of any experiment: a name, and all that its result depends on."""

    @property
    def name(self) -> str: ...

    def settings(self, seed: int) -> dict[str, Any]: ...


def kept_numbers(row: Described, folder: Path, seed: int) -> dict[str, Any] | None:
    """What `write` has kept of a row in this folder, for these very settings."""
    if find(folder / FOLDER, f"{row.name}.json") is None:
        return None
    data = read_json(folder / FOLDER, f"{row.name}.json")
    return dict(data["result"]) if data["settings"] == row.settings(seed) else None


def write(result: Any, row: Described, folder: Path, seed: int) -> None:
    """Keep a result, a dataclass of plain numbers, for the next time."""
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    parts = {"settings": row.settings(seed), "environment": environment(), "result": asdict(result)}
    text = json.dumps({"schema": SCHEMA, **parts}, allow_nan=False) + "\n"
    write_folder(folder / FOLDER, {f"{row.name}.json": text}, {})
