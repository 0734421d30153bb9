"""Image files of every kind, and folders of them."""

from __future__ import annotations

import resource
import shutil
from pathlib import Path

import numpy as np
import pytest

from credo.core.storage import StorageError
from credo.data import DataError
from credo.vision import read_image
from credo.vision.folder import scan
from credo.vision.pixels import FILE, ImageRows, ImageShape, decode, unreadable_notes
from credo.vision.reading import UnreadableImageError
from image_files import Image, write_digits

RED, HALF = (200, 0, 0), 128


def saved(path: Path, image: object, **options: object) -> Path:
    image.save(path, **options)
    return path


def solid(mode: str, color: object, size: tuple[int, int] = (12, 10)) -> object:
    return Image.new(mode, size, color)


@pytest.mark.parametrize(
    ("name", "image", "colors", "gray"),
    [
        ("l.png", lambda: solid("L", HALF), (128, 128, 128), 128),
        ("rgb.png", lambda: solid("RGB", RED), RED, 60),
        ("bw.png", lambda: solid("1", 1), (255, 255, 255), 255),
        ("palette.png", lambda: solid("RGB", RED).quantize(4), RED, 60),
        ("palette.gif", lambda: solid("RGB", RED).quantize(4), RED, 60),
        ("cmyk.tif", lambda: solid("CMYK", (0, 255, 255, 0)), (255, 0, 0), 76),
        ("alpha.png", lambda: solid("RGBA", (*RED, 0)), (255, 255, 255), 255),
        ("half-alpha.png", lambda: solid("RGBA", (0, 0, 0, 128)), (127, 127, 127), 127),
        ("gray-alpha.png", lambda: solid("LA", (50, 0)), (255, 255, 255), 255),
        ("webp.webp", lambda: solid("RGB", (255, 255, 255)), (255, 255, 255), 255),
        ("16bit.png", lambda: Image.fromarray(np.full((10, 12), 128 * 257, np.uint16)), (128, 128, 128), 128),
        ("32bit.tif", lambda: Image.fromarray(np.full((10, 12), 128 * 257, np.int32)), (128, 128, 128), 128),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_mode_becomes_bytes(name, image, colors, gray, tmp_path):
    path = saved(tmp_path / name, image())
    found = read_image(path, 4, 3)
    assert (found.shape, found.dtype) == ((3, 4, 4), np.uint8)
    assert found.reshape(3, -1).T.tolist() == [list(colors)] * 16
    assert read_image(path, 4, 1).reshape(-1).tolist() == [gray] * 16


def test_a_transparent_color_of_a_palette_is_white(tmp_path):
    image = solid("P", 0)
    image.putpalette([200, 0, 0, 0, 0, 0])
    assert read_image(saved(tmp_path / "p.png", image, transparency=0), 4, 1).min() == 255


@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_upright(orientation, tmp_path):
    """By the EXIF orientation, as a camera that was held sideways writes it."""
    upright = np.zeros((16, 16), np.uint8)
    upright[:8, :8], upright[:8, 8:], upright[8:, :8] = 240, 160, 80
    turns = {1: 0, 8: 3, 3: 2, 6: 1}
    mirrored = {2: 0, 5: 1, 4: 2, 7: 3}
    stored = upright if orientation in turns else upright[:, ::-1]
    stored = np.rot90(stored, {**turns, **mirrored}[orientation])
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path / "photo.png", Image.fromarray(np.ascontiguousarray(stored)), exif=exif)
    assert read_image(path, 2, 1)[0].tolist() == [[240, 160], [80, 0]]


def test_metadata_that_nobody_understands_harms_no_pixel(tmp_path):
    path = saved(tmp_path / "photo.jpg", solid("L", 90), exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x05nonsense of some editor")
    assert abs(read_image(path, 4, 1).astype(int) - 90).max() <= 1


def test_the_middle_square_is_scaled_by_averages(tmp_path):
    pixels = np.zeros((8, 24), np.uint8)
    pixels[:, 8:16] = np.kron(np.array([[0, 200], [100, 40]]), np.ones((4, 4)))
    assert read_image(saved(tmp_path / "wide.png", Image.fromarray(pixels)), 2, 1)[0].tolist() == [[0, 200], [100, 40]]
    checks = np.indices((64, 64)).sum(0) % 2 * 255
    mean = read_image(saved(tmp_path / "checks.png", Image.fromarray(checks.astype(np.uint8))), 8, 1)
    assert abs(mean.astype(int) - 127).max() <= 2
    assert read_image(saved(tmp_path / "line.png", Image.new("L", (300, 1), 7)), 8, 1).tolist() == [[[7] * 8] * 8]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: path.write_bytes(b"no image at all"), "is no image that Pillow knows"),
        (lambda path: path.write_bytes(b""), "is no image that Pillow knows"),
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "cannot be read as an image"),
        (lambda path: cut(path, "JPEG"), "cannot be read as an image"),
        (lambda path: cut(path, "PNG"), "cannot be read as an image"),
        (lambda path: Image.new("F", (9, 9)).save(path, "TIFF"), "floating-point pixels"),
        (lambda path: Image.new("I", (9, 9), 70_000).save(path, "TIFF"), "pixels of 32 bits, from 70000"),
        (lambda path: Image.new("I", (9, 9), -1).save(path, "TIFF"), "pixels of 32 bits, from -1"),
        (lambda path: Image.new("1", (20_000, 10_000)).save(path, "PNG"), "has more than 178 million pixels"),
    ],
)
def test_what_cannot_be_read_is_said(make, sentence, tmp_path):
    make(tmp_path / "file.png")
    with pytest.raises(UnreadableImageError, match=sentence):
        read_image(tmp_path / "file.png", 8)


