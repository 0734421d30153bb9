"""The UCI regression tables: nine sets on their standard splits, against the published columns."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from credo.data.errors import DataError
from credo.data.sets import load
from credo.experiments.base import Cell, Experiment, Figure, Outcome, Progress, Size, Table
from credo.experiments.uci.methods import METHODS, Row, scored
from credo.experiments.uci.protocol import NAMES, Scores, Splits, mean_and_error, splits_of
from credo.reports.style import BLACK, GREEN, RED, drawing

QUICK = ("boston", "yacht")
"""The two sets of the quick size; with the settings of the full one."""

Found = dict[tuple[str, str], Scores]
"""Scores by set and method."""


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Train every method on every set that is at hand, but for what the folder has already."""
    wanted = QUICK if size is Size.QUICK else NAMES
    found: Found = {}
    reasons = {name: "not part of the quick size" for name in NAMES if name not in wanted}
    for name in wanted:
        splits = partial(_splits, name)
        try:
            found |= {(name, m): scored(Row(name, m), splits, folder, seed, progress) for m in METHODS}
        except DataError as error:
            reasons[name] = str(error)
    measured = {claim: value for key, scores in found.items() for claim, value in _numbers(*key, scores).items()}
    ids = [claim.id for claim in EXPERIMENT.card.claims]
    unmeasured = {i: reasons[i.split(".")[0]] for i in ids if i not in measured}
    figures = (_figure(found, folder),) if found else ()
    return Outcome(measured, _tables(found), figures, unmeasured)


def _splits(name: str) -> Splits:
    return splits_of(load(f"uci-{name}"))


def _numbers(name: str, method: str, scores: Scores) -> dict[str, float]:
    key = Row(name, method).name
    return {
        f"{key}.rmse": mean_and_error(scores.rmse)[0],
        f"{key}.log-likelihood": mean_and_error(scores.log_likelihood)[0],
    }


def _tables(found: Found) -> tuple[Table, ...]:
    columns = ("set", "method", "splits", "RMSE", "s.e.", "log likelihood", "s.e.", "seconds")
    rows: list[tuple[Cell, ...]] = []
    for (name, method), scores in found.items():
        rmse, log_likelihood = mean_and_error(scores.rmse), mean_and_error(scores.log_likelihood)
        rows.append((name, method, len(scores.rmse), *rmse, *log_likelihood, round(scores.seconds, 1)))
    note = "Means over the standard splits with their standard errors, in the units of the target and in nats."
    return (Table("Our scores on the test rows", columns, tuple(rows), note),) if rows else ()


def _figure(found: Found, folder: Path) -> Figure:
    """Our log likelihood minus the published one, set by set."""
    published = {claim.id: float(claim.published) for claim in EXPERIMENT.card.claims}
    names = [name for name in NAMES if any(key[0] == name for key in found)]
    with drawing(folder / "uci.png", 7.5, 0.5 * len(names) + 1.6) as figure:
        axes = figure.subplots()
        for method, colour, shift in zip(METHODS, (GREEN, RED), (0.12, -0.12), strict=True):
            each = [_difference(found[name, method], published, name, method) for name in names]
            centres, errors = zip(*each, strict=True)
            places = [i + shift for i in range(len(names))]
            axes.errorbar(centres, places, xerr=[2 * e for e in errors], fmt="o", color=colour, capsize=3, label=method)
        axes.axvline(0.0, color=BLACK, linewidth=1)
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel("test log likelihood, ours minus published (nats per example)")
        figure.legend(loc="outside upper center", ncols=2)
    caption = "Right of the line our predictions give the test targets more probability than the published ones did."
    return Figure("uci.png", f"{caption} Bars are two standard errors of ours.")


def _difference(scores: Scores, published: dict[str, float], name: str, method: str) -> tuple[float, float]:
    mean, error = mean_and_error(scores.log_likelihood)
    return mean - published[f"{Row(name, method).name}.log-likelihood"], error


EXPERIMENT = Experiment.beside(__file__, run)
