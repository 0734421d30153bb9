"""Files of data sets as arrays, and the checksum of what they hold, however it is packed."""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterator
from random import Random

import numpy as np

from credo.data import DataError
from credo.data.formats import Arrays
from credo.data.splits import Index, Split

ORIGIN = "origin"
"""The array of a downloaded file that says where it came from."""
_WORDS, _MULTIPLIER = 624, 1_812_433_253
"""Of the Mersenne twister's state, and of the rule by which a seed fills it."""


def npz(content: bytes) -> Arrays:
    """The arrays of an npz file.

    Raises:
        DataError: if it is none.
    """
    if not content.startswith(b"PK"):
        raise DataError("this is no npz file")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"this npz file is damaged: {error}") from None


def cells(content: bytes) -> Arrays:
    """The cells of a CSV file below its header."""
    try:
        return {"cells": np.array([line.split(",") for line in content.decode("ascii").split()[1:]])}
    except (UnicodeDecodeError, ValueError) as error:
        raise DataError(f"this is no table of letters ({error})") from None


def checksum(arrays: Arrays) -> str:
    """SHA-256 of the arrays that make a data set: labels as bytes, and nothing that follows from the others.

    Examples:
        >>> checksum({"y": np.array([1, 2])}) == checksum({"y": np.array([1, 2], np.uint8), "index_train": np.ones(3)})
        True
    """
    digest = hashlib.sha256()
    for name, values in sorted(arrays.items()):
        if name not in _CONTENT:
            continue
        plain = values.astype(_KINDS[values.dtype.kind]) if values.dtype.kind in _KINDS else values
        digest.update(f"{name} {plain.dtype.str} {plain.shape}".encode())
        digest.update(np.ascontiguousarray(plain).data)
    return digest.hexdigest()


_CONTENT = ("X", "x", "y", "x_train", "y_train", "x_test", "y_test", "cells")
_KINDS = {"i": "u1", "u": "u1", "U": "S1"}
"""Labels and pixels are below 256, whatever they are kept as."""


def standard_splits(rows: int, count: int) -> tuple[Split, ...]:
    """The splits of the UCI tables in the literature: a tenth of the rows for testing.

    Those that numpy draws by `RandomState(1).choice(range(rows), rows, replace=False)`, again and again.

    Reference: J. M. Hernández-Lobato, R. P. Adams, "Probabilistic backpropagation for scalable learning of Bayesian
        neural networks", 2015, https://arxiv.org/abs/1502.05336
    """
    words, kept = _words(1), round(0.9 * rows)
    none = np.empty(0, dtype=np.int64)
    orders = (_permutation(rows, words) for _ in range(count))
    return tuple(Split(order[:kept], none, order[kept:]) for order in orders)


def _words(seed: int) -> Iterator[int]:
    """32 bits at a time of the Mersenne twister, seeded by one word."""
    state = [seed]
    for i in range(1, _WORDS):
        state.append((_MULTIPLIER * (state[-1] ^ state[-1] >> 30) + i) & 0xFFFFFFFF)
    twister = Random()
    twister.setstate((3, (*state, _WORDS), None))
    while True:
        yield twister.getrandbits(32)


def _permutation(rows: int, words: Iterator[int]) -> Index:
    """The algorithm of Fisher and Yates, places drawn by rejection of the words that are too large."""
    order = list(range(rows))
    for last in range(rows - 1, 0, -1):
        mask = (1 << last.bit_length()) - 1
        place = next(words) & mask
        while place > last:
            place = next(words) & mask
        order[last], order[place] = order[place], order[last]
    return np.array(order, dtype=np.int64)
