"""The experiments there are, found by their folders; none is imported before it is wanted."""

from __future__ import annotations

import difflib
import importlib
from pathlib import Path

from credo import experiments
from credo.experiments.base import CLAIMS, Card, Experiment


def names() -> tuple[str, ...]:
    """Every experiment, as it is called at the command line."""
    return tuple(sorted(_folders()))


def cards() -> tuple[Card, ...]:
    """What every experiment says of itself."""
    return tuple(Card.read(folder) for _, folder in sorted(_folders().items()))


def load(name: str) -> Experiment:
    """The experiment of this name.

    Raises:
        ValueError: there is none; the sentence names the nearest ones.
    """
    known = _folders()
    if name not in known:
        raise ValueError(f"there is no experiment {name!r}: {_advice(name, sorted(known))}")
    module = importlib.import_module(f"{experiments.__name__}.{known[name].name}")
    experiment: Experiment = module.EXPERIMENT
    return experiment


def _folders() -> dict[str, Path]:
    found = (path.parent for root in experiments.__path__ for path in Path(root).glob(f"*/{CLAIMS}"))
    return {folder.name.replace("_", "-"): folder for folder in found}


def _advice(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
