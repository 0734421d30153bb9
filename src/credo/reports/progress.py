"""The progress of a long job, for whoever shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from credo.loop.progress import Listener, Report


@dataclass(frozen=True)
class Progress:
    """Shows what a long job is doing.

    Attributes:
        show: is given what is being done, and how much of it is over (0 to 1, None where that is not known).

    Examples:
        >>> Progress(lambda text, share: print(text, share)).say("drawing figures")
        drawing figures None
    """

    show: Callable[[str, float | None], None] = lambda text, share: None

    def say(self, text: str, share: float | None = None) -> None:
        """Show what is being done now."""
        self.show(text, share)

    def of(self, text: str) -> Listener:
        """A listener for `credo.fit(progress=...)` that reports under this text."""

        def listen(report: Report) -> None:
            self.show(text, report.step / max(report.total, 1))

        return listen
