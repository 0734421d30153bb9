"""Parts of the rows."""

import numpy as np
import pytest

from credo.data.splits import folds, split


@pytest.mark.parametrize(("test", "validation"), [(0.1, 0.0), (0.2, 0.1), (0.0, 0.3)])
def test_parts_share_nothing_and_lose_nothing(test, validation):
    parts = split(103, test=test, validation=validation, seed=3)
    together = np.concatenate([parts.train, parts.validation, parts.test])
    assert sorted(together.tolist()) == list(range(103))
    assert (len(parts.test), len(parts.validation)) == (round(103 * test), round(103 * validation))


def test_seeds():
    assert np.array_equal(split(100, seed=1).test, split(100, seed=1).test)
    assert not np.array_equal(split(100, seed=1).test, split(100, seed=2).test)


def test_classes_come_in_proportion():
    classes = np.array(["a"] * 70 + ["b"] * 20 + ["c"] * 10)
    for seed in range(20):
        parts = split(100, test=0.2, validation=0.1, seed=seed, classes=classes)
        for part, expected in ((parts.test, (14, 4, 2)), (parts.validation, (7, 2, 1))):
            counts = [int((classes[part] == name).sum()) for name in "abc"]
            assert np.abs(np.subtract(counts, expected)).max() <= 1
            assert len(part) == sum(expected)


def test_every_class_can_be_learned():
    """A class of one row is trained on; a class of two is never wholly tested. Plain splits fail at both."""
    classes = np.array([0] * 97 + [1, 2, 2])
    plain_twin_fails = False
    for seed in range(200):
        assert set(classes[split(100, test=0.3, seed=seed, classes=classes).train]) == {0, 1, 2}
        plain_twin_fails |= set(classes[split(100, test=0.3, seed=seed).train]) != {0, 1, 2}
    assert plain_twin_fails


def test_every_row_is_tested_equally_often():
    """Over 2,000 seeds a row is tested 200 times on average; six standard deviations are 80."""
    classes = np.arange(50) % 3
    for given in (None, classes):
        counts = np.zeros(50)
        for seed in range(2000):
            counts[split(50, test=0.1, seed=seed, classes=given).test] += 1
        assert np.abs(counts - 200).max() < 80


@pytest.mark.parametrize("classes", [None, np.arange(53) % 4])
def test_folds(classes):
    parts = folds(53, 5, seed=1, classes=classes)
    assert parts.held.shape == (5, 10)
    assert parts.kept.shape == (5, 43)
    assert len(np.unique(parts.held)) == 50
    for held, kept in zip(parts.held, parts.kept, strict=True):
        assert sorted([*held, *kept]) == list(range(53))
        if classes is not None:
            assert set(np.bincount(classes[held])) <= {2, 3}


def test_bad_parts():
    with pytest.raises(ValueError, match="test must be a part"):
        split(10, test=1.0)
    with pytest.raises(ValueError, match="cannot be divided"):
        split(1, test=0.1)
    with pytest.raises(ValueError, match="cannot be divided into 11 parts"):
        folds(10, 11)
    with pytest.raises(ValueError, match="3 entries for 10 rows"):
        split(10, classes=[0, 1, 1])
