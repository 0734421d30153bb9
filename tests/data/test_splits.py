"""Parts of the rows."""

import numpy as np
import pytest

from credo.data.group_splits import blocks_of_time, future
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


def grouped(seed: int, rows: int = 200, groups: int = 30) -> np.ndarray:
    """Groups of very different sizes."""
    rng = np.random.default_rng(seed)
    return rng.choice(groups, rows, p=rng.dirichlet(np.full(groups, 0.7)))


@pytest.mark.parametrize("validation", [0.0, 0.2])
def test_no_group_is_on_two_sides(validation):
    """Over 200 tables; rows at random cut groups in every one of them."""
    for seed in range(200):
        groups = grouped(seed)
        parts = split(200, test=0.2, validation=validation, seed=seed, groups=groups)
        sides = [set(groups[side]) for side in (parts.train, parts.validation, parts.test)]
        assert not sides[0] & sides[2] | sides[0] & sides[1] | sides[1] & sides[2]
        assert sorted(np.concatenate([parts.train, parts.validation, parts.test]).tolist()) == list(range(200))
        assert len(parts.test) >= 1
        careless_twin = split(200, test=0.2, seed=seed)
        assert set(groups[careless_twin.train]) & set(groups[careless_twin.test])


def test_groups_make_parts_of_about_the_size_that_is_asked_for():
    sizes = [len(split(200, test=0.2, seed=seed, groups=grouped(seed)).test) for seed in range(200)]
    assert max(sizes) <= 40
    assert np.median(sizes) >= 36  # small groups fill what large ones leave


def test_folds_do_not_cut_groups():
    for seed in range(100):
        groups = grouped(seed)
        parts = folds(200, 5, seed=seed, groups=groups)
        for held, kept in zip(parts.held, parts.kept, strict=True):
            assert not set(groups[held]) & set(groups[kept])
            assert len(set(held)) == len(held)
        careless_twin = folds(200, 5, seed=seed)
        assert any(set(groups[h]) & set(groups[k]) for h, k in zip(careless_twin.held, careless_twin.kept, strict=True))


def test_joined_folds_do_not_cut_groups_either():
    groups = np.arange(300) // 3
    parts = folds(300, 5, groups=groups, joined=2)
    assert parts.held.shape == (5, 120)
    assert parts.kept.shape == (5, 180)
    for held, kept in zip(parts.held, parts.kept, strict=True):
        assert not set(groups[held]) & set(groups[kept])
    assert np.bincount(parts.held.reshape(-1)).tolist() == [2] * 300


def test_folds_of_small_groups_lose_few_rows():
    parts = folds(300, 5, groups=np.arange(300) // 3)
    assert parts.held.shape == (5, 60)
    assert parts.kept.shape == (5, 240)


def test_fewer_groups_than_folds():
    parts = folds(30, 5, groups=np.arange(30) // 10)
    assert parts.held.shape == (5, 10)
    for held, kept in zip(parts.held, parts.kept, strict=True):
        assert not set(held // 10) & set(kept // 10)
    with pytest.raises(ValueError, match="one group"):
        folds(30, 5, groups=np.zeros(30))
    with pytest.raises(ValueError, match="one group"):
        split(30, groups=np.zeros(30))
    with pytest.raises(ValueError, match="2 entries for 30 rows"):
        split(30, groups=[0, 1])


def test_the_future_comes_after_the_past():
    rng = np.random.default_rng(0)
    for test in (0.01, 0.2, 0.5, 0.9):
        times = rng.integers(0, 50, 300).astype(float)
        late = future(times, test)
        assert times[~late].max() < times[late].min()
        assert abs(late.mean() - test) < 0.05  # a moment has 6 of 300 rows on average
    assert future(np.array([1.0, 1.0, 1.0, 2.0]), 0.9).tolist() == [False, False, False, True]
    with pytest.raises(ValueError, match="no past"):
        future(np.ones(5), 0.2)


def test_stretches_of_time_hold_what_is_near():
    times = np.random.default_rng(0).permutation(100).astype(float)
    blocks = blocks_of_time(times)
    assert np.bincount(blocks).tolist() == [5] * 20
    assert (np.diff(blocks[np.argsort(times)]) >= 0).all()
    assert len(set(blocks_of_time(np.array([3.0, 3.0, 3.0, 4.0])))) == 2
