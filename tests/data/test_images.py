"""Images as tensors, made worse, and varied."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import credo
from credo.data import DataError, sets
from credo.data.augmentation import Augmentation
from credo.data.corruptions import LEVELS, SEVERITIES, Corruption, corrupt
from credo.data.pixels import image_tensors


@pytest.fixture(scope="module")
def digits() -> torch.Tensor:
    return image_tensors(sets.load("digits")).x[:50]


def test_digits_as_tensors():
    data, found = sets.load("digits"), image_tensors(sets.load("digits"), -1.0, 1.0)
    assert len(found.x) + len(found.x_test) == 1797
    assert torch.bincount(found.y_test).tolist() == pytest.approx([36] * 10, abs=2)  # each class has its share
    assert (float(found.x.min()), float(found.x.max())) == (-1.0, 1.0)
    again = torch.cat([found.x, found.x_test]).flatten(1)
    np.testing.assert_allclose(np.sort((again + 1) * 8, 0), np.sort(data.x, 0), atol=1e-6)
    with pytest.raises(DataError, match="'wine' holds no images, but"):
        image_tensors(sets.load("wine"))


def test_colors_come_first():
    data = sets.DataSet(
        "colors",
        sets.Task.CLASSIFICATION,
        np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3),
        np.array([0, 1]),
        test=(np.zeros((1, 4, 5, 3), np.uint8), np.array([1])),
    )
    found = image_tensors(data, 0.0, 255.0)
    assert found.x.shape == (2, 3, 4, 5)
    assert found.x[1, 2, 3, 4] == data.x[1, 3, 4, 2]


@pytest.mark.parametrize("kind", Corruption)
def test_a_corruption_repeats_keeps_range_and_grows(kind, digits):
    worse = [corrupt(digits, kind, severity) for severity in SEVERITIES]
    for images, severity in zip(worse, SEVERITIES, strict=True):
        assert images.shape == digits.shape
        assert 0.0 <= float(images.min()) <= float(images.max()) <= 1.0
        assert torch.equal(images, corrupt(digits, kind, severity))
        assert torch.equal(images[:7], corrupt(digits[:7], kind, severity)), "an image does not depend on those after"
    changed = [float((images - digits).square().mean()) for images in worse]
    assert changed == sorted(changed)
    assert changed[0] > 0.0


def test_a_corruption_is_the_same_in_another_range(digits):
    for kind in Corruption:
        one, other = corrupt(digits, kind, 2), corrupt(2 * digits - 1, kind, 2, low=-1.0)
        torch.testing.assert_close(2 * one - 1, other, atol=1e-5, rtol=0)  # float32 in another range
        assert corrupt(digits[:, 0], kind, 2).shape == digits[:, 0].shape


def test_noise_has_its_scale_and_its_seed():
    x = torch.full((40, 3, 20, 20), 0.5, dtype=torch.float64)
    for severity in (1, 2):
        noise = corrupt(x, "noise", severity) - x
        assert float(noise.std()) == pytest.approx(LEVELS[Corruption.NOISE][severity - 1], rel=0.015)  # 4 std. errors
    assert not torch.equal(corrupt(x, "noise", 1), corrupt(x, "noise", 1, seed=1))


def test_contrast_blur_and_pixels_by_their_formulas():
    x = credo.Stream(0).normal(2, 3, 8, 8, dtype=torch.float64).sigmoid()
    mean = x.mean((1, 2, 3), keepdim=True)
    torch.testing.assert_close(corrupt(x, "contrast", 2), mean + 0.5 * (x - mean))
    flat = torch.full((1, 1, 8, 8), 0.25, dtype=torch.float64)
    torch.testing.assert_close(corrupt(flat, "blur", 5), flat)
    point = torch.zeros(1, 1, 41, 41, dtype=torch.float64)
    point[..., 20, 20] = 1.0
    blurred = corrupt(point, "blur", 3)[0, 0]
    assert float(blurred.sum()) == pytest.approx(1.0)
    places = torch.arange(41, dtype=torch.float64) - 20
    width = LEVELS[Corruption.BLUR][2] * math.sqrt(41 / 32)
    spread = math.sqrt(float((blurred.sum(0) * places.square()).sum()))
    assert spread == pytest.approx(width, rel=0.02)  # the kernel ends at three standard deviations
    coarse = corrupt(x, "pixelate", 5)  # two pixels a side are left
    blocks = coarse[..., ::4, ::4].repeat_interleave(4, 2).repeat_interleave(4, 3)
    torch.testing.assert_close(coarse, blocks)
    torch.testing.assert_close(corrupt(flat, "pixelate", 5), flat)


@pytest.mark.parametrize(("degrees", "turns"), [(90.0, 1), (180.0, 2), (-90.0, 3)])
def test_a_quarter_turn_is_exact(degrees, turns):
    x = credo.Stream(0).normal(1, 2, 6, 6, dtype=torch.float64)
    turned = credo.data.corruptions.rotated(x, torch.tensor([degrees], dtype=torch.float64))
    torch.testing.assert_close(turned, torch.rot90(x, turns, (2, 3)), atol=1e-9, rtol=0)


def test_a_turn_keeps_circles_of_wide_images():
    rows, columns = torch.meshgrid(torch.arange(21.0), torch.arange(41.0), indexing="ij")
    ring = ((rows - 10).square() + (columns - 20).square() < 49).double()[None, None]
    turned = corrupt(ring, "rotation", 4)
    inside = (rows - 10).square() + (columns - 20).square() < 100  # nothing from outside comes in there
    assert float((turned - ring)[0, 0][inside].abs().mean()) < 0.05  # the edge of a disk of pixels


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("fog", 1), "kind must be one of noise, blur"),
        (("blur", 6), "severity must be a whole number from 1 to 5, got 6"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, sentence, digits):
    with pytest.raises(ValueError, match=sentence):
        corrupt(digits, *arguments)
    with pytest.raises(ValueError, match="x goes from 0 to 255, beyond low=0 and high=1"):
        corrupt(255.0 * digits, "blur", 1)
    with pytest.raises(ValueError, match="of uint8: images are real numbers"):
        corrupt(digits.byte(), "blur", 1)
    with pytest.raises(ValueError, match="low must be below high"):
        corrupt(digits, "blur", 1, low=1.0)


def test_augmentation_moves_each_image_on_its_own():
    x = torch.arange(30.0).reshape(1, 1, 5, 6).expand(400, 1, 5, 6).contiguous()
    found = Augmentation(shift=1, flip=True)(x, credo.Stream(3))
    assert found.shape == x.shape
    each = {tuple(image.flatten().tolist()) for image in found}
    assert len(each) == 18  # nine places, mirrored or not
    expected = set()
    for up in (-1, 0, 1):
        for left in (-1, 0, 1):
            for step in (1, -1):
                rows = [min(max(r + up, 0), 4) for r in range(5)]
                columns = [min(max(c + left, 0), 5) for c in range(6)][::step]
                expected.add(tuple(float(6 * r + c) for r in rows for c in columns))
    assert each == expected
    middle = sum(torch.equal(image, x[0]) for image in found) / 400
    assert middle == pytest.approx(1 / 18, abs=0.05)  # four standard errors
    assert torch.equal(x[0], torch.arange(30.0).reshape(1, 5, 6)), "what was given stays"


def test_augmentation_repeats_by_its_stream(digits):
    augment = Augmentation(shift=2, flip=True, rotation=20.0)
    one = augment(digits, credo.Stream(0))
    assert torch.equal(one, augment(digits, credo.Stream(0)))
    assert not torch.equal(one, augment(digits, credo.Stream(1)))
    assert torch.equal(Augmentation(shift=0)(digits, credo.Stream(0)), digits)
    members = augment(torch.stack([digits, digits]), credo.Stream(0))
    assert members.shape == (2, *digits.shape)
    assert not torch.equal(members[0], members[1]), "members see variations of their own"
    assert augment(digits[:, 0], credo.Stream(0)).shape == digits[:, 0].shape


def test_augmentation_refuses_what_is_no_image():
    for x in (torch.zeros(3, 4), torch.zeros(2, 3, 4, 4, dtype=torch.long), {"a": 1}):
        with pytest.raises(ValueError, match=r"augment is for images \(B, C, H, W\)"):
            Augmentation()(x, credo.Stream(0))
    with pytest.raises(ValueError, match="rotation must be from 0 to 180"):
        Augmentation(rotation=-1.0)
    with pytest.raises(ValueError, match="shift"):
        Augmentation(shift=-1)


def fitted(augment, **options):
    x = image_tensors(sets.load("digits")).x[:40]
    y = torch.arange(40) % 3
    net = credo.nets.CNN(1, 3, 8, (2,), (4,))
    return credo.fit(net, (x, y), credo.MAP(epochs=4, learning_rate=0.01, batch_size=20), augment=augment, **options)


def weights(posterior):
    return torch.cat([w.flatten() for w in posterior.members().params.values()])


def test_training_with_augmentation_repeats_and_resumes(tmp_path):
    seen = []

    def watching(x, rng):
        seen.append(Augmentation(shift=1, flip=True)(x, rng))
        return seen[-1]

    whole = fitted(Augmentation(shift=1, flip=True))
    assert torch.equal(weights(fitted(watching)), weights(whole))
    assert len(seen) == 8
    assert len({tuple(x.flatten().tolist()) for x in seen}) == 8, "each step has variations of its own"
    assert not torch.equal(weights(fitted(None)), weights(whole))
    calls = 0

    def interrupted(x, rng):
        nonlocal calls
        calls += 1
        if calls == 5:
            raise KeyboardInterrupt
        return Augmentation(shift=1, flip=True)(x, rng)

    with pytest.raises(KeyboardInterrupt):
        fitted(interrupted, checkpoint=credo.Checkpoint(tmp_path / "run", seconds=0.0))


def test_a_run_resumes_to_the_same_bits_and_with_the_same_augmentation_alone(tmp_path):
    augment = Augmentation(shift=1)
    whole = fitted(augment)
    with pytest.warns(credo.CredoWarning, match="stopped after"):
        fitted(augment, checkpoint=tmp_path / "run", seconds=1e-9)
    with pytest.raises(ValueError, match="augment"):
        fitted(Augmentation(shift=2), checkpoint=tmp_path / "run", resume=True)
    assert torch.equal(weights(fitted(augment, checkpoint=tmp_path / "run", resume=True)), weights(whole))


def test_augment_must_keep_shapes():
    with pytest.raises(ValueError, match="augment must return inputs of the shape and type"):
        fitted(lambda x, rng: x[:3])
    with pytest.raises(ValueError, match="augment must return"):
        fitted(lambda x, rng: x.double())
    with pytest.raises(TypeError, match="augment must be a function"):
        fitted(3)
