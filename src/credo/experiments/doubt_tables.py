"""The tables of classifiers that were asked about images of no known class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean

from credo.experiments.base import Cell, Table
from credo.experiments.doubt import FILTERED, DoubtResult

COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.5)
"""Parts of the images that are kept in the table of the filter experiment."""
AUROC, AUPR, FALSE_ALARMS = 0, 1, 2
"""Places in `DoubtResult.detection`."""


def tables(found: Mapping[str, DoubtResult]) -> tuple[Table, ...]:
    """What a reader wants to see beside the claims."""
    if not found:
        return ()
    return known(found), *(unknown(found, kind) for kind in kinds(found)), alarms(found), coverage(found)


def kinds(found: Mapping[str, DoubtResult]) -> list[str]:
    """What the unknown images are."""
    return list(next(iter(found.values())).detection)


def reasons(claims: Iterable[str], measured: Mapping[str, float], missing: Mapping[str, str]) -> dict[str, str]:
    """Why each claim without a number has none: the reason of the missing row that it names, or of the first one.

    Rows of the quick size, and claims about them, have names that begin with digits-.
    """
    found = {}
    for claim in claims:
        if claim in measured:
            continue
        same = [name for name in missing if name.startswith("digits-") == claim.startswith("digits-")]
        named = [name for name in same if name.removeprefix("digits-") in claim.split("-over-")]
        found[claim] = missing[(named or same)[0]]
    return found


def known(found: Mapping[str, DoubtResult]) -> Table:
    """Images of the classes that were learned."""
    columns = (
        *("row", "accuracy", "of one member", "log likelihood", "calibration error", "temperature"),
        *("log likelihood then", "calibration error then", "classes in a 95 % set", "sets that hold it", "minutes"),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            *(name, each.accuracy, fmean(each.members) if each.members else None, each.log_likelihood),
            *(each.calibration_error, each.temperature, *each.scaled, each.set_size, each.set_coverage),
            each.seconds / 60.0,
        )
        for name, each in found.items()
    ]
    note = "Temperature, sets and thresholds are made with held-out images; all numbers are of the test images."
    return Table("Images of known classes", columns, tuple(rows), note)


def unknown(found: Mapping[str, DoubtResult], kind: str) -> Table:
    """How well each score tells unknown images of one kind from known ones."""
    names = list(dict.fromkeys(name for each in found.values() for name in each.detection[kind]))
    rows: list[tuple[Cell, ...]] = [
        (name, *(each.detection[kind].get(name, [None])[AUROC] for each in found.values())) for name in names
    ]
    best = {name: max(each.detection[kind].items(), key=lambda item: item[1][AUROC]) for name, each in found.items()}
    said = "; ".join(
        f"{name} by {score}: average precision {values[AUPR]:.3f}, "
        f"{values[FALSE_ALARMS]:.0%} of the known ones ring where 95 % of the others do"
        for name, (score, values) in best.items()
    )
    note = f"The best of each: {said}."
    return Table(f"Known or {kind}: area under the ROC curve", ("score", *found), tuple(rows), note)


def alarms(found: Mapping[str, DoubtResult]) -> Table:
    """What rings at a threshold of 5 % false alarms."""
    columns = ("row", "score", "known that ring", *(f"{kind} that ring" for kind in kinds(found)))
    rows: list[tuple[Cell, ...]] = [
        (name, score, *rates) for name, each in found.items() for score, rates in each.alarms.items()
    ]
    return Table("Alarms at 5 % false alarms", columns, tuple(rows))


def coverage(found: Mapping[str, DoubtResult]) -> Table:
    """The filter experiment in numbers."""
    kind = kinds(found)[0]
    columns = ("row", "images", *(f"most certain {part:.0%}" for part in COVERAGES))
    rows: list[tuple[Cell, ...]] = []
    for name, each in found.items():
        for images, curve in (("known", each.kept), (f"known and {kind}", each.filtered["entropy"])):
            rows.append((name, images, *(curve[round(part * FILTERED) - 1] for part in COVERAGES)))
    note = f"By entropy. Among known and {kind} together an image of {kind} never counts as right."
    return Table("Accuracy on the most certain images", columns, tuple(rows), note)
