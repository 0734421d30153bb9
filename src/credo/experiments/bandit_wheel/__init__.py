"""The wheel of the Bayesian bandits showdown: rare contexts in which one arm pays forty times as much."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from credo.experiments.bandit_wheel.problem import TOGETHER, WheelRow, rows
from credo.experiments.bandits import BanditResult, text, trials
from credo.experiments.base import Cell, Claim, Experiment, Figure, Outcome, Progress, Size, Table
from credo.experiments.rows import results
from credo.reports.style import BLACK, BLUE, drawing


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Play at every radius, but for those that the folder has."""

    def played(row: WheelRow) -> BanditResult:
        agent, game = row.made(seed)
        label = f"delta {row.delta}, {row.trials} trials at once"
        return trials(agent, game, row.rounds, seed, TOGETHER, progress, label)

    wanted, claims = rows(size), EXPERIMENT.card.claims
    found = results(wanted, BanditResult, folder, seed, played)
    measured = {name: result.mean for name, result in found.items() if size is Size.FULL}
    missing = {claim.id: "takes the 80,000 rounds of the full size" for claim in claims if claim.id not in measured}
    figures = (draw(folder, found, claims),) if size is Size.FULL else ()
    return Outcome(measured, (table(wanted, found),), figures, missing)


def table(wanted: list[WheelRow], found: Mapping[str, BanditResult]) -> Table:
    """One row per radius."""
    lines: list[tuple[Cell, ...]] = []
    for row in wanted:
        result = found[row.name]
        lines.append((row.delta, row.rounds, row.trials, text(result.relative), round(result.seconds)))
    columns = ("delta", "rounds", "trials", "regret, % of uniform's", "seconds")
    return Table("Neural-linear on the wheel", columns, tuple(lines), "Means and standard deviations of the trials.")


def draw(folder: Path, found: Mapping[str, BanditResult], claims: tuple[Claim, ...]) -> Figure:
    """Our regret at each radius beside the published one."""
    with drawing(folder / "wheel.png", 6.0, 3.8) as figure:
        axes = figure.subplots()
        published = [claim for claim in claims if claim.id in found]
        places = range(len(published))
        axes.plot(places, [float(claim.published) for claim in published], "_", color=BLACK, markersize=22)
        axes.plot([], [], "_", color=BLACK, markersize=12, label="published, 50 trials")
        for place, claim in zip(places, published, strict=True):
            each = found[claim.id].relative
            axes.plot([place] * len(each), each, "o", color=BLUE, alpha=0.6, markersize=5)
        axes.plot([], [], "o", color=BLUE, alpha=0.6, label="ours, one dot per trial")
        axes.set_xticks(list(places), [claim.id.removeprefix("delta-") for claim in published])
        axes.set(yscale="log", xlabel="radius delta", ylabel="regret (% of uniform's)")
        figure.legend(loc="outside upper center", ncols=2)
    caption = (
        "Regret of neural-linear Thompson sampling after 80,000 rounds. The larger the radius, the rarer are the "
        "contexts that pay, and the longer it takes to find out which arm pays there."
    )
    return Figure("wheel.png", caption)


EXPERIMENT = Experiment.beside(__file__, run)
"""The wheel."""
