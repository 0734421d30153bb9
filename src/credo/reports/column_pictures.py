"""The figures of a table's columns, with what to see in each, in words and for those who do not see it."""

from __future__ import annotations

from functools import partial

from credo.evaluation.table_values import Effect
from credo.evaluation.values import Evaluation
from credo.reports import column_figures as draw
from credo.reports.pictures import ReportFigure

SMALL = 2.5
"""Height in inches of a figure of which there are several."""


def column_pictures(evaluation: Evaluation) -> dict[str, list[ReportFigure]]:
    """Figures of importance, of partial dependence and of residuals; lists may be empty.

    Args:
        evaluation: of a table.
    """
    return {
        "importance": _importance(evaluation),
        "effects": _effects(evaluation),
        "residuals": _residuals(evaluation),
    }


def _importance(evaluation: Evaluation) -> list[ReportFigure]:
    columns, classes = evaluation.findings.importance, bool(evaluation.classes)
    if not columns:
        return []
    loss = "Brier score" if classes else "root mean square error"
    return [
        ReportFigure(
            "importance",
            f"Bars: rise of the {loss} when the cells of each column are shuffled, with error bars.",
            f"Permutation importance: the rise of the {loss} on held-out rows when a column's cells are shuffled. "
            "Lines are two standard errors. Columns that tell the same can stand in for each other, and then look less "
            "important than they are together.",
            partial(draw.importance, columns=columns, classes=classes),
            height=0.9 + 0.27 * min(len(columns), draw.BARS),
        )
    ]


def _effects(evaluation: Evaluation) -> list[ReportFigure]:
    by_column: dict[str, list[Effect]] = {}
    for one in evaluation.findings.effects:
        by_column.setdefault(one.column, []).append(one)
    what = "probability of the class" if evaluation.classes else f"prediction of {evaluation.target}"
    return [
        ReportFigure(
            f"effect-{number}",
            f"Curve with a band: the average {what} against {column}.",
            f"The average {what} if all rows had this {column}.",
            partial(draw.effect, curves=curves, target=evaluation.target),
            height=SMALL,
        )
        for number, (column, curves) in enumerate(by_column.items())
    ]


def _residuals(evaluation: Evaluation) -> list[ReportFigure]:
    return [
        ReportFigure(
            f"residuals-{number}",
            f"Dots with error bars: the mean error of held-out rows in groups by {one.column}.",
            f"Errors along {one.column}: the mean of each group of rows, with two standard errors.",
            partial(draw.residuals, found=one, classes=bool(evaluation.classes)),
            height=0.8 + 0.28 * len(one.groups),
        )
        for number, one in enumerate(evaluation.findings.residuals)
    ]
