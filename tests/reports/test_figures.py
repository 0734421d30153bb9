"""Figures: drawn from arrays without a warning, and without a trace in matplotlib's settings."""

from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from credo.reports.figures import curves, mark_data, predictive_band, repeated_curves
from credo.reports.style import BLUE, COLORS, RED, drawing

X = np.linspace(-1.0, 1.0, 50)
PNG = b"\x89PNG\r\n\x1a\n"


def labels(axes) -> list[str]:  # type: ignore[no-untyped-def]
    return list(axes.get_legend_handles_labels()[1])


def test_band_is_two_standard_deviations_wide() -> None:
    axes = Figure().subplots()
    assert predictive_band(axes, X, X**2, np.full(50, 0.5)) is axes
    vertices = axes.collections[0].get_paths()[0].vertices
    at_zero = vertices[np.isclose(vertices[:, 0], X[24])][:, 1]
    np.testing.assert_allclose([at_zero.min(), at_zero.max()], [X[24] ** 2 - 1.0, X[24] ** 2 + 1.0], atol=1e-12)


def test_band_draws_all_that_it_is_given(tmp_path: Path) -> None:
    with drawing(tmp_path / "band.png") as figure:
        axes = figure.subplots()
        predictive_band(
            axes,
            torch.as_tensor(X).unsqueeze(1),
            torch.as_tensor(X).unsqueeze(1),
            np.ones((50, 1)),
            epistemic_stddev=np.full(50, 0.5),
            draws=np.stack([X, -X, X**2]),
            data=(torch.zeros(4, 1), torch.ones(4, 1)),
            truth=np.sin(X),
            color=RED,
        )
        mark_data(axes, -0.5, 0.5)
        axes.legend()
    assert (tmp_path / "band.png").read_bytes().startswith(PNG)
    assert len(axes.lines) == 3 + 1 + 1 + 1  # draws, truth, mean, data
    assert len(labels(axes)) == len(set(labels(axes))) == 7  # one entry for all draws together


def test_repeated_curves_show_the_median() -> None:
    rows = np.stack([np.zeros(50), np.ones(50), np.full(50, 5.0)])
    axes = repeated_curves(Figure().subplots(), X, rows, color=BLUE)
    np.testing.assert_array_equal(axes.lines[-1].get_ydata(), np.ones(50))
    assert labels(axes) == ["one run", "median of 3 runs"]


def test_curves_keep_their_colors() -> None:
    axes = curves(Figure().subplots(), X, {"a": (BLUE, X), "b": (RED, -X)})
    assert [line.get_color() for line in axes.lines] == [BLUE, RED]
    assert labels(axes) == ["a", "b"]


def test_settings_of_matplotlib_are_left_alone(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    with drawing(tmp_path / "a.png") as figure:
        figure.subplots().plot(X, X)
    assert dict(matplotlib.rcParams) == before


def test_nothing_is_saved_when_drawing_fails(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    with pytest.raises(ZeroDivisionError), drawing(tmp_path / "a.png"):
        _ = 1 / 0
    assert not list(tmp_path.iterdir())
    assert dict(matplotlib.rcParams) == before


def test_the_same_drawing_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        with drawing(tmp_path / name) as figure:
            predictive_band(figure.subplots(), X, X, np.ones(50))
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_colors_differ() -> None:
    assert len(set(COLORS)) == len(COLORS)
