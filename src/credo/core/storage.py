"""Folders on disk: JSON and safetensors, each file written under a temporary name, flushed and renamed."""

from __future__ import annotations

import contextlib
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

SCHEMA = 1
"""The version of the folder's layout; a folder of a newer version is refused."""


class StorageError(ValueError):
    """A folder that cannot be read or written, with a sentence that says why and what to do."""


TensorFile = tuple[Mapping[str, Tensor], Mapping[str, str]]
"""Tensors by name, and text beside them."""


def write_folder(folder: Path, texts: Mapping[str, str], tensors: Mapping[str, TensorFile]) -> None:
    """Write files so that a reader, or a crash, sees either the old ones or the new ones.

    All are written under temporary names and flushed to the disk first; only then they take their places.
    """
    parts = {name: folder / f".{name}.{os.getpid()}.part" for name in (*tensors, *texts)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, (values, metadata) in tensors.items():
            ready = {key: t.detach().to("cpu").clone().contiguous() for key, t in values.items()}
            save_file(ready, parts[name], metadata=dict(metadata))
        for name, text in texts.items():
            parts[name].write_text(text, encoding="utf-8")
        for part in parts.values():
            with part.open("rb") as handle:
                os.fsync(handle.fileno())
        for name, part in parts.items():
            os.replace(part, folder / name)
    except (OSError, SafetensorError) as error:
        raise StorageError(f"{folder} cannot be written ({error}); what was there before is untouched") from error
    finally:
        for part in parts.values():
            with contextlib.suppress(OSError):
                part.unlink()


def read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise StorageError(f"{path} does not exist: is {path.parent} a folder that credo wrote?")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise StorageError(f"{path} is not readable JSON ({error}); the file is damaged or not credo's") from None
    if not isinstance(data, dict):
        raise StorageError(f"{path} holds no JSON object; the file is damaged or not credo's")
    return data


def check_schema(data: Mapping[str, Any], path: Path) -> None:
    version = data.get("schema")
    if not isinstance(version, int):
        raise StorageError(f"{path} has no schema version: it was not written by credo")
    if version > SCHEMA:
        raise StorageError(
            f"{path} has schema version {version}, and this credo reads up to {SCHEMA}: install a newer credo"
        )


def read_tensors(path: Path, device: torch.device | str = "cpu") -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file, and the text beside them."""
    if not path.is_file():
        raise StorageError(f"{path} does not exist: is {path.parent} a folder that credo wrote?")
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            return tensors, dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise StorageError(f"{path} is truncated or not a safetensors file ({error})") from None


def environment() -> dict[str, str]:
    """What a person needs to know of the machine to repeat a run."""
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": str(numpy.__version__),
        "platform": platform.platform(),
        "threads": str(torch.get_num_threads()),
    }
