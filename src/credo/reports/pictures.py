"""Which figures the report of a table has, with what to see in each, in words and for those who do not see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from credo.evaluation.digits import percent
from credo.evaluation.values import Evaluation
from credo.reports import table_figures as draw
from credo.reports.inline import HEIGHT, WIDTH, svg


@dataclass(frozen=True)
class ReportFigure:
    """A figure of the report.

    Attributes:
        name: in the page.
        label: text alternative: what is drawn.
        caption: what to see in it.
        draw: on the axes that it is given.
        height: in inches.
        width: likewise.
    """

    name: str
    label: str
    caption: str
    draw: Callable[[Axes], None]
    height: float = HEIGHT
    width: float = WIDTH

    def svg(self) -> str:
        """The figure as an SVG element."""

        def on(figure: Figure) -> None:
            self.draw(figure.subplots())

        return svg(self.name, self.label, on, self.height, self.width)


def pictures(evaluation: Evaluation, history: Sequence[dict[str, float]]) -> dict[str, ReportFigure]:
    """All figures by name; that of training is missing where there is no history."""
    own = _of_classes(evaluation) if evaluation.classes else _of_numbers(evaluation)
    found = [*own, _shares(evaluation)]
    if any("log_likelihood" in name for row in history for name in row):
        found.append(_training(history))
    return {picture.name: picture for picture in found}


def _of_numbers(evaluation: Evaluation) -> tuple[ReportFigure, ...]:
    sample = evaluation.sample
    return (
        ReportFigure(
            "predictions",
            "Scatter of rows: predicted against observed values, each with its 95 percent interval.",
            "Held-out rows: what was observed against what was predicted. Each line is a 95 % interval; about one row "
            "in twenty should lie outside its own (marked by a cross).",
            partial(draw.error_bars, sample=sample, target=evaluation.target),
        ),
        ReportFigure(
            "calibration",
            "Coverage curve: stated level of intervals against the part of rows inside them.",
            "Do intervals hold as many rows as they claim? On the dashed line they do; below it they are too narrow, "
            f"above it too wide. Inside the gray band, {evaluation.held_out:,} rows cannot tell the difference.",
            partial(draw.coverage, calibration=evaluation.calibration),
        ),
        ReportFigure(
            "rejection",
            "Curve: typical error on the rows that are kept against the part of rows left to a person.",
            "If the most uncertain rows are left to a person, the rest should become more accurate: the curve should "
            "fall to the right. A flat curve means that the uncertainty says nothing about single rows.",
            partial(draw.rejection, curve=evaluation.rejection, classes=False),
        ),
        ReportFigure(
            "doubts",
            "Scatter of rows: noise in the data to the right, model uncertainty upwards.",
            "Each held-out row by its two kinds of uncertainty. High up: the networks disagree about it. Far right: "
            "noise that these inputs cannot explain.",
            partial(draw.two_doubts, sample=sample, classes=False),
        ),
    )


def _of_classes(evaluation: Evaluation) -> tuple[ReportFigure, ...]:
    sample = evaluation.sample
    return (
        ReportFigure(
            "predictions",
            "Histogram of the probability of the predicted class, right and wrong answers stacked.",
            "How sure it was of its answers on held-out rows. Wrong answers should gather on the left, where it is "
            "unsure; a wrong answer on the far right is a confident mistake.",
            partial(draw.confidences, sample=sample),
        ),
        ReportFigure(
            "calibration",
            "Reliability diagram: stated probability against the part of answers that were right.",
            "When it says 80 %, is it right 80 times in 100? Dots on the dashed line are honest; below it the model is "
            "too sure of itself. Larger dots stand for more rows, and the bars are what chance allows.",
            partial(draw.reliability, calibration=evaluation.calibration),
        ),
        ReportFigure(
            "rejection",
            "Curve: accuracy on the rows that are kept against the part of rows left to a person.",
            "If the most uncertain rows are left to a person, the rest should be right more often: the curve should "
            "rise to the right. A flat curve means that the uncertainty says nothing about single rows.",
            partial(draw.rejection, curve=evaluation.rejection, classes=True),
        ),
        ReportFigure(
            "doubts",
            "Scatter of rows: uncertainty of the classes themselves to the right, model uncertainty upwards.",
            "Each held-out row by its two kinds of uncertainty. High up: the networks disagree about it. Far right: "
            "classes that these inputs cannot distinguish.",
            partial(draw.two_doubts, sample=sample, classes=True),
        ),
    )


def _shares(evaluation: Evaluation) -> ReportFigure:
    share = percent(evaluation.epistemic_share)
    return ReportFigure(
        "shares",
        "One bar: the part of the average uncertainty that is model uncertainty, and the part that is noise.",
        f"The average uncertainty: {share} is disagreement of the networks, the rest is noise.",
        partial(draw.shares, evaluation=evaluation),
        height=1.6,
    )


def _training(history: Sequence[dict[str, float]]) -> ReportFigure:
    return ReportFigure(
        "training",
        "Curves: log likelihood per row against the epoch of training.",
        "Log likelihood in the course of training (higher is better). Where the curve of the validation rows falls "
        "again, it begins to overfit; the result is the network at the dashed line.",
        partial(draw.training, history=history),
    )
