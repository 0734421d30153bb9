"""Folders for runs that are killed and scripts that kill them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder, in memory where the system has such a place: a killed process loses nothing there either."""
    memory = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="credo-", dir=memory if memory.is_dir() else None))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def script() -> Callable[..., dict[str, Any]]:
    """Runs a script of this folder in a process of its own, and reads the line of JSON that it prints."""

    def run(name: str, *arguments: str) -> dict[str, Any]:
        command = [sys.executable, str(Path(__file__).with_name(name)), *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout.splitlines()[-1])

    return run
