"""Folders on disk: JSON and safetensors, all files of a folder replaced in one instant."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from credo.core.trees import ValueT

SCHEMA = 2
"""The version of the folder's layout; a folder of a newer version is refused, older ones are read."""

_WRITING, _READY = ".writing", ".ready"
"""Where new files are written, and where they lie once they are whole."""


class StorageError(ValueError):
    """A folder that cannot be read or written, with a sentence that says why and what to do."""


TensorFile = tuple[Mapping[str, Tensor], Mapping[str, str]]
"""Tensors by name, and text beside them."""


def write_folder(folder: Path, texts: Mapping[str, str], tensors: Mapping[str, TensorFile]) -> None:
    """Write files so that whoever reads next, after a crash too, finds all the old ones or all the new ones.

    They are written to a hidden folder inside and flushed. Renaming that folder is the commit: from then on its files
    count, whether or not they have moved to their places yet.
    """
    writing = refuse_link(folder / _WRITING)
    try:
        _settle(folder)
        shutil.rmtree(writing, ignore_errors=True)
        writing.mkdir(parents=True)
        readers = writing.stat().st_mode & 0o666  # safetensors lets nobody else read
        for name, (values, metadata) in tensors.items():
            ready = {key: t.detach().to("cpu").clone().contiguous() for key, t in values.items()}
            save_file(ready, writing / name, metadata=dict(metadata))
            (writing / name).chmod(readers)
        for name, text in texts.items():
            (writing / name).write_text(text, encoding="utf-8")
        _flush([*writing.iterdir(), writing])
        writing.rename(folder / _READY)
    except (OSError, SafetensorError) as error:
        raise StorageError(f"{folder} cannot be written ({error}); what was there before is untouched") from error
    finally:
        shutil.rmtree(writing, ignore_errors=True)
    with contextlib.suppress(OSError):  # written is written: the next save, or nobody, moves them
        _settle(folder)


def _settle(folder: Path) -> None:
    """Move files that are ready to their places."""
    ready = refuse_link(folder / _READY)
    if ready.is_dir():
        for file in ready.iterdir():
            file.replace(folder / file.name)
        ready.rmdir()
        _flush([folder])


def refuse_link(path: Path) -> Path:
    """The path itself, unless it is a link: what it leads to is not ours to move, to write or to remove."""
    if path.is_symlink():
        raise StorageError(f"{path} is a link to {os.readlink(path)}, which credo does not follow: remove the link")
    return path


def _flush(paths: Iterable[Path]) -> None:
    """Wait until the disk has them; folders can be flushed on POSIX systems only."""
    for path in paths:
        if path.is_file() or os.name == "posix":
            handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def find(folder: Path, name: str) -> Path | None:
    """Where a file of the folder lies, or None: ready before settled, as a crash may have left it."""
    try:
        ready = refuse_link(folder / _READY)
        return next((path for path in (ready / name, folder / name) if path.is_file()), None)
    except OSError as error:
        raise StorageError(f"{folder} cannot be read ({error})") from error


def _read(folder: Path, name: str, read: Callable[[Path], ValueT], kind: str) -> ValueT:
    """What `read` makes of a file, and a sentence where it cannot. A file that is replaced meanwhile is read again."""
    while (path := find(folder, name)) is not None:
        before = _version(path)
        try:
            result = read(path)
        except (OSError, RuntimeError, UnicodeDecodeError, SafetensorError) as error:
            if _version(path) == before:
                trouble = "cannot be read" if isinstance(error, OSError) else f"is truncated, damaged or not {kind}"
                raise StorageError(f"{path} {trouble} ({error})") from None
        else:
            if _version(path) == before:
                return result
    raise StorageError(f"{folder / name} does not exist: is {folder} a folder that credo wrote?")


def _version(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return facts.st_ino, facts.st_mtime_ns


def read_text(folder: Path, name: str) -> str:
    """A text file of the folder."""
    return _read(folder, name, lambda path: path.read_text(encoding="utf-8"), "a text file")


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """A JSON object of the folder, of a schema that this version knows."""
    path, text = folder / name, read_text(folder, name)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path} is not readable JSON ({error}); the file is damaged or not credo's") from None
    if not isinstance(data, dict):
        raise StorageError(f"{path} holds no JSON object; the file is damaged or not credo's")
    _check_schema(data.get("schema"), path)
    return data


def _check_schema(version: Any, path: Path) -> None:
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise StorageError(f"{path} has no schema version: it was not written by credo")
    if version > SCHEMA:
        raise StorageError(
            f"{path} has schema version {version}, and this credo reads up to {SCHEMA}: install a newer credo"
        )


def read_tensors(
    folder: Path, name: str, device: torch.device | str = "cpu"
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file, and the text beside them."""

    def read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
        with path.open("rb"), safe_open(path, framework="pt", device=str(device)) as file:
            # copies, since the tensors would be views of a file that may change, at addresses that round differently
            tensors = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118 (not a dict)
            return tensors, dict(file.metadata() or {})

    return _read(folder, name, read, "a safetensors file")


def fingerprint(tensors: Mapping[str, Tensor]) -> str:
    """A short text that differs when names, shapes, types or values differ."""
    digest = hashlib.blake2b(digest_size=16)
    for name, values in tensors.items():
        digest.update(repr((name, tuple(values.shape), values.dtype)).encode())
        digest.update(values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def environment() -> dict[str, str]:
    """What a person needs to know of the machine to repeat a run."""
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": str(numpy.__version__),
        "platform": platform.platform(),
        "threads": str(torch.get_num_threads()),
    }
