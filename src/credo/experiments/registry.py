"""The experiments there are, found by their folders; none is imported before it is wanted."""

from __future__ import annotations

import difflib
import importlib
from pathlib import Path

from credo.experiments.base import CLAIMS, Card, Experiment

FOLDER = Path(__file__).parent


def names() -> tuple[str, ...]:
    """Every experiment, as it is called at the command line."""
    return tuple(sorted(path.parent.name.replace("_", "-") for path in FOLDER.glob(f"*/{CLAIMS}")))


def cards() -> tuple[Card, ...]:
    """What every experiment says of itself."""
    return tuple(Card.read(_folder(name)) for name in names())


def load(name: str) -> Experiment:
    """The experiment of this name.

    Raises:
        ValueError: there is none; the sentence names the nearest ones.
    """
    known = names()
    if name not in known:
        raise ValueError(f"there is no experiment {name!r}: {_advice(name, known)}")
    module = importlib.import_module(f"credo.experiments.{_folder(name).name}")
    experiment: Experiment = module.EXPERIMENT
    return experiment


def _folder(name: str) -> Path:
    return FOLDER / name.replace("-", "_")


def _advice(name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
