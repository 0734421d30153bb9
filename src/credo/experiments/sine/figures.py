"""The figures of the sine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from torch import Tensor

from credo.experiments.base import Figure
from credo.experiments.sine.measure import SineResult, spread_of
from credo.experiments.sine.problem import EDGE, END, NOISE, SineProblem, SineSetup
from credo.reports.figures import curves, mark_data, predictive_band, repeated_curves
from credo.reports.style import drawing

LIMIT = 25.0
"""Of the y axis in all figures: what leaves it is far wrong anyway, and the data stay visible."""

SHOWN = 8
"""Single drawn functions in a figure."""

APPROXIMATIONS = (
    "Where there are data (gray) the methods follow the sine, more or less closely. What differs is outside: the "
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


def draw_all(
    folder: Path, problem: SineProblem, results: Sequence[SineResult], repeats: Mapping[SineSetup, Tensor]
) -> tuple[Figure, ...]:
    """Write every figure.

    Args:
        folder: where to.
        problem: data and truth.
        results: one per method.
        repeats: spread at the grid in every run of a method, (R, 1500).
    """
    samplers = [result for result in results if result.setup.samples]
    others = [result for result in results if not result.setup.samples]
    return (
        _page(folder, problem, others, "sine.png", APPROXIMATIONS),
        _page(folder, problem, samplers, "sine-samplers.png", SAMPLERS),
        *(_single(folder, problem, result) for result in results),
        _spreads(folder, problem, others),
        _runs(folder, problem, repeats),
    )


def _page(folder: Path, problem: SineProblem, results: Sequence[SineResult], name: str, caption: str) -> Figure:
    rows = (len(results) + 1) // 2
    with drawing(folder / name, width=10.0, height=0.9 + 3.1 * rows) as figure:
        grid = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False)
        for axes, result in zip(grid.flat, results, strict=False):
            _band(axes, problem, result)
        for axes in grid.flat[len(results) :]:
            axes.set_axis_off()
        for axes in grid[-1]:
            axes.set_xlabel("x")
        for axes in grid[:, 0]:
            axes.set_ylabel("y")
        fullest = max(zip(results, grid.flat, strict=False), key=lambda pair: len(pair[0].draws))[1]
        figure.legend(*fullest.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return Figure(name, caption)


def _single(folder: Path, problem: SineProblem, result: SineResult) -> Figure:
    name = f"sine-{result.setup.name}.png"
    with drawing(folder / name) as figure:
        axes = figure.subplots()
        _band(axes, problem, result)
        axes.set_xlabel("x")
        axes.set_ylabel("y")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    m = result.measures
    numbers = f"RMSE to the sine {m.rmse:.2f} and doubt {m.inside:.2f} among the data, doubt {m.far:.2f} far from them"
    return Figure(name, f"{result.setup.label}: {result.setup.caption} Here: {numbers}.")


def _band(axes: Axes, problem: SineProblem, result: SineResult) -> None:
    setup, draws = result.setup, result.draws
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
        color=setup.color,
    )
    axes.set_title(setup.label)
    axes.set_xlim(-END, END)
    axes.set_ylim(-LIMIT, LIMIT)
    if setup.remark:
        axes.text(0.03, 0.04, setup.remark, transform=axes.transAxes, fontsize=9)


def _stride(draws: int) -> int:
    """From one drawn function that is shown to the next: odd, so that draws of four chains take turns."""
    return max(1, (draws // SHOWN - 1) | 1)


def _spreads(folder: Path, problem: SineProblem, results: Sequence[SineResult]) -> Figure:
    with drawing(folder / "sine-spread.png") as figure:
        axes = figure.subplots()
        mark_data(axes, -EDGE, EDGE)
        named = {p.setup.label: (p.setup.color, spread_of(p.draws)) for p in results}
        curves(axes, problem.grid, named)
        axes.set(xlabel="x", ylabel=WIDTH, xlim=(-END, END), title="How far the drawn functions lie apart")
        axes.set_ylim(bottom=-0.4)  # so that a line at zero can be seen
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    caption = (
        "The doubt of each method about the function itself: small among the data (gray), growing outside. Maximum "
        "likelihood is one function, so its line is zero everywhere."
    )
    return Figure("sine-spread.png", caption)


def _runs(folder: Path, problem: SineProblem, repeats: Mapping[SineSetup, Tensor]) -> Figure:
    with drawing(folder / "sine-runs.png", width=10.0) as figure:
        panels = figure.subplots(1, len(repeats), sharey=True, squeeze=False)[0]
        for axes, (setup, spreads) in zip(panels, repeats.items(), strict=True):
            mark_data(axes, -EDGE, EDGE)
            repeated_curves(axes, problem.grid, spreads, color=setup.color)
            axes.set(xlabel="x", xlim=(-END, END), title=setup.label)
            axes.set_ylim(bottom=0.0)
            axes.legend(loc="upper center")
        panels[0].set_ylabel(WIDTH)
    shrunk = [f"{_shrunk(problem, spreads)} of {len(spreads)} for {e.label}" for e, spreads in repeats.items()]
    caption = (
        "The same data and the same method, run several times: how far do the thin lines differ? Runs with less doubt "
        f"far from the data than among them: {', '.join(shrunk)}."
    )
    return Figure("sine-runs.png", caption)


def _shrunk(problem: SineProblem, spreads: Tensor) -> int:
    return int((spreads[:, problem.far].mean(1) < spreads[:, problem.inside].mean(1)).sum())
