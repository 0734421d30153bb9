"""What a comparison says, as a table."""

from __future__ import annotations

from credo.diagnostics.agreement import ClassAgreement
from credo.experiments.judge.comparing import Comparison, Result
from credo.reports.tables import Cell, Table

NUMBERS = ("W in", "W out", "TV in", "TV out", "sd out", "cover")
CLASSES = ("same in", "same out", "TV in", "TV out", "right", "log lik")


def comparison_table(comparison: Comparison) -> Table:
    """One row per method, the judge first."""
    classes = isinstance(comparison.judge.agreement, ClassAgreement)
    columns = ("method", *(CLASSES if classes else NUMBERS), "1000 grads", "secs")
    rows = tuple(_row(comparison, result) for result in (comparison.judge, *comparison.results))
    note = (
        f"The judge: {comparison.convergence.verdict}. Its own row holds one half of its chains against the other: "
        "smaller distances mean nothing. In: among the data; out: outside them. TV: total variation distance of the "
        "predictive distribution from the judge's, 0 to 1. "
    )
    return Table(comparison.contest.title, columns, rows, note + (_CLASSES if classes else _NUMBERS) + _COST)


_CLASSES = "Same: part of the inputs where the likeliest class is the judge's. Right, log lik: on new data. "
_NUMBERS = (
    "W: 1-Wasserstein distance in units of the judge's standard deviation. sd: standard deviation of the prediction "
    "over the judge's. Cover: part of new y among the data in the 95 % intervals. "
)
_COST = "1000 grads: gradients of all the data, over all members and chains."


def _row(comparison: Comparison, result: Result) -> tuple[Cell, ...]:
    zones = [measures(comparison, result, inside) for inside in (True, False)]
    if isinstance(result.agreement, ClassAgreement):
        numbers = [zone[name] for name in ("agreement", "total_variation") for zone in zones]
    else:
        numbers = [zone[name] for name in ("relative_wasserstein", "total_variation") for zone in zones]
        numbers.append(zones[1]["stddev_ratio"])
    numbers.append(result.hits)
    if isinstance(result.agreement, ClassAgreement):
        numbers.append(result.log_likelihood)
    thousands = None if result.gradients is None else round(result.gradients / 1000, 1)
    return (result.label, *(round(number, 3) for number in numbers), thousands, round(result.seconds, 1))


def measures(comparison: Comparison, result: Result, inside: bool) -> dict[str, float]:
    """What tells a method from the judge, averaged over the inputs inside or outside the data."""
    rows = comparison.contest.inside if inside else ~comparison.contest.inside
    return dict(result.agreement.at(rows).averages())
