"""Data sets by name."""

import os

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from credo.data import DataError, Task, sets, toys

EVERYWHERE = ["diabetes", "wine", "breast-cancer", "digits", "sine", "gap", "varying-noise", "two-moons", "blobs"]


@pytest.mark.parametrize("name", EVERYWHERE)
def test_sets_that_need_nothing(name):
    data = sets.load(name)
    assert len(data.x) == len(data.y)
    assert data.x.shape[1] == len(data.features)
    if data.task is Task.CLASSIFICATION:
        assert set(np.unique(data.y)) == set(range(len(data.classes)))
    else:
        assert len(np.unique(data.y)) > 10


def test_digits_are_those_of_scikit_learn():
    assert np.array_equal(sets.load("digits").x, load_digits().data)


def test_without_a_folder_the_sentence_says_what_to_do(monkeypatch):
    monkeypatch.delenv("CREDO_DATA", raising=False)
    with pytest.raises(DataError, match=r"file mnist\.npz .* set the environment variable CREDO_DATA"):
        sets.load("mnist")
    lines = {line.name: line for line in sets.available()}
    assert lines["diabetes"].ready
    assert not lines["uci-yacht"].ready
    assert "uci/yacht.npz" in lines["uci-yacht"].why


def test_a_folder_without_the_file(monkeypatch, tmp_path):
    monkeypatch.setenv("CREDO_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"it has no mushroom\.csv"):
        sets.load("mushroom")


def test_a_file_that_is_not_the_known_one(monkeypatch, tmp_path):
    monkeypatch.setenv("CREDO_DATA", str(tmp_path))
    (tmp_path / "mnist.npz").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="SHA-256 differs"):
        sets.load("mnist")


def test_an_unknown_name():
    with pytest.raises(DataError, match=r"no data set 'mnits'; did you mean mnist"):
        sets.load("mnits")
    with pytest.raises(DataError, match="there are: diabetes, wine"):
        sets.load("zzz")


def folder_or_skip(name: str) -> sets.DataSet:
    line = next(line for line in sets.available() if line.name == name)
    if not line.ready:
        pytest.skip(line.why)
    return sets.load(name)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_images(name):
    data = folder_or_skip(name)
    assert data.x.shape == (60_000, 28, 28)
    assert data.test is not None
    assert data.test[0].shape == (10_000, 28, 28)
    assert set(data.y) == set(range(10))
    assert len(data.classes) == 10


def test_letters():
    data = folder_or_skip("notmnist")
    assert np.bincount(data.y).tolist() == [1000] * 10


def test_mushroom():
    data = folder_or_skip("mushroom")
    assert data.x.shape == (8124, len(data.features))
    assert (data.x.sum(1) == 22).all()  # one letter for each of 22 attributes
    assert np.bincount(data.y).tolist() == [4208, 3916]


def test_uci_splits_follow_their_rule():
    """The published splits come from one seed; see `numpy.random.RandomState(1)`."""
    data = folder_or_skip("uci-yacht")
    assert data.x.shape == (308, 6)
    assert len(data.splits) == 20
    state = np.random.RandomState(1)
    for part in data.splits:
        order = state.choice(range(308), 308, replace=False)
        assert np.array_equal(part.train, order[: round(0.9 * 308)])
        assert np.array_equal(part.test, order[round(0.9 * 308) :])


def test_every_set_of_a_complete_folder_is_ready():
    if not os.environ.get("CREDO_DATA"):
        pytest.skip("CREDO_DATA is not set: it names the folder of downloaded data sets")
    assert all(line.ready or "it has no" in line.why for line in sets.available())


def test_toys_repeat_by_seed():
    for make in (toys.sine, toys.gap, toys.varying_noise, toys.two_moons, toys.blobs):
        assert all(torch.equal(a, b) for a, b in zip(make(seed=1), make(seed=1), strict=True))
        assert not all(torch.equal(a, b) for a, b in zip(make(seed=1), make(seed=2), strict=True))


def test_toys_are_what_they_say():
    x, y = toys.sine(4000)
    noise = y - 10 * torch.sin(2 * torch.pi * x)
    assert abs(float(noise.std()) - 1.0) < 0.06  # five standard errors of 4,000 values
    x, _ = toys.gap(1000)
    assert float(x.abs().min()) >= 0.5
    x, y = toys.varying_noise(20_000)
    noise = y - torch.sin(x)
    inner, outer = noise[x.abs() < 0.3].std(), noise[x.abs() > 2.7].std()
    assert float(outer / inner) > 3.0
    x, y = toys.two_moons(1000, noise_scale=0.0)
    assert float(((x[y == 0].norm(dim=1)) - 1.0).abs().max()) < 1e-5  # float32 on the unit circle
    assert torch.bincount(toys.blobs(300)[1]).tolist() == [100, 100, 100]
