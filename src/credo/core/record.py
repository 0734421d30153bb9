"""What only a person needs of a run: how it was made, how it went, what was noticed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class CredoWarning(UserWarning):
    """Trouble that does not stop a run, in a sentence."""


@dataclass(frozen=True)
class Record:
    """The story of one run, carried by the posterior that came out of it.

    Attributes:
        method: the method's numbers, as JSON.
        seed: the seed from which every stream of the run derives.
        size: the number of training examples.
        plan: how members were advanced, in words.
        seconds: wall-clock time of the loop.
        finished: False when the run was interrupted or diverged.
        notes: sentences about choices credo made and trouble it saw.
        history: one row per epoch.
    """

    method: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    size: int | None = None
    plan: str = ""
    seconds: float = 0.0
    finished: bool = True
    notes: tuple[str, ...] = ()
    history: tuple[dict[str, float], ...] = ()
