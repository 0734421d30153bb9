"""How often each rule breaks its promise over repeated splits, and how much it decides."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor

import credo
from credo.decide import SelectionCurve
from credo.experiments.abstain.problem import (
    ERRORS,
    NOISE,
    RISK,
    RULES,
    SETTINGS,
    AbstainRow,
    Garments,
    method,
    network,
)
from credo.experiments.base import Cell, Progress, Table, uninterrupted


@dataclass(frozen=True)
class AbstainResult:
    """Risk among decided images and the part that is decided, of all seeds and splits, (n,) each.

    Attributes:
        risk: by rule and error, `fixed sequence @ 0.001`.
        decided: likewise.
        noisy_risk: of the first rule and the last error, for images with noise.
        accuracy: over all images, for each seed.
        seconds: wall-clock time.
    """

    risk: dict[str, list[float]]
    decided: dict[str, list[float]]
    noisy_risk: list[float]
    accuracy: list[float]
    seconds: float


@dataclass(frozen=True)
class Answers:
    """What one judge says of images: its doubt, and whether it is wrong, (N,) each."""

    doubt: Tensor
    wrong: Tensor

    def among(self, threshold: float | None, rows: Tensor) -> tuple[float, float]:
        """Risk among the decided ones of these images, and the part that is decided."""
        decided = self.doubt[rows] <= (-1.0 if threshold is None else threshold)
        wrong = self.wrong[rows][decided]
        return (float(wrong.mean()) if len(wrong) else 0.0), float(decided.double().mean())


def measured(row: AbstainRow, data: Garments, seed: int, progress: Progress) -> AbstainResult:
    """Train the networks of all seeds at once, and choose thresholds on repeated splits."""
    begin, settings = time.monotonic(), SETTINGS[row.size]
    count = settings.seeds * row.members
    listener = progress.of(f"{row.kind}: {count} networks at once")
    fitted = credo.fit(network(), (data.x, data.y), method(settings, row.members), seed=seed, progress=listener)
    posterior = uninterrupted(fitted, count)
    noise = NOISE * credo.Stream(seed, ("abstain", "noise")).normal(*data.x_rest.shape)
    found = AbstainResult({}, {}, [], [], 0.0)
    for judge in range(settings.seeds):
        mine = posterior.of_members(torch.arange(row.members) + judge * row.members)
        clean, noisy = (_answers(mine, x, data.y_rest) for x in (data.x_rest, data.x_rest + noise))
        found.accuracy.append(1.0 - float(clean.wrong.mean()))
        for split in range(settings.splits):
            order = credo.Stream(seed, ("abstain", "split", judge, split)).permutation(len(data.x_rest))
            _judge(found, clean, noisy, order[: settings.held_out], order[settings.held_out :])
    return AbstainResult(found.risk, found.decided, found.noisy_risk, found.accuracy, time.monotonic() - begin)


def _answers(posterior: credo.Posterior, x: Tensor, y: Tensor) -> Answers:
    probs = torch.cat([prediction.mean for prediction in posterior.predict_batches(x)]).double()
    top, label = probs.max(1)
    return Answers(1.0 - top, (label != y).double())


def _judge(found: AbstainResult, clean: Answers, noisy: Answers, held_out: Tensor, rest: Tensor) -> None:
    """Add one split: a threshold from the held-out images by each rule, judged by all others."""
    curve = SelectionCurve.of(clean.doubt[held_out], clean.wrong[held_out])
    for rule in RULES:
        for error in ERRORS:
            threshold = RULES[rule].threshold(curve, error)
            risk, decided = clean.among(threshold, rest)
            found.risk.setdefault(key(rule, error), []).append(risk)
            found.decided.setdefault(key(rule, error), []).append(decided)
            if (rule, error) == (next(iter(RULES)), ERRORS[-1]):
                found.noisy_risk.append(noisy.among(threshold, rest)[0])


def key(rule: str, error: float) -> str:
    return f"{rule} @ {error}"


def broken(result: AbstainResult, rule: str, error: float) -> float:
    """The part of splits, in per cent, in which the risk among decided images is larger than promised."""
    risks = result.risk[key(rule, error)]
    return 100.0 * sum(risk > RISK for risk in risks) / len(risks)


def numbers(found: Mapping[str, AbstainResult]) -> dict[str, float]:
    """What claims are about."""
    measured = {}
    for kind, result in found.items():
        for rule in RULES:
            for error in ERRORS:
                measured[f"{kind}.{rule.replace(' ', '-')}.{error}"] = broken(result, rule, error)
        measured[f"{kind}.noise"] = 100.0 * fmean(result.noisy_risk)
    return measured


def table(found: Mapping[str, AbstainResult]) -> Table:
    """One row per kind of network, rule and error."""
    columns = ("network", "rule", "error", "promise broken (%)", "mean risk (%)", "decided (%)", "splits")
    rows: list[tuple[Cell, ...]] = []
    for kind, result in found.items():
        for rule in RULES:
            for error in ERRORS[: 1 if rule in ("empirical threshold", "stated probability") else None]:
                promises = error if rule in ("fixed sequence", "guaranteed risk") else None
                risks, decided = result.risk[key(rule, error)], result.decided[key(rule, error)]
                each = (broken(result, rule, error), 100 * fmean(risks), 100 * fmean(decided))
                rows.append((kind, rule, promises, *(round(value, 2) for value in each), len(risks)))
    note = (
        f"Wrong answers among decided images, of which at most {RISK:.0%} were promised, and the part that is decided."
    )
    return Table("Promises over repeated splits", columns, tuple(rows), note)
