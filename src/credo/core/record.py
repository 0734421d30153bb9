"""What only a person needs of a run: how it was made, how it went, what was noticed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from credo.core.status import Status


class CredoWarning(UserWarning):
    """Trouble that does not stop a run, in a sentence."""


@dataclass(frozen=True)
class Record:
    """What is known of one run, carried by the posterior that came out of it.

    Attributes:
        method: the method's numbers, as JSON.
        seed: the seed from which every stream of the run derives.
        size: the number of training examples, or their total weight where they have weights.
        plan: how members were advanced, in words.
        seconds: wall-clock time of the loop.
        status: how the run ended.
        interrupted: whether Ctrl-C was pressed, be it too late to stop the run: whoever has more to do stops here.
        reason: a sentence about why it did not come to its end; empty if it did.
        notes: sentences about choices credo made and trouble it saw.
        history: one row per epoch.
    """

    method: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    size: float | None = None
    plan: str = ""
    seconds: float = 0.0
    status: Status = Status.FINISHED
    interrupted: bool = False
    reason: str = ""
    notes: tuple[str, ...] = ()
    history: tuple[dict[str, float], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", Status(self.status))
        object.__setattr__(self, "interrupted", self.interrupted or self.status is Status.INTERRUPTED)

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return self.status is Status.FINISHED
