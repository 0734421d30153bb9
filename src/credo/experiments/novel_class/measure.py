"""What is claimed of known and novel classes, in numbers."""

from __future__ import annotations

from collections.abc import Mapping

from credo.experiments.doubt import FILTERED, DoubtResult
from credo.experiments.doubt_tables import AUROC

ROWS = ("plain", "ensemble", "mc-dropout", "vi")
"""As the lecture calls them; with digits- before them in the quick size."""
HALF = FILTERED // 2 - 1
"""Place of the most certain half in the curves."""


def numbers(found: Mapping[str, DoubtResult]) -> dict[str, float]:
    """The numbers of the claims for which there are rows."""
    return {**_numbers(found, "", "horse"), **_numbers(found, "digits-", "nine")}


def _numbers(found: Mapping[str, DoubtResult], prefix: str, unknown: str) -> dict[str, float]:
    here = {name: found[prefix + name] for name in ROWS if prefix + name in found}
    measured = {f"{prefix}{name}": each.accuracy for name, each in here.items()}
    for better, worse in (("ensemble", "mc-dropout"), ("mc-dropout", "vi"), ("vi", "plain"), ("ensemble", "plain")):
        if better in here and worse in here:
            measured[f"{prefix}{better}-over-{worse}"] = here[better].accuracy - here[worse].accuracy
    if "ensemble" in here and "plain" in here:
        areas = {name: here[name].detection[unknown]["entropy"][AUROC] for name in ("ensemble", "plain")}
        measured[f"{prefix}alarm"] = areas["ensemble"] - areas["plain"]
        halves = {name: here[name].filtered["entropy"] for name in ("ensemble", "plain")}
        measured[f"{prefix}filter"] = halves["ensemble"][HALF] - halves["plain"][HALF]
        measured[f"{prefix}certain"] = halves["ensemble"][HALF] - halves["ensemble"][-1]
    if here:
        measured[f"{prefix}false-alarms"] = max(each.alarms["entropy"][0] for each in here.values())
    return measured
