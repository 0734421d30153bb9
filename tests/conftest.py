"""What all tests share."""

from __future__ import annotations

import signal

# a shell that runs the tests in the background may have told them to ignore Ctrl-C, and their children would too
signal.signal(signal.SIGINT, signal.default_int_handler)
