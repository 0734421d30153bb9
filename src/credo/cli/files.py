"""Answers to files: there whole or not at all."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

from credo.core.storage import StorageError

STDOUT = Path("-")
"""What a user writes for the standard output."""


def write(out: Path, content: bytes) -> None:
    """Write a file in one instant: a reader, or a crash, finds the old content or the new.

    Args:
        out: where it goes; `-` for the standard output. What is no plain file, as a device or a pipe, is written as it
            comes.
        content: what to write.

    Raises:
        StorageError: if the folder is not there.
        OSError: if the disk is full, or the folder may not be written.
    """
    if out == STDOUT:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    if out.is_dir():
        raise StorageError(f"{out} is a folder: name a file in it")
    if not out.parent.is_dir():
        raise StorageError(f"the folder {out.parent} is not there: make it first")
    try:
        _replace(out, content) if out.is_file() or not out.exists() else out.write_bytes(content)
    except OSError as error:
        error.filename = str(out)  # a full disk does not say which
        raise


def _replace(out: Path, content: bytes) -> None:
    made = out.with_name(f".{out.name}.{uuid.uuid4().hex[:8]}")
    try:
        made.write_bytes(content)
        os.replace(made, out)
    finally:
        made.unlink(missing_ok=True)
