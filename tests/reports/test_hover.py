"""What appears beside marks, what is said of unfamiliar rows, and figures of single columns."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from credo.evaluation.table_values import Effect, Importance, Residuals
from credo.evaluation.values import Doubtful
from credo.reports import column_figures as draw
from credo.reports import words
from credo.reports.inline import hover, svg
from credo.reports.pictures import ReportFigure

TEXTS = ["row 1: <3>", 'row 2: "4"', "row 3: 5 & 6"]


def drawn(values: list[float], limits: tuple[float, float] | None = None) -> str:
    def on(figure: Figure) -> None:
        axes = figure.subplots()
        (line,) = axes.plot(values, "o-")
        hover(line, TEXTS)
        if limits:
            axes.set_xlim(*limits)

    return svg("test", "three dots, for a test of their texts", on)


def test_every_mark_has_its_own_text() -> None:
    element = drawn([1.0, 2.0, 3.0])
    titles = re.findall(r"<g><title>([^<]*)</title><use [^>]*/></g>", element)
    assert titles == ["row 1: &lt;3>", "row 2: &quot;4&quot;", "row 3: 5 &amp; 6"]
    assert "hover:" not in element


def test_marks_that_are_not_drawn_get_no_text_of_others() -> None:
    """With the first mark outside of the axes, the twin that counts from the left would name the wrong rows."""
    assert "<title>" not in drawn([1.0, 2.0, 3.0], limits=(1.9, 2.1))


def figure_of(draw_on: object) -> str:
    return ReportFigure("x", "a figure of a column, for a test", "caption", draw_on).svg()  # type: ignore[arg-type]


NASTY = "$x_1$ <b>&"


@pytest.mark.parametrize(
    "curves",
    [
        [Effect(NASTY, "", (1.0, 2.0), (), (3.0, 4.0), (0.1, 0.2))],
        [Effect(NASTY, "", (), ("a", "b"), (3.0, 4.0), (0.0, 0.0))],
        [Effect(NASTY, "", (19000.0, 19001.0), ("2022-01-08", "2022-01-09"), (3.0, 4.0), (0.1, 0.2))],
        [Effect(NASTY, label, (1.0, 2.0), (), (0.3, 0.4), (0.1, 0.2)) for label in ("yes", "no", "$")],
    ],
)
def test_effects_can_be_drawn(curves: list[Effect]) -> None:
    element = figure_of(partial(draw.effect, curves=curves, target=NASTY))
    assert element.count("<title>") == 2 * len(curves)
    assert "$x_1$ &lt;b>&amp; = " in element


def test_importance_and_residuals_can_be_drawn() -> None:
    columns = [Importance(NASTY, 1.0, 0.1), Importance("b", -0.1, 0.0)]
    bars = figure_of(partial(draw.importance, columns=columns, classes=False))
    assert [text.split(":")[0] for text in re.findall("<title>([^<]*)<", bars)] == ["b", "$x_1$ &lt;b>&amp;"]
    found = Residuals("a", ("low", "high"), (10.0, 20.0), (0.1, 5.0), (0.5, 0.1), (1.0, 2.0))
    dots = figure_of(partial(draw.residuals, found=found, classes=False))
    assert re.findall("<title>(low|high): ", dots) == ["low", "high"]


def test_the_intervals_of_an_unfamiliar_row_are_not_shown() -> None:
    row = Doubtful(1, "fog (light) (98 %)", "sun", 0.5, (), ())
    assert words.interval_words(row) == "fog (light) (98 %)"
    assert words.interval_words(replace(row, unfamiliar=True)) == "fog (light) (unfamiliar: a guess)"


def test_bars_are_ordered_from_the_top() -> None:
    axes: Axes = Figure().subplots()
    draw.importance(axes, [Importance(str(k), 9.0 - k, 0.1) for k in range(9)], classes=True)
    assert [label.get_text() for label in axes.get_yticklabels()] == [str(k) for k in range(8, -1, -1)]
    np.testing.assert_allclose([bar.get_width() for bar in axes.patches][-1], 9.0)
