"""`credo label`: a round of labeling: answers in, the rows that tell most out."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from credo.cli.console import answers, plain_warnings, progress, remarks, tell
from credo.data import Task
from credo.reports.learning_curve import draw_learning_curve
from credo.reports.tables import Table, terminal_table
from credo.tabular.label_curve import Labeling
from credo.tabular.label_session import LABELS, TO_LABEL
from credo.tabular.labeling import label_table
from credo.vision.labeling import label_images

CURVE = "curve.png"


def run(
    pool: Path,
    ask: int,
    target: str,
    out: Path | None,
    method: str,
    acquisition: str,
    task: Task | None,
    judge: float,
    seed: int,
    drop: list[str] | None,
    json_wanted: bool,
    quiet: bool,
) -> None:
    """The work of `credo label`."""
    folder, notes = out or Path(f"{pool.name.partition('.')[0]}-labels"), remarks(quiet)
    options: Any = {
        "ask": ask,
        "target": target,
        "method": method,
        "acquisition": acquisition,
        "judged": judge,
        "seed": seed,
    }
    with plain_warnings(notes), progress(notes) as bar:
        if pool.is_dir():
            if drop or task is Task.REGRESSION:
                raise ValueError("--drop and --task regression are for tables: images get classes")
            done = label_images(pool, folder, **options, say=bar.say)
        else:
            done = label_table(pool, folder, **options, task=task, drop=drop or ())
    for note in done.notes:
        notes.print(f"note: {note}", style="yellow", soft_wrap=True, markup=False)
    if done.curve:
        _draw(done)
    if json_wanted:
        state = {**asdict(done), "folder": str(done.folder), "task": done.task.value if done.task else None}
        answers().out(json.dumps(state, indent=2, allow_nan=False))
    else:
        _show(answers(quiet), done, pool, target)


def _measure(done: Labeling) -> str:
    return "typical error" if done.task is Task.REGRESSION else "accuracy"


def _draw(done: Labeling) -> None:
    """The curve, whole or not at all."""
    labels, scores, errors = zip(*((p.labels, p.score, p.error) for p in done.curve), strict=True)
    measure = f"{_measure(done)} on {done.judged} rows drawn at random"
    made = done.folder / f".{CURVE}.png"
    draw_learning_curve(made, labels, scores, errors, measure)
    os.replace(made, done.folder / CURVE)


def _show(console: Console, done: Labeling, pool: Path, target: str) -> None:
    labels = done.learned + done.judged
    found = f", {done.taken} of them new" if done.taken else ""
    counted = f": {done.learned:,} to learn from, {done.judged:,} drawn at random to judge by" if labels else ""
    console.print(f"{pool}: {labels:,} labels{found}{counted}.", markup=False, soft_wrap=True)
    if done.curve:
        rows = tuple((point.labels, f"{point.score:.3g} ± {point.error:.1g}") for point in done.curve)
        table = Table("Learning curve", ("labels", f"{_measure(done)} on {done.judged} rows"), rows)
        console.print(terminal_table(table))
        console.print(f"Curve:  {done.folder / CURVE}", markup=False, soft_wrap=True)
        use = "" if pool.is_dir() else f", for credo fit --target {target}"
        console.print(f"Labels: {done.folder / LABELS}{use}", markup=False, soft_wrap=True)
    if not done.asked:
        tell(console, "Every row has a label.")
        return
    tell(
        console,
        f"{len(done.asked):,} rows wait in {done.folder / TO_LABEL}: fill in the column {target!r}, as many as you "
        "like, and give the same command again.",
    )
