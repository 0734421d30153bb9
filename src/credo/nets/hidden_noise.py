"""Noise that a module draws inside its forward pass, where nothing can be put in its place: who draws it, and whence.

Dropout inside fused attention, `torch.randn_like(h)` and the like read torch's global generators: these are lent for
one pass. Random numbers of Python and numpy have no seed of ours: they are refused by name.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy
import torch

from credo.core.rng import Stream

TORCH, PYTHON, NUMPY = "torch", "Python's random", "numpy.random"
LOOKING = Stream(0, ("look",))
"""Lent to passes that only look."""


class NoiseWatch:
    """Notes which modules draw from which global generators.

    Args:
        path: names of the modules that run, the innermost last; `look` comes before it changes.
        closely: whether each look is at all generators; otherwise only the last look is.
    """

    def __init__(self, path: list[str], *, closely: bool) -> None:
        self.path, self.closely = path, closely
        self.modules: dict[str, list[str]] = {name: [] for name in _GENERATORS}  # that draw, by generator
        self._states = {name: state() for name, state in _GENERATORS.items()}

    def look(self, *, last: bool = False) -> None:
        """What was drawn since the last look was drawn by the module that runs."""
        for name in _GENERATORS if self.closely or last else (TORCH,):
            state = _GENERATORS[name]()
            if state != self._states[name]:
                self._states[name] = state
                self.modules[name].append(self.path[-1] if self.path else "")

    @property
    def elsewhere(self) -> dict[str, list[str]]:
        """Modules that draw from other generators than torch's."""
        return {name: modules for name, modules in self.modules.items() if modules and name != TORCH}


@contextmanager
def looking(device: torch.device, number: int) -> Iterator[None]:
    """Lend torch's generators to a pass that only looks, and give back those of Python and numpy as they were.

    Passes with different numbers find different random numbers.
    """
    of_python, of_numpy = random.getstate(), numpy.random.get_state()  # noqa: NPY002
    try:
        with LOOKING.child(number).borrowed_global(device):
            yield
    finally:
        random.setstate(of_python)
        numpy.random.set_state(of_numpy)  # noqa: NPY002


def lend_to_members(rng: Stream | None, device: torch.device) -> Callable[[int], AbstractContextManager[None]]:
    """The context in which the member of a number may draw, from a stream of its own."""
    if rng is None:
        raise ValueError("the network draws random numbers of its own in training: give train(..., rng=...)")
    return lambda member: rng.child("member", member).borrowed_global(device)


def refuse_elsewhere(elsewhere: dict[str, list[str]], again: dict[str, list[str]]) -> None:
    """Refuse what two passes have drawn from generators that are not torch's; of one alone, others may have drawn."""
    for name in elsewhere.keys() & again.keys():
        raise ValueError(
            f"the network draws random numbers from {name} ({listed(again[name])}), which credo cannot give a seed: "
            "draw them with torch, as torch.rand(...), or switch them off (layer drop, augmentation in forward)"
        )


def refuse_in_evaluation(modules: list[str]) -> None:
    """Refuse noise that a prediction would have."""
    if modules:
        raise ValueError(
            f"the network draws random numbers of its own in evaluation too ({listed(modules)}), so that it is no "
            "function of its inputs: draw them only `if self.training:`"
        )


def differing(mode: str) -> ValueError:
    return ValueError(
        f"the network gives other outputs for the same inputs each time in {mode}, by random numbers of a generator of "
        "its own, which credo cannot give a seed: draw them with torch's functions, and no generator="
    )


def listed(modules: list[str]) -> str:
    """Names of modules for a sentence; the network itself is its forward pass."""
    names = list(dict.fromkeys(name or "forward" for name in modules))
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _torch_state() -> Any:
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    return [state.numpy().tobytes() for state in (torch.get_rng_state(), *gpus)]


def _numpy_state() -> Any:
    _, words, *rest = numpy.random.get_state()  # noqa: NPY002
    return numpy.asarray(words).tobytes(), rest


_GENERATORS: dict[str, Callable[[], Any]] = {TORCH: _torch_state, PYTHON: random.getstate, NUMPY: _numpy_state}
