"""Data sets by name: those that scikit-learn carries, those that are generated, and those of a folder of the user's."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credo.data import DataError, Task, toys
from credo.data.splits import Split

FOLDER = "CREDO_DATA"
"""The environment variable that names the folder of files."""

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class DataSet:
    """Inputs and targets with their names.

    Attributes:
        name: by which it is asked for.
        task: what is predicted.
        x: inputs, (N, F) numbers or (N, H, W) images of bytes.
        y: targets, (N,) numbers, or class numbers.
        features: names of the F inputs; empty for images.
        target: name of what is predicted.
        classes: names of the classes, in the order of their numbers; empty for numbers.
        test: inputs and targets that the set itself reserves for testing.
        splits: training and test rows that the literature uses.
    """

    name: str
    task: Task
    x: Array
    y: Array
    features: tuple[str, ...] = ()
    target: str = "target"
    classes: tuple[str, ...] = ()
    test: tuple[Array, Array] | None = None
    splits: tuple[Split, ...] = ()


@dataclass(frozen=True)
class _Entry:
    """Where a data set comes from, and how it is read.

    Attributes:
        about: what it is, in a line.
        read: makes the data set; takes the name, and the file's content where there is one.
        file: inside the user's folder; empty for sets that need none.
        checksum: SHA-256 of the file.
    """

    about: str
    read: Callable[..., DataSet]
    file: str = ""
    checksum: str = ""


@dataclass(frozen=True)
class Listing:
    """A line of the catalog.

    Attributes:
        name: by which `load` knows it.
        about: what it is.
        ready: whether it is available.
        why: what is missing, where it is not.
    """

    name: str
    about: str
    ready: bool
    why: str = ""


def available() -> tuple[Listing, ...]:
    """Every data set there is, and whether it is available."""
    lines = []
    for name, entry in _ENTRIES.items():
        why = _missing(name, entry)
        lines.append(Listing(name, entry.about, not why, why))
    return tuple(lines)


def load(name: str) -> DataSet:
    """The data set of that name.

    Args:
        name: one of `available()`.

    Raises:
        DataError: if there is none of that name, or its file is not available or not the known one.

    Examples:
        >>> load("two-moons").x.shape
        (200, 2)
    """
    if name not in _ENTRIES:
        near = get_close_matches(name, _ENTRIES, 3, 0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(_ENTRIES)}"
        raise DataError(f"there is no data set {name!r}; {hint}")
    entry = _ENTRIES[name]
    why = _missing(name, entry)
    if why:
        raise DataError(why)
    if not entry.file:
        return entry.read(name)
    path = Path(os.environ[FOLDER]) / entry.file
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != entry.checksum:
        raise DataError(f"{path} is not the file that credo knows as {name!r} (its SHA-256 differs): get it again")
    return entry.read(name, content)


def _missing(name: str, entry: _Entry) -> str:
    """What is missing for a data set, in a sentence; empty where nothing is."""
    if not entry.file:
        return ""
    folder = os.environ.get(FOLDER)
    if not folder:
        return (
            f"the data set {name!r} is the file {entry.file} in a folder of yours: set the environment variable "
            f"{FOLDER} to that folder"
        )
    if not (Path(folder) / entry.file).is_file():
        return f"the data set {name!r} is not available: {FOLDER} names the folder {folder}, and it has no {entry.file}"
    return ""


def _from_sklearn(name: str) -> DataSet:
    from sklearn import datasets  # slow to import, and needed for few sets

    bunch = getattr(datasets, "load_" + name.replace("-", "_"))()
    features = tuple(map(str, bunch.feature_names))
    if name == "diabetes":
        return DataSet(name, Task.REGRESSION, bunch.data, bunch.target, features, "progression")
    classes = tuple(map(str, bunch.target_names))
    return DataSet(name, Task.CLASSIFICATION, bunch.data, bunch.target, features, "class", classes)


_TOYS: dict[str, tuple[Callable[[], toys.InputsAndTargets], str]] = {
    "sine": (toys.sine, "generated: 32 points of a noisy sine"),
    "gap": (toys.gap, "generated: a sine with no data in the middle"),
    "varying-noise": (toys.varying_noise, "generated: a sine whose noise grows with the input"),
    "two-moons": (toys.two_moons, "generated: two interleaving half circles, two classes"),
    "blobs": (toys.blobs, "generated: three overlapping clouds, three classes"),
}


def _from_toys(name: str) -> DataSet:
    x, y = (t.numpy() for t in _TOYS[name][0]())
    features = tuple(f"x{i + 1}" for i in range(x.shape[1]))
    if y.ndim == 2:
        return DataSet(name, Task.REGRESSION, x, y[:, 0], features, "y")
    return DataSet(name, Task.CLASSIFICATION, x, y, features, "class", tuple(map(str, range(int(y.max()) + 1))))


def _images(name: str, content: bytes) -> DataSet:
    classes = _GARMENTS if name == "fashion-mnist" else tuple("0123456789")
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        x, y, test = file["x_train"], file["y_train"], (file["x_test"], file["y_test"].astype(np.int64))
    return DataSet(name, Task.CLASSIFICATION, x, y.astype(np.int64), target="class", classes=classes, test=test)


def _letters(name: str, content: bytes) -> DataSet:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        x, y = file["x"], file["y"].astype(np.int64)
    return DataSet(name, Task.CLASSIFICATION, x, y, target="letter", classes=tuple("ABCDEFGHIJ"))


def _mushroom(name: str, content: bytes) -> DataSet:
    """Each letter of each attribute as a column of zeros and ones; '?' is a letter like the others."""
    names, *rows = (line.split(",") for line in content.decode("ascii").split())
    cells = np.array(rows)
    columns, features = [], []
    for i, attribute in enumerate(names[1:], start=1):
        for letter in np.unique(cells[:, i]):
            columns.append(cells[:, i] == letter)
            features.append(f"{attribute}={letter}")
    x, y = np.stack(columns, axis=1).astype(np.float32), (cells[:, 0] == "p").astype(np.int64)
    return DataSet(name, Task.CLASSIFICATION, x, y, tuple(features), names[0], ("edible", "poisonous"))


def _uci(name: str, content: bytes) -> DataSet:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        x, y = file["X"], file["y"]
        pairs = zip(file["index_train"].astype(np.int64), file["index_test"].astype(np.int64), strict=True)
    none = np.empty(0, dtype=np.int64)
    splits = tuple(Split(train, none, test) for train, test in pairs)
    features = tuple(f"x{i + 1}" for i in range(x.shape[1]))
    return DataSet(name, Task.REGRESSION, x, y, features, "y", splits=splits)


_GARMENTS = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
_UCI_CHECKSUMS = {
    "boston": "f0956e10cf3bc3e6541f5d9ada521d533ca686b892ea9bed9cc0da1a812b06b9",
    "concrete": "4e36849163bfa1fc8a41fe7b3171a420af7280cefa6b3219d97f7e0c9f33b94a",
    "energy": "2792026ee740c876e1973680eecdde91c29f7bde01402b1b4d66435012d9d6eb",
    "kin8nm": "054f7ebf9101768bf52b642b949bf3d631a7543dd1a97001ceba7047ab8fee9e",
    "naval": "a88ebff54bd720ee734e3516a79af92999d95af251289e8182f53c0747d92ae9",
    "power-plant": "542b30f01a397a5fc74f88e7ef28c3af08b9a8f6bbfab6ab50226ee23283dc75",
    "protein": "05255d641cbca0487e3d5e0b3bfccab8db5f504349316c710ed064a111080c51",
    "wine-quality-red": "d5799a24a50c8cf31c2b17a4b328d037c2d081bb0949702b61b35b011e7a3f5b",
    "yacht": "a0d9362352af4f0e11f693d161d0d96b8fce7faefa58265afa1c4c5522142d72",
}
_ENTRIES: dict[str, _Entry] = {
    "diabetes": _Entry("in scikit-learn: disease progression of 442 patients, 10 inputs", _from_sklearn),
    "wine": _Entry("in scikit-learn: 178 wines, 13 inputs, three classes", _from_sklearn),
    "breast-cancer": _Entry("in scikit-learn: 569 tumors, 30 inputs, two classes", _from_sklearn),
    "digits": _Entry("in scikit-learn: 1,797 images of 8 x 8, ten classes", _from_sklearn),
    **{name: _Entry(about, _from_toys) for name, (_, about) in _TOYS.items()},
    "mnist": _Entry(
        "70,000 images of digits, 28 x 28",
        _images,
        "mnist.npz",
        "06af5dfe73b70e3bc1c36439982b18a8d76803db9b544f6fdf838a37fbb01b64",
    ),
    "fashion-mnist": _Entry(
        "70,000 images of garments, 28 x 28",
        _images,
        "fashion_mnist.npz",
        "5b6d2c4c694a91887af8ab7d039c04f80af3c29378d731c93a538d2e831aa469",
    ),
    "notmnist": _Entry(
        "10,000 images of letters A to J, 28 x 28",
        _letters,
        "notmnist_10k.npz",
        "af85c06d5c91a4859d017a8ff4ba734b00c07edba63aa0f1392371cd52d16b77",
    ),
    "mushroom": _Entry(
        "UCI: 8,124 mushrooms, 22 attributes, edible or poisonous",
        _mushroom,
        "mushroom.csv",
        "7204d38399e2c7c84d85e7a2019081724bb943613e82be5d3523156cfbcf9f64",
    ),
    **{
        f"uci-{name}": _Entry(f"UCI regression: {name}, with its standard splits", _uci, f"uci/{name}.npz", checksum)
        for name, checksum in _UCI_CHECKSUMS.items()
    },
}
