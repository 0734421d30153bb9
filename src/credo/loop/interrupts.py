"""Ctrl-C as a request, answered between two steps."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupts:
    """While active, the first Ctrl-C only sets `requested`; a second one interrupts at once.

    Elsewhere than in the main thread, where Python delivers no signals, it does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: Any = None
        self._active = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Interrupts:
        if self._active:
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._active:
            # None stands for a handler that was not installed from Python and cannot be put back
            signal.signal(signal.SIGINT, signal.SIG_DFL if self._before is None else self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        # not by sys.stderr, which the signal may have caught in the middle of a write
        with contextlib.suppress(OSError):
            os.write(2, b"\nstopping after this step; press Ctrl-C again to stop at once\n")
