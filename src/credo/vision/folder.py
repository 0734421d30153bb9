"""A folder of images by class: what is in it, before a pixel is read."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from credo.data import DataError
from credo.vision.reading import SUFFIXES, Header, UnreadableImageError, pillow, printable, read_header

LEAST = 10
"""Images of all classes together."""
SMALLEST, LARGEST = 16, 64
"""Sizes between which images are brought, where the user does not say."""

Say = Callable[[str, float | None], None]
"""Is called with what is going on, and which part of it is done."""


@dataclass(frozen=True, eq=False)
class ImageFolder:
    """Images by class.

    Attributes:
        root: the folder.
        classes: names of its folders that hold images, in alphabetical order.
        files: paths of the images, below the root, class by class.
        labels: class number of each, (N,).
        headers: what each says of itself; None for a file that is no image.
        notes: what was strange, in sentences.
        fingerprint: a short text that differs when names, sizes or times of files differ.
    """

    root: Path
    classes: tuple[str, ...]
    files: tuple[str, ...]
    labels: NDArray[np.int64]
    headers: tuple[Header | None, ...]
    notes: tuple[str, ...]
    fingerprint: str

    @property
    def size(self) -> int:
        """The height and width that suits these images: half of them are not smaller."""
        shorter = [min(header.width, header.height) for header in self.headers if header is not None]
        return int(np.clip(np.median(shorter), SMALLEST, LARGEST))

    @property
    def channels(self) -> int:
        """1 where all images are gray, otherwise 3."""
        return 1 if all(header.gray for header in self.headers if header is not None) else 3


def scan(root: str | Path, say: Say = lambda text, share: None) -> ImageFolder:
    """Look at a folder of images by class.

    Args:
        root: has a folder for each class, such as photos/cat and photos/dog; images may lie deeper in these.
        say: is called with what is going on.

    Raises:
        DataError: if that is not what it is, or there are too few images or classes.
    """
    place = Path(root)
    pillow()  # without it nothing can be read, which need not wait for the scan
    if not place.is_dir():
        raise DataError(f"{root} is no folder: give one that has a folder of images for each class")
    folders = sorted(p for p in place.iterdir() if p.is_dir() and not p.name.startswith((".", "__")))
    if not folders:
        raise DataError(
            f"{root} has no folders in it: credo expects one for each class, as in photos/cat/1.jpg and "
            "photos/dog/1.jpg"
        )
    found = {folder.name: images_below(folder) for folder in folders}
    empty = [name for name, paths in found.items() if not paths]
    classes = tuple(printable(name) for name, paths in found.items() if paths)
    notes = [f"the folder {name!r} holds no image, and no class is made of it" for name in empty]
    if len(classes) < 2:
        what = f"only one class with images, {classes[0]!r}" if classes else "no image in any of its folders"
        raise DataError(f"{root} has {what}: there is nothing to tell apart; give a folder for each of two classes")
    paths = [path for each in found.values() for path in each]
    if len(paths) < LEAST:
        raise DataError(f"{root} holds {len(paths)} images in all, and at least {LEAST} are needed")
    labels = np.repeat(np.arange(len(classes)), [len(each) for each in found.values() if each])
    headers = tuple(_headers(paths, say))
    loose = sum(path.suffix.lower() in SUFFIXES for path in place.iterdir() if path.is_file())
    if loose:
        notes.append(f"{loose} image(s) beside the folders of the classes are left out: they have no class")
    return ImageFolder(
        root=place,
        classes=classes,
        files=tuple(path.relative_to(place).as_posix() for path in paths),
        labels=labels,
        headers=headers,
        notes=(*notes, *_sizes_note(headers)),
        fingerprint=_fingerprint(place, paths),
    )


def images_below(folder: Path) -> list[Path]:
    """Files in a folder, and in its folders, that are images by their names; hidden ones are left out."""
    found = []
    for where, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith((".", "__")))
        found += [
            Path(where, name)
            for name in sorted(names)
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES
        ]
    return found


def _headers(paths: list[Path], say: Say) -> list[Header | None]:
    found: list[Header | None] = []
    for number, path in enumerate(paths):
        if number % 200 == 0:
            say(f"looking at images: {number:,} of {len(paths):,}", number / len(paths))
        try:
            found.append(read_header(path))
        except UnreadableImageError:
            found.append(None)
    if all(header is None for header in found):
        read_header(paths[0])  # says what is wrong with it
    return found


def _sizes_note(headers: tuple[Header | None, ...]) -> tuple[str, ...]:
    known = [header for header in headers if header is not None]
    sizes = Counter((header.width, header.height) for header in known)
    gray = sum(header.gray for header in known)
    notes = []
    if len(sizes) > 1:
        least, most = min(sizes), max(sizes)
        notes.append(
            f"images have {len(sizes):,} different sizes, from {least[0]} x {least[1]} to {most[0]} x {most[1]}: the "
            "middle square of each is scaled to the same size"
        )
    if 0 < gray < len(known):
        notes.append(f"{gray:,} of {len(known):,} images are gray, and are taken for colors without color")
    return tuple(notes)


def _fingerprint(root: Path, paths: list[Path]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        facts = path.stat()
        digest.update(repr((path.relative_to(root).as_posix(), facts.st_size, facts.st_mtime_ns)).encode())
    return digest.hexdigest()
