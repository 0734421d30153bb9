"""What is claimed of digits beside things that are none, in numbers."""

from __future__ import annotations

from collections.abc import Mapping

from credo.experiments.doubt import DoubtResult
from credo.experiments.doubt_tables import AUROC

KINDS = {"": ("garment", "letter"), "digits-": ("eight", "nine")}
"""What is unknown, in the full and in the quick size."""


def numbers(found: Mapping[str, DoubtResult]) -> dict[str, float]:
    """The numbers of the claims for which there are rows."""
    measured: dict[str, float] = {}
    for prefix, kinds in KINDS.items():
        here = {name.removeprefix(prefix): each for name, each in found.items() if _belongs(name, prefix)}
        for name, each in here.items():
            measured[f"{prefix}{name}"] = each.accuracy
        for kind in kinds:
            areas = {name: each.detection[kind]["entropy"][AUROC] for name, each in here.items()}
            if "ensemble" in areas:
                measured[f"{prefix}auroc/{kind}"] = areas["ensemble"]
            if {"ensemble", "plain"} <= areas.keys():
                measured[f"{prefix}gain/{kind}"] = areas["ensemble"] - areas["plain"]
        if here:
            measured[f"{prefix}false-alarms"] = max(each.alarms["entropy"][0] for each in here.values())
    return measured


def _belongs(name: str, prefix: str) -> bool:
    return name.startswith("digits-") == bool(prefix)
