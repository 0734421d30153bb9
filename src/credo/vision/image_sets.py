"""Files and folders of images, as values that an autoencoder can learn from."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from credo.data import DataError
from credo.vision.folder import images_below
from credo.vision.reading import SUFFIXES, UnreadableImageError, left_out_note, printable, read_values

Array = NDArray[Any]

IMAGES = ("x", "images", "x_train", "train_images", "data")
"""Names of the array of images in a file, in the order in which they are looked for."""
LABELS = ("y", "labels", "y_train", "train_labels", "targets")
HELD_OUT, HELD_OUT_LABELS = ("x_test", "test_images"), ("y_test", "test_labels")


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images and what is known of them.

    Attributes:
        source: name of the file or folder.
        x: (N, ...), from 0 to 1 where they were bytes.
        labels: of each image, where there are some; no training uses them.
        x_test: images that the file itself holds out.
        test_labels: theirs.
        notes: what was decided in reading, in sentences.
    """

    source: str
    x: Tensor
    labels: tuple[str, ...] | None = None
    x_test: Tensor | None = None
    test_labels: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()


def read_image_set(path: str | Path) -> ImageSet:
    """Images of an npz or npy file, or of a folder of pictures, whose folders inside are classes.

    Raises:
        DataError: there are none, or they cannot be used.
    """
    place = Path(path)
    if place.is_dir():
        return _of_folder(place)
    if not place.exists():
        raise DataError(f"{place} does not exist: give an npz or npy file, or a folder of images")
    if place.suffix.lower() not in (".npz", ".npy"):
        raise DataError(f"{place} is no file that is known here: give an npz or npy file, or a folder of images")
    arrays = _arrays(place)
    name = _chosen(arrays, place)
    x, notes = _values(arrays[name], f"the array {name!r} of {place.name}")
    labels = _labels(arrays, LABELS, len(x))
    held = next((other for other in HELD_OUT if other in arrays), None)
    if held is None:
        return ImageSet(place.name, x, labels, notes=notes)
    x_test, _ = _values(arrays[held], f"the array {held!r} of {place.name}")
    if x_test.shape[1:] != x.shape[1:]:
        raise DataError(
            f"the test images of {place.name} are {tuple(x_test.shape[1:])}, and the others {tuple(x.shape[1:])}: all "
            "must have one size"
        )
    return ImageSet(place.name, x, labels, x_test, _labels(arrays, HELD_OUT_LABELS, len(x_test)), notes)


def _arrays(place: Path) -> dict[str, Array]:
    try:
        loaded = np.load(place, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"x": loaded}
        with loaded as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        said: object = error
        if "allow_pickle" in str(error):  # numpy's words for Python objects, and for whatever it does not know
            of_numpy = place.read_bytes()[:6] == b"\x93NUMPY" or zipfile.is_zipfile(place)
            objects = "it holds Python objects, such as images of different sizes"
            said = objects if of_numpy else "it is no file of numpy's"
        raise DataError(f"{place} cannot be read as an array of numbers: {said}") from None


def _chosen(arrays: dict[str, Array], place: Path) -> str:
    """The name of the array that holds the images."""
    found = next((name for name in IMAGES if name in arrays), None)
    many = [name for name, array in arrays.items() if array.ndim > 1]
    if found is None and len(many) != 1:
        held = ", ".join(f"{name!r} {array.shape}" for name, array in arrays.items()) or "nothing"
        raise DataError(f"{place.name} holds {held}: call the array of images 'x' (and their classes, if any, 'y')")
    return found or many[0]


def _labels(arrays: dict[str, Array], names: tuple[str, ...], count: int) -> tuple[str, ...] | None:
    found = next((arrays[name] for name in names if name in arrays), None)
    if found is None or found.shape not in ((count,), (count, 1)):
        return None
    return tuple(str(value) for value in found.reshape(-1))


def _values(array: Array, name: str) -> tuple[Tensor, tuple[str, ...]]:
    """Images as real numbers, and what was decided."""
    notes: list[str] = []
    if array.ndim < 2 or array.size == 0:
        raise DataError(f"{name} has shape {array.shape}: it needs one row per image, such as (N, 28, 28)")
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} holds values of type {array.dtype}, and images are numbers")
    side = math.isqrt(array.shape[1])
    if array.ndim == 2 and side * side == array.shape[1] and side >= 4:
        notes.append(f"{array.shape[1]} numbers a row are read as {side} x {side} pixels")
        array = array.reshape(-1, side, side)
    if array.dtype.kind in "iu" and array.max() > 1:
        if array.min() < 0 or array.max() > 255:
            raise DataError(
                f"{name} holds whole numbers from {array.min()} to {array.max()}, and bytes go from 0 to 255: give "
                "values between 0 and 1 as floats"
            )
        notes.append("bytes were divided by 255")
        return torch.as_tensor(array.astype(np.float32)) / 255.0, tuple(notes)
    values = torch.as_tensor(array.astype(np.float32))
    if not bool(values.isfinite().all()):
        rows = (~values.isfinite()).flatten(1).any(1).nonzero()[:, 0]
        raise DataError(
            f"{name} has NaN or infinite values in {len(rows)} image(s), the first is number {int(rows[0])}: remove or "
            "fill them"
        )
    return values, tuple(notes)


def _of_folder(folder: Path) -> ImageSet:
    """All pictures below a folder; if they lie in folders of their own, these are their classes."""
    there = sorted(images_below(folder))
    if not there:
        raise DataError(f"{folder} holds no images: their names end in {', '.join(SUFFIXES)}")
    files, each, unreadable = list[Path](), list[Array](), list[str]()
    for path in there:
        try:
            each.append(read_values(path))
            files.append(path)
        except UnreadableImageError as error:
            unreadable.append(str(error))
    if not files:
        raise DataError(f"none of the {len(there):,} images below {folder} can be read: {unreadable[0]}")
    shapes = Counter(picture.shape for picture in each)
    if len(shapes) > 1:
        usual = shapes.most_common(1)[0][0]
        other = next(path for path, picture in zip(files, each, strict=True) if picture.shape != usual)
        size = each[files.index(other)].shape
        raise DataError(
            f"{folder} holds images of {len(shapes)} sizes: {shapes[usual]} are {_size(usual)}, and for one "
            f"{other.relative_to(folder)} is {_size(size)}: bring all to one size first"
        )
    classes = [printable(path.relative_to(folder).parts[0]) if path.parent != folder else "" for path in files]
    named = len(set(classes)) > 1 and "" not in classes
    values = torch.as_tensor(np.stack(each))
    notes = [f"{len(files):,} files, {_size(each[0].shape)}; gray values were divided by the largest that is possible"]
    if unreadable:
        notes.append(printable(left_out_note(len(unreadable), len(there), unreadable[0])))
    return ImageSet(folder.name or str(folder), values, tuple(classes) if named else None, notes=tuple(notes))


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[1]} x {shape[0]} pixels{' in color' if len(shape) > 2 else ''}"
