"""Image files of every kind as small squares of bytes."""

from __future__ import annotations

import os
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credo.core.optional import optional
from credo.data import DataError

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""Endings of the files that are taken for images, in lower case."""
GRAY = ("1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "I;16N")
"""Modes of Pillow without color."""
TRANSPARENT = ("RGBA", "RGBa", "LA", "La", "PA")


def printable(path: str | Path) -> str:
    """The name of a file as text, whatever bytes it has."""
    return os.fsencode(path).decode("utf-8", "replace")


class UnreadableImageError(DataError):
    """A file that is no image, or a damaged one."""


@dataclass(frozen=True)
class Header:
    """What a file says of its image before its pixels.

    Attributes:
        width: in pixels, as stored.
        height: in pixels, as stored.
        gray: whether it has no color.
    """

    width: int
    height: int
    gray: bool


def pillow(module: str = "PIL.Image") -> Any:
    """Pillow, or a sentence that says how to install it."""
    try:
        optional("PIL", "images")
    except ImportError as error:
        raise DataError(f"images are read by Pillow: {error}") from None
    return optional(module, "images")


def read_header(path: str | Path) -> Header:
    """What a file says of its image, without reading its pixels.

    Raises:
        UnreadableImageError: if it is no image.
    """
    with _opened(path) as image:
        width, height = image.size
        return Header(width, height, image.mode in GRAY)


def read_image(path: str | Path, size: int, channels: int = 3) -> NDArray[np.uint8]:
    """A file as a square of bytes, (channels, size, size).

    It is turned upright as its EXIF orientation says; what is transparent becomes white; 16 bits become 8; colors
    become gray where one channel is wanted, and the reverse. The middle square of it is scaled to the size, each pixel
    an average over the pixels that it stands for.

    Args:
        path: of the file, in any format that Pillow reads.
        size: height and width of the result.
        channels: 1 or 3.

    Raises:
        UnreadableImageError: if it is no image, or is damaged.
    """
    with _opened(path) as image:
        image.draft(None, (2 * size, 2 * size))  # a JPEG file is decoded at a fraction of its size where that suffices
        image.load()
        plain = _eight_bits(_upright(image), path).convert("L" if channels == 1 else "RGB")
        filters = pillow().Resampling
        averages = filters.BOX if min(plain.size) >= size else filters.BILINEAR  # small images are interpolated
        square = pillow("PIL.ImageOps").fit(plain, (size, size), method=averages)
        pixels = np.asarray(square, dtype=np.uint8).reshape(size, size, channels)
    return pixels.transpose(2, 0, 1).copy()


def read_values(path: str | Path) -> NDArray[np.float32]:
    """A file at its own size, from 0 to 1: (H, W) where it is gray, otherwise (H, W, 3).

    It is turned upright as its EXIF orientation says; what is transparent becomes white; 16 bits keep their precision.

    Args:
        path: of the file, in any format that Pillow reads.

    Raises:
        UnreadableImageError: if it is no image, or is damaged.
    """
    with _opened(path) as image:
        image.load()
        upright, gray = _upright(image), image.mode in GRAY
        if upright.mode.startswith("I"):
            return _sixteen_bits(upright, path).astype(np.float32) / 65535.0
        plain = _eight_bits(upright, path).convert("L" if gray else "RGB")
        return np.asarray(plain, dtype=np.float32) / 255.0


def _upright(image: Any) -> Any:
    """The image as its EXIF orientation says; as it is stored where that cannot be understood."""
    try:
        return pillow("PIL.ImageOps").exif_transpose(image)
    except Exception:  # whatever a camera or an editor wrote there, the pixels are fine
        return image


def _eight_bits(image: Any, path: str | Path) -> Any:
    """The image with bytes as pixels, over white where it is transparent."""
    if image.mode == "F":
        raise UnreadableImageError(
            f"{path} has floating-point pixels, whose white nobody knows: save it with 8 or 16 bits"
        )
    if image.mode.startswith("I"):
        return pillow().fromarray((_sixteen_bits(image, path) // 257).astype(np.uint8))
    if image.mode in TRANSPARENT or "transparency" in image.info:
        over = image.convert("RGBA")
        return pillow().alpha_composite(pillow().new("RGBA", over.size, (255, 255, 255, 255)), over)
    return image


def _sixteen_bits(image: Any, path: str | Path) -> NDArray[np.int64]:
    pixels = np.asarray(image).astype(np.int64)
    if pixels.min() < 0 or pixels.max() > 65535:
        raise UnreadableImageError(
            f"{path} has pixels of 32 bits, from {pixels.min()} to {pixels.max()}, whose black and white nobody knows: "
            "save it with 8 or 16 bits"
        )
    return pixels


def left_out_note(bad: int, files: int, why: str) -> str:
    """A sentence about files that could not be read, with what is wrong with the first of them."""
    return f"{bad:,} of {files:,} files are no readable images and are left out; the first: {why}"


@contextmanager
def _opened(path: str | Path) -> Iterator[Any]:
    module = pillow()
    damaged = (OSError, SyntaxError, ValueError, TypeError, EOFError, struct.error, zlib.error, IndexError, KeyError)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of metadata that nobody needs, and of images that are merely large
            with module.open(path) as image:
                yield image
    except DataError:
        raise
    except FileNotFoundError:
        raise UnreadableImageError(f"{path} does not exist") from None
    except module.DecompressionBombError:
        most = 2 * module.MAX_IMAGE_PIXELS // 10**6
        raise UnreadableImageError(f"{path} has more than {most} million pixels, and is not read") from None
    except module.UnidentifiedImageError:
        raise UnreadableImageError(f"{path} is no image that Pillow knows") from None
    except damaged as error:
        raise UnreadableImageError(f"{path} cannot be read as an image ({error})") from None
