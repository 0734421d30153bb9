"""Files and folders of images, good and bad."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from credo.data import DataError
from credo.vision import read_image_set


def pictures(folder: Path, count: int = 6, mode: str = "L") -> Path:
    """Small pictures of two classes."""
    for i in range(count):
        (folder / f"class {i % 2}").mkdir(parents=True, exist_ok=True)
        pixels = np.full((4, 5) + ((3,) if mode == "RGB" else ()), 40 * i, dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"class {i % 2}" / f"{i}.png")
    return folder


def test_bytes_and_labels_of_an_npz_file(tmp_path: Path) -> None:
    x = np.arange(60, dtype=np.uint8).reshape(5, 3, 4)
    np.savez(tmp_path / "a.npz", x=x, y=np.array([3, 3, 1, 0, 2]), x_test=x[:2], y_test=np.array([3, 3]))
    found = read_image_set(tmp_path / "a.npz")
    torch.testing.assert_close(found.x, torch.as_tensor(x) / 255.0)
    assert found.labels == ("3", "3", "1", "0", "2")
    assert found.x_test is not None
    assert (len(found.x_test), found.test_labels) == (2, ("3", "3"))
    assert found.notes == ("bytes were divided by 255",)


def test_other_names_and_forms(tmp_path: Path) -> None:
    gray = np.linspace(0, 1, 3 * 64).reshape(3, 64)
    np.save(tmp_path / "a.npy", gray)
    found = read_image_set(tmp_path / "a.npy")
    assert found.x.shape == (3, 8, 8)
    assert "read as 8 x 8 pixels" in found.notes[0]
    np.savez(tmp_path / "b.npz", scans=gray.reshape(3, 8, 8).astype(np.float64), names=np.array(["a", "b", "c"]))
    assert torch.equal(read_image_set(tmp_path / "b.npz").x, found.x)
    np.savez(tmp_path / "c.npz", x=gray > 0.5)
    assert set(read_image_set(tmp_path / "c.npz").x.unique().tolist()) == {0.0, 1.0}


def test_a_folder_of_pictures(tmp_path: Path) -> None:
    found = read_image_set(pictures(tmp_path / "some"))
    assert found.x.shape == (6, 4, 5)
    assert found.labels == ("class 0",) * 3 + ("class 1",) * 3
    assert float(found.x[1, 0, 0]) == pytest.approx(80 / 255)
    assert read_image_set(pictures(tmp_path / "color", mode="RGB")).x.shape == (6, 4, 5, 3)
    deep = Image.fromarray(np.full((4, 5), 65535, dtype=np.uint16))
    (tmp_path / "deep").mkdir()
    deep.save(tmp_path / "deep" / "0.png")
    assert float(read_image_set(tmp_path / "deep").x.max()) == 1.0


def test_a_picture_is_read_as_it_is_seen(tmp_path: Path) -> None:
    """Turned upright by EXIF, over white where it is transparent; 8 and 16 bits are on one scale, and both keep it."""
    seen = np.array([[0, 51, 102], [153, 204, 255]], np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.ascontiguousarray(np.rot90(seen))).save(tmp_path / "a.png", exif=exif)
    deep = seen.astype(np.uint16) * 257 + np.uint16(seen < 255)
    Image.fromarray(deep).save(tmp_path / "b.png")
    clear = np.stack([seen, np.full_like(seen, 255)], -1)
    clear[0, 0, 1] = 0
    Image.fromarray(clear).save(tmp_path / "c.png")
    (tmp_path / "__MACOSX").mkdir()
    (tmp_path / "__MACOSX" / "a.png").write_bytes(b"no image")
    expected = torch.as_tensor(seen) / 255.0
    found = read_image_set(tmp_path).x
    torch.testing.assert_close(found[0], expected)
    torch.testing.assert_close(found[1], torch.as_tensor(deep.astype(np.float32)) / 65535.0)
    torch.testing.assert_close(found[2], torch.where(expected == 0.0, 1.0, expected))


def saved(tmp_path: Path, **arrays: Any) -> Path:
    np.savez(tmp_path / "a.npz", **arrays)
    return tmp_path / "a.npz"


def another_size(folder: Path) -> Path:
    pictures(folder / "some")
    Image.fromarray(np.zeros((7, 5), np.uint8)).save(folder / "some" / "class 0" / "odd.png")
    return folder / "some"


def broken_picture(folder: Path) -> Path:
    pictures(folder / "some")
    (folder / "some" / "class 1" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nno image")
    return folder / "some"


def only_broken(folder: Path) -> Path:
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nno image")
    return folder


def text(folder: Path, name: str) -> Path:
    (folder / name).write_text("nothing")
    return folder / name


def empty(folder: Path) -> Path:
    (folder / "empty").mkdir()
    return folder / "empty"


MISTAKES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "not there": (lambda f: f / "none.npz", "does not exist"),
    "a table": (lambda f: text(f, "a.csv"), "give an npz or npy file, or a folder"),
    "no npz": (lambda f: text(f, "a.npz"), "it is no file of numpy"),
    "empty folder": (empty, "holds no images"),
    "several arrays": (lambda f: saved(f, a=np.zeros((2, 3)), b=np.zeros((2, 3))), "call the array of images 'x'"),
    "objects": (
        lambda f: saved(f, x=np.array([np.zeros(2), np.zeros(3)], dtype=object)),
        "images of different sizes",
    ),
    "one row": (lambda f: saved(f, x=np.zeros(7)), "one row per image"),
    "words": (lambda f: saved(f, x=np.array([["a", "b"]])), "images are numbers"),
    "counts": (lambda f: saved(f, x=np.array([[0, 300]])), "bytes go from 0 to 255"),
    "nan": (lambda f: saved(f, x=np.array([[0.0, 1.0], [np.nan, 0.0]])), "NaN or infinite values in 1 image.*number 1"),
    "test size": (lambda f: saved(f, x=np.zeros((2, 4, 4)), x_test=np.zeros((2, 4, 5))), "one size"),
    "sizes": (another_size, r"2 sizes: 6 are 5 x 4 pixels, and for one class 0/odd.png is 5 x 7"),
    "nothing readable": (
        lambda f: only_broken(f),
        r"none of the 1 images below .*broken.png cannot be read as an image",
    ),
}


@pytest.mark.parametrize(("make", "answer"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_bad_file_is_answered_in_a_sentence(tmp_path: Path, make: Callable[[Path], Path], answer: str) -> None:
    with pytest.raises(DataError, match=answer):
        read_image_set(make(tmp_path))


def test_a_damaged_picture_is_left_out_and_named(tmp_path: Path) -> None:
    folder = broken_picture(tmp_path)
    found = read_image_set(folder)
    (folder / "class 1" / "broken.png").unlink()
    whole = read_image_set(folder)
    assert len(found.x) == len(whole.x)
    assert found.labels == whole.labels
    (note,) = [each for each in found.notes if "left out" in each]
    assert note.startswith("1 of 7 files are no readable images and are left out; the first: ")
    assert "broken.png cannot be read as an image" in note
