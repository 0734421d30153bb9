"""Results of the benchmark of tables: one line of JSON for each method, table and seed, written once."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "tables"


@dataclass(frozen=True)
class Row:
    """One method on one split of one table.

    Attributes:
        method: its name.
        table: its name.
        seed: of the split, and of the method.
        limit: at most so many rows of the table were used; None for all.
        source: the package that carries the table, with its version.
        rows: of the whole table.
        columns: to predict from.
        trained: rows that were learned from.
        held_out: rows that were predicted.
        seconds: of processor time, to fit.
        version: of the package, or the commit of credo.
        scores: by the names of the measures; None where the method has no such thing.
        failed: why there are no scores; empty where there are.
    """

    method: str
    table: str
    seed: int
    limit: int | None
    source: str
    rows: int
    columns: int
    trained: int
    held_out: int
    seconds: float
    version: str
    scores: dict[str, float | None] = field(default_factory=dict)
    failed: str = ""

    @property
    def key(self) -> tuple[str, int, int | None]:
        """What it is a result of, beside the method."""
        return self.table, self.seed, self.limit


def read(method: str, folder: Path = RESULTS) -> list[Row]:
    """The rows of a method; none where it has not been run."""
    path = folder / f"{method}.jsonl"
    if not path.exists():
        return []
    return [Row(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def write(row: Row, folder: Path = RESULTS) -> None:
    """Add a row to those of its method."""
    folder.mkdir(parents=True, exist_ok=True)
    rounded = {name: None if value is None else float(f"{value:.6g}") for name, value in row.scores.items()}
    line = json.dumps({**asdict(row), "scores": rounded, "seconds": round(row.seconds, 3)})
    with (folder / f"{row.method}.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def methods(folder: Path = RESULTS) -> list[str]:
    """Names of the methods that have rows."""
    return sorted(path.stem for path in folder.glob("*.jsonl"))
