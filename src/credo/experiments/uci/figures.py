"""The figure of the UCI tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from credo.experiments.base import Claim, Figure
from credo.experiments.uci.measure import CLOUD, AllScores
from credo.experiments.uci.problem import NAMES, UciRow
from credo.experiments.uci.scores import SplitScores, mean_and_error
from credo.reports.style import BLACK, BLUE, GREEN, RED, drawing

PUBLISHED = ("deep ensemble", "MC dropout", CLOUD)
"""The methods that have a published column."""


def draw(folder: Path, found: AllScores, claims: Sequence[Claim]) -> Figure:
    """Our log likelihood minus the published one, set by set."""
    published = {claim.id: claim.published for claim in claims if isinstance(claim.published, float)}
    names = [name for name in NAMES if any(key[0] == name for key in found)]
    with drawing(folder / "uci.png", 7.5, 0.5 * len(names) + 1.6) as figure:
        axes = figure.subplots()
        for method, color, shift in zip(PUBLISHED, (GREEN, RED, BLUE), (0.2, 0.0, -0.2), strict=True):
            there = [i for i, name in enumerate(names) if (name, method) in found]
            each = [_difference(found[names[i], method], published, names[i], method) for i in there]
            centers, errors = zip(*each, strict=True) if each else ((), ())
            places = [i + shift for i in there]
            axes.errorbar(centers, places, xerr=[2 * e for e in errors], fmt="o", color=color, capsize=3, label=method)
        axes.axvline(0.0, color=BLACK, linewidth=1)
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel("test log likelihood, ours minus published (nats per example)")
        figure.legend(loc="outside upper center", ncols=3)
    caption = "Right of the line our predictions give the test targets more probability than the published ones did."
    return Figure("uci.png", f"{caption} Bars are two standard errors of ours.")


def _difference(scores: SplitScores, published: dict[str, float], name: str, method: str) -> tuple[float, float]:
    mean, error = mean_and_error(scores.log_likelihood)
    return mean - published[f"{UciRow(name, method).name}.log-likelihood"], error
