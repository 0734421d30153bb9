"""What all tests share."""

from __future__ import annotations

import os
import signal

from credo.core.optional import optional

# a shell that runs the tests in the background may have told them to ignore Ctrl-C, and their children would too
signal.signal(signal.SIGINT, signal.default_int_handler)

# what is not at hand is not downloaded by tests
os.environ["CREDO_OFFLINE"] = "1"

# two workers that import ArviZ for the first time of the day write one file of its at the same time
optional("arviz", "mcmc")