def cut(path: Path, kind: str) -> None:
    """A file that a transfer has cut."""
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 255, (64, 64, 3), np.uint8)).save(path, kind)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def test_a_folder_is_understood(tmp_path):
    root = write_digits(tmp_path / "digits", (0, 1), 5)
    (root / "empty").mkdir()
    (root / ".hidden").mkdir()
    (root / "digit 0" / "deeper").mkdir()
    solid("RGB", RED, (30, 20)).save(root / "digit 0" / "deeper" / "COLOR.JPG")
    (root / "digit 1" / "notes.txt").write_text("no image")
    solid("L", 1).save(root / "loose.png")
    found = scan(root)
    assert found.classes == ("digit 0", "digit 1")
    assert np.bincount(found.labels).tolist() == [6, 5]
    assert "digit 0/deeper/COLOR.JPG" in found.files
    assert (found.size, found.channels) == (16, 3)
    said = "; ".join(found.notes)
    for words in (
        "'empty' holds no image",
        "1 image(s) beside the folders",
        "2 different sizes",
        "10 of 11 images are gray",
    ):
        assert words in said
    assert scan(root).fingerprint == found.fingerprint
    (root / "digit 0" / "00.png").touch()
    assert scan(root).fingerprint != found.fingerprint


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda root: None, "is no folder"),
        (lambda root: root.mkdir(), "has no folders in it: credo expects one for each class"),
        (lambda root: write_digits(root, (3,), 20), "only one class with images, 'digit 3'"),
        (lambda root: (root / "cat").mkdir(parents=True), "no image in any of its folders"),
        (lambda root: write_digits(root, (3, 4), 3), "holds 6 images in all, and at least 10 are needed"),
        (lambda root: [p.write_bytes(b"x") for p in write_digits(root, (3, 4), 5).rglob("*.png")], "is no image that"),
    ],
)
def test_a_folder_that_cannot_be_learned_from(make, sentence, tmp_path):
    make(tmp_path / "photos")
    with pytest.raises(DataError, match=sentence):
        scan(tmp_path / "photos")


def test_decoding_goes_on_where_it_was_killed(digits, tmp_path):
    folder, shape = scan(digits), ImageShape(8, 1)
    whole = decode(folder, shape, tmp_path / "whole")
    assert whole.rows.shape == (120, 65)
    assert whole.readable.all()
    content = (tmp_path / "whole" / FILE).read_bytes()
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / FILE).write_bytes(content[: 65 * 70 + 13])
    seen = []
    assert decode(folder, shape, tmp_path / "cut", lambda text, share: seen.append(share)).rows.tobytes() == content
    rows = ImageRows(whole, folder.labels, np.array([3, 50]))
    x, y = rows.__getitems__([1, 0])
    assert (x.shape, y.tolist(), len(rows)) == ((2, 1, 8, 8), [1, 0], 2)
    np.testing.assert_array_equal(
        (rows[0][0] * 255).numpy().astype(np.uint8), read_image(digits / folder.files[3], 8, 1)
    )


def test_damaged_files_are_left_out_and_named(digits, tmp_path):
    root = tmp_path / "photos"
    shutil.copytree(digits, root)
    cut(root / "digit 0" / "07.png", "PNG")
    (root / "digit 4" / "00.png").write_bytes(b"nothing")
    folder = scan(root)
    found = decode(folder, ImageShape(8, 1), tmp_path)
    assert np.flatnonzero(~found.readable).tolist() == [7, 80]
    (note,) = unreadable_notes(folder, found.readable)
    assert note.startswith("2 of 120 files are no readable images and are left out; the first: ")
    assert "07.png cannot be read" in note


def test_a_full_disk_while_decoding(digits, tmp_path):
    folder, before = scan(digits), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(StorageError, match=r"takes no more .* of 120 images.* continue with --resume"):
            decode(folder, ImageShape(8, 1), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert decode(folder, ImageShape(8, 1), tmp_path).readable.all()


def test_channels_are_standardized_by_their_moments(digits, tmp_path):
    images = decode(scan(digits), ImageShape(8, 3), tmp_path)
    places = np.arange(0, 120, 2)
    mean, scale = images.moments(places)
    x = images.images(places).double()
    np.testing.assert_allclose(mean, x.mean((0, 2, 3)), rtol=1e-9)
    np.testing.assert_allclose(scale, x.std((0, 2, 3), correction=0), rtol=1e-9)
