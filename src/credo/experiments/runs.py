"""Run folders: what an experiment found, on disk, for people and programs to read."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from credo.core.storage import SCHEMA, StorageError, environment, write_folder
from credo.experiments.base import Card, Claim, Experiment, Figure, Judged, Outcome, Progress, Size, Verdict, judge
from credo.reports.tables import Table, cell_text, markdown

OUTCOME = "outcome.json"
SUMMARY = "summary.md"


@dataclass(frozen=True)
class Run:
    """One performance of an experiment.

    Attributes:
        card: what the experiment says of itself.
        size: how much work was done.
        seed: every stream of randomness derives from it.
        seconds: wall-clock time.
        judged: the claims, our numbers, the verdicts.
        tables: in the order in which they are shown.
        figures: pictures in the run folder.
        environment: versions and platform.
    """

    card: Card
    size: Size
    seed: int
    seconds: float
    judged: tuple[Judged, ...]
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    environment: Mapping[str, str]

    @property
    def agrees(self) -> bool:
        """Whether something was measured, and no claim is refuted."""
        verdicts = {entry.verdict for entry in self.judged}
        return Verdict.DIFFERS not in verdicts and (Verdict.AGREES in verdicts or not verdicts)


def perform(experiment: Experiment, size: Size, folder: Path, seed: int, progress: Progress) -> Run:
    """Run an experiment and write its folder: outcome.json, summary.md, and its figures.

    Raises:
        StorageError: the folder cannot be written; that is found out before the work begins.
    """
    _open_for_writing(folder)
    begin = time.monotonic()
    outcome = experiment.run(size, folder, seed, progress)
    seconds = time.monotonic() - begin
    _check_figures(folder, outcome)
    judged = judge(experiment.card.claims, outcome)
    system = {"credo": version("credo"), **environment()}
    run = Run(experiment.card, size, seed, seconds, judged, outcome.tables, outcome.figures, system)
    write_folder(folder, {OUTCOME: as_json(run), SUMMARY: summary(run)}, {})
    return run


def _open_for_writing(folder: Path) -> None:
    probe = folder / ".credo-probe"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise StorageError(f"{folder} cannot be written ({error.strerror}): choose another folder") from None


def _check_figures(folder: Path, outcome: Outcome) -> None:
    for figure in outcome.figures:
        if not (folder / figure.path).is_file():
            raise ValueError(f"figure {figure.path!r} is in the outcome and not in the folder {folder}")


def claims_table(run: Run) -> Table:
    """Published / ours / verdict, one row per claim."""
    rows = tuple(
        (j.claim.statement, j.claim.published, accepted(j.claim), j.measured, j.verdict.value) for j in run.judged
    )
    return Table("Claims", ("claim", "published", "accepted", "ours", "verdict"), rows, _missing(run.judged))


def _missing(judged: Sequence[Judged]) -> str:
    """Why claims were not measured, each reason once."""
    reasons = Counter(entry.reason for entry in judged if entry.reason)
    first = {entry.reason: entry.claim.statement for entry in reversed(judged)}
    return " ".join(
        f"Not measured: {first[reason] if count == 1 else f'{count} claims'} ({reason})."
        for reason, count in reasons.items()
    )


def accepted(claim: Claim) -> str:
    """The accepted range in words."""
    low, high = cell_text(claim.low), cell_text(claim.high)
    if math.isinf(claim.low):
        return f"at most {high}"
    if math.isinf(claim.high):
        return f"at least {low}"
    if claim.low == claim.high:
        return f"exactly {low}"
    if low == high:  # the range is finer than four digits
        return f"{low} ± {(claim.high - claim.low) / 2:.1g}"
    return f"{low} to {high}"


def summary(run: Run) -> str:
    """The run as a page of markdown."""
    card = run.card
    parts = [
        f"# {card.title}",
        f"{card.shows}",
        f"Source: {card.source}. Size {run.size.value}, seed {run.seed}, {run.seconds:.1f} seconds.",
    ]
    for table in (*run.tables, claims_table(run)):
        parts += [f"## {table.title}", markdown(table), *([table.note] if table.note else [])]
    notes = [f"- {j.claim.statement}: {j.claim.note} Source: {j.claim.source}." for j in run.judged]
    parts += ["### How the claims are measured", "\n".join(notes)]
    for figure in run.figures:
        parts += [f"![{figure.caption}]({figure.path})", f"*{figure.caption}*"]
    return "\n\n".join(parts) + "\n"


def as_json(run: Run) -> str:
    """The run as strict JSON: numbers that JSON does not know are text, open ends of ranges are null."""
    card = run.card
    data = {
        "schema": SCHEMA,
        "experiment": card.name,
        "title": card.title,
        "source": card.source,
        "shows": card.shows,
        "size": run.size.value,
        "seed": run.seed,
        "seconds": round(run.seconds, 3),
        "agrees": run.agrees,
        "claims": [_judged_to_json(entry) for entry in run.judged],
        "tables": [asdict(table) for table in run.tables],
        "figures": [asdict(figure) for figure in run.figures],
        "environment": dict(run.environment),
    }
    return json.dumps(_strict(data), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _judged_to_json(entry: Judged) -> dict[str, Any]:
    bounds = {"low": _bound(entry.claim.low), "high": _bound(entry.claim.high)}
    ours = {"measured": entry.measured, "reason": entry.reason, "verdict": entry.verdict.value}
    return {**asdict(entry.claim), **bounds, **ours}


def _bound(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
