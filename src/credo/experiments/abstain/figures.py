"""The figure of risks among decided images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from credo.experiments.abstain.measure import AbstainResult, key
from credo.experiments.abstain.problem import ERRORS, RISK, RULES
from credo.experiments.base import Figure
from credo.reports.style import BLACK, BLUE, GREEN, RED, drawing

PROMISING = ("fixed sequence", "guaranteed risk")


def draw(folder: Path, found: Mapping[str, AbstainResult]) -> Figure:
    """The risk of every split, by rule, for each kind of network."""
    lines = [(rule, error) for rule in RULES for error in (ERRORS if rule in PROMISING else ERRORS[:1])]
    with drawing(folder / "abstain.png", 9.0, 3.9) as figure:
        panels = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
        for axes, (kind, result) in zip(panels, found.items(), strict=True):
            for place, (rule, error) in enumerate(reversed(lines)):
                risks = 100 * torch.tensor(result.risk[key(rule, error)])
                jitter = torch.linspace(-0.25, 0.25, len(risks))
                color = {PROMISING[0]: BLUE, PROMISING[1]: GREEN}.get(rule, RED)
                axes.plot(risks, place + jitter, "o", color=color, alpha=0.5, markersize=4)
            axes.axvline(100 * RISK, color=BLACK, linewidth=1, linestyle="--")
            names = [f"{rule}, error {error:g}" if rule in PROMISING else rule for rule, error in reversed(lines)]
            axes.set_yticks(range(len(lines)), names)
            axes.set(title=kind, xlabel="wrong among decided images (%)")
            axes.set_xlim(left=0.0)
    caption = (
        f"One dot for each split and network; right of the dashed line the promise of at most {RISK:.0%} is broken. "
        "Tested thresholds stay left of it; the plain empirical one lies on both sides."
    )
    return Figure("abstain.png", caption)
