"""The figures of the sine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from torch import Tensor

from credo.experiments.base import Figure
from credo.experiments.sine.entry import Entry
from credo.experiments.sine.measures import Measures, spread_of
from credo.experiments.sine.problem import EDGE, END, NOISE, Problem
from credo.reports.figures import curves, mark_data, predictive_band, repeated_curves
from credo.reports.style import drawing

LIMIT = 25.0
"""Of the y axis in all pictures: what leaves it is far wrong anyway, and the data stay visible."""

SHOWN = 8
"""Single drawn functions in a picture."""

APPROXIMATIONS = (
    "Where there are data (grey) the methods follow the sine, more or less closely. What differs is outside: the "
    "dark band is a method's own doubt about the function. Maximum likelihood has none, and concrete dropout next "
    "to none; the ensemble's, Bayes by Backprop's and variational dropout's grows with the distance from the data; "
    "MC dropout's depends on the run."
)
SAMPLERS = (
    "Draws from the posterior itself, by chains. Hamiltonian Monte Carlo and NUTS agree: among the data the functions "
    "hold together, outside they go on as they left, with doubt that grows. A random walk in 481 dimensions is slow to "
    "get there, and of all draws from the prior only a handful has any weight."
)

WIDTH = "std. dev. of drawn functions (units of y)"


@dataclass(frozen=True)
class Picture:
    """What is drawn of one method: outputs of its drawn functions at the grid, (S, 1500), and what they measure."""

    entry: Entry
    draws: Tensor
    measures: Measures


def draw_all(
    folder: Path, problem: Problem, pictures: Sequence[Picture], repeats: Mapping[Entry, Tensor]
) -> tuple[Figure, ...]:
    """Write every figure.

    Args:
        folder: where to.
        problem: data and truth.
        pictures: one per method.
        repeats: spread at the grid in every run of a method, (R, 1500).
    """
    samplers = [picture for picture in pictures if picture.entry.samples]
    others = [picture for picture in pictures if not picture.entry.samples]
    return (
        _page(folder, problem, others, "sine.png", APPROXIMATIONS),
        _page(folder, problem, samplers, "sine-samplers.png", SAMPLERS),
        *(_single(folder, problem, picture) for picture in pictures),
        _spreads(folder, problem, others),
        _runs(folder, problem, repeats),
    )


def _page(folder: Path, problem: Problem, pictures: Sequence[Picture], name: str, caption: str) -> Figure:
    rows = (len(pictures) + 1) // 2
    with drawing(folder / name, width=10.0, height=0.9 + 3.1 * rows) as figure:
        grid = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False)
        for axes, picture in zip(grid.flat, pictures, strict=False):
            _band(axes, problem, picture)
        for axes in grid.flat[len(pictures) :]:
            axes.set_axis_off()
        for axes in grid[-1]:
            axes.set_xlabel("x")
        for axes in grid[:, 0]:
            axes.set_ylabel("y")
        fullest = max(zip(pictures, grid.flat, strict=False), key=lambda pair: len(pair[0].draws))[1]
        figure.legend(*fullest.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return Figure(name, caption)


def _single(folder: Path, problem: Problem, picture: Picture) -> Figure:
    name = f"sine-{picture.entry.name}.png"
    with drawing(folder / name) as figure:
        axes = figure.subplots()
        _band(axes, problem, picture)
        axes.set_xlabel("x")
        axes.set_ylabel("y")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    m = picture.measures
    numbers = f"RMSE to the sine {m.rmse:.2f} and doubt {m.inside:.2f} among the data, doubt {m.far:.2f} far from them"
    return Figure(name, f"{picture.entry.label}: {picture.entry.caption} Here: {numbers}.")


def _band(axes: Axes, problem: Problem, picture: Picture) -> None:
    entry, draws = picture.entry, picture.draws
    spread = spread_of(draws)
    mark_data(axes, -EDGE, EDGE)
    predictive_band(
        axes,
        problem.grid,
        draws.mean(0),
        (spread.square() + NOISE**2).sqrt(),
        epistemic_stddev=spread if len(draws) > 1 else None,
        draws=draws[:: _stride(len(draws))][:SHOWN] if len(draws) > 1 else None,
        data=(problem.x, problem.y),
        truth=problem.truth,
        colour=entry.colour,
    )
    axes.set_title(entry.label)
    axes.set_xlim(-END, END)
    axes.set_ylim(-LIMIT, LIMIT)
    if entry.remark:
        axes.text(0.03, 0.04, entry.remark, transform=axes.transAxes, fontsize=9)


def _stride(draws: int) -> int:
    """From one drawn function that is shown to the next: odd, so that draws of four chains take turns."""
    return max(1, (draws // SHOWN - 1) | 1)


def _spreads(folder: Path, problem: Problem, pictures: Sequence[Picture]) -> Figure:
    with drawing(folder / "sine-spread.png") as figure:
        axes = figure.subplots()
        mark_data(axes, -EDGE, EDGE)
        named = {p.entry.label: (p.entry.colour, spread_of(p.draws)) for p in pictures}
        curves(axes, problem.grid, named)
        axes.set(xlabel="x", ylabel=WIDTH, xlim=(-END, END), title="How far the drawn functions lie apart")
        axes.set_ylim(bottom=-0.4)  # so that a line at zero can be seen
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    caption = (
        "The doubt of each method about the function itself: small among the data (grey), growing outside. Maximum "
        "likelihood is one function, so its line is zero everywhere."
    )
    return Figure("sine-spread.png", caption)


def _runs(folder: Path, problem: Problem, repeats: Mapping[Entry, Tensor]) -> Figure:
    with drawing(folder / "sine-runs.png", width=10.0) as figure:
        panels = figure.subplots(1, len(repeats), sharey=True, squeeze=False)[0]
        for axes, (entry, spreads) in zip(panels, repeats.items(), strict=True):
            mark_data(axes, -EDGE, EDGE)
            repeated_curves(axes, problem.grid, spreads, colour=entry.colour)
            axes.set(xlabel="x", xlim=(-END, END), title=entry.label)
            axes.set_ylim(bottom=0.0)
            axes.legend(loc="upper center")
        panels[0].set_ylabel(WIDTH)
    shrunk = [f"{_shrunk(problem, spreads)} of {len(spreads)} for {e.label}" for e, spreads in repeats.items()]
    caption = (
        "The same data and the same method, run several times: how far do the thin lines differ? Runs with less doubt "
        f"far from the data than among them: {', '.join(shrunk)}."
    )
    return Figure("sine-runs.png", caption)


def _shrunk(problem: Problem, spreads: Tensor) -> int:
    return int((spreads[:, problem.far].mean(1) < spreads[:, problem.inside].mean(1)).sum())
