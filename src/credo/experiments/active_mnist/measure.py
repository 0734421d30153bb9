"""Curves of accuracy by labels, and the labels that an accuracy takes."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import torch

from credo.decide import ActiveLearner, Questions
from credo.experiments.active_mnist.problem import THRESHOLDS, LabelRow
from credo.experiments.base import Cell, Progress, Table

SESSIONS = "sessions"
"""Where a run folder has the sessions that are not over."""
PREFIXES = ("", "repeated-", "small-", "small-repeated-", "digits-")
"""What the names of rows begin with: the images, and the size."""


@dataclass(frozen=True)
class LabelResult:
    """What a row found.

    Attributes:
        name: the row's.
        labels: after each round.
        accuracy: on the test images, in per cent.
        log_likelihood: of the test labels, per image in nats.
        seconds: of this process; less where a session was resumed.
        device: what it was computed on.
    """

    name: str
    labels: list[int]
    accuracy: list[float]
    log_likelihood: list[float]
    seconds: float
    device: str

    def needed(self, threshold: float) -> int | None:
        """Labels at which an accuracy in per cent is first reached; None where it never is."""
        return next((n for n, a in zip(self.labels, self.accuracy, strict=True) if a >= threshold), None)


def train(row: LabelRow, seed: int, folder: Path, progress: Progress, device: str) -> LabelResult:
    """Ask, answer and learn until the labels are used up; a session that was broken off is resumed."""
    seed, session, begin = seed + row.number, folder / SESSIONS / row.name, time.monotonic()
    pool = row.pool(seed)
    questions = Questions(row.acquisition, row.draws, row.configurations, row.candidates)
    learner = ActiveLearner(
        row.model(),
        pool.x,
        row.method,
        questions,
        seed=seed,
        folder=session,
        device=device,
        test=(pool.x_test, pool.y_test),
    )
    while len(learner.labeled) < row.most:
        known = len(learner.labeled)
        progress.say(f"{row.name}: {known} labels", known / row.most)
        rows = learner.ask(min(row.batch, row.most - known)) if known else pool.start(seed)
        learner.tell(rows, pool.y[rows])
    history = learner.history
    shutil.rmtree(session, ignore_errors=True)
    return LabelResult(
        name=row.name,
        labels=[int(each["labels"]) for each in history],
        accuracy=[100.0 * each["accuracy"] for each in history],
        log_likelihood=[each.get("log_likelihood", -1e9) for each in history],
        seconds=time.monotonic() - begin,
        device=device if device == "cpu" else torch.cuda.get_device_name(),
    )


def curves(found: Mapping[str, LabelResult]) -> dict[str, list[LabelResult]]:
    """Results by their curves, all repetitions of one together."""
    grouped: dict[str, list[LabelResult]] = {}
    for name, result in found.items():
        grouped.setdefault(name.rpartition("-")[0], []).append(result)
    return grouped


def needed(results: Sequence[LabelResult], threshold: float) -> float:
    """The median over repetitions of the labels that an accuracy takes; infinite where half of them never reach it."""
    return median(result.needed(threshold) or math.inf for result in results)


def numbers(found: Mapping[str, LabelResult]) -> dict[str, float]:
    """What claims may be about: labels for an accuracy, and in tens how BALD and BatchBALD compare with others."""
    grouped, measured = curves(found), dict[str, float]()
    for curve, results in grouped.items():
        labels = {threshold: needed(results, threshold) for threshold in THRESHOLDS}
        measured |= {f"{curve}/{threshold}": count for threshold, count in labels.items()}
    for prefix in PREFIXES:
        names = [f"{prefix}{how}-10" for how in ("bald", "batchbald", "random")]
        if all(name in grouped for name in names):
            bald, batch, random = (fmean(fmean(result.accuracy) for result in grouped[name]) for name in names)
            measured |= {f"{prefix}bald-random": bald - random, f"{prefix}batchbald-bald": batch - bald}
            measured[f"{prefix}batchbald-random"] = batch - random
    return measured


def table(found: Mapping[str, LabelResult]) -> Table:
    """Labels for each accuracy, all repetitions."""
    lines: tuple[tuple[Cell, ...], ...] = tuple(
        (curve, len(results), *(_listed(results, t) for t in THRESHOLDS), fmean(r.accuracy[-1] for r in results))
        for curve, results in curves(found).items()
    )
    columns = ("asked by", "repetitions", *(f"labels for {t} %" for t in THRESHOLDS), "accuracy at the end, %")
    note = "The labels at which the test accuracy is first reached, of each repetition; a dash where it never is."
    return Table("Labels needed", columns, lines, note)


def _listed(results: Sequence[LabelResult], threshold: float) -> str:
    return ", ".join(str(result.needed(threshold) or "-") for result in results)
