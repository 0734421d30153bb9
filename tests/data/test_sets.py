"""Data sets by name."""

import io

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


@pytest.fixture
def nothing_here(monkeypatch, tmp_path):
    monkeypatch.delenv("CREDO_DATA", raising=False)
    monkeypatch.setenv("CREDO_CACHE", str(tmp_path / "cache"))


def test_without_a_folder_the_sentence_says_what_to_do(nothing_here):
    with pytest.raises(DataError, match=r"CREDO_OFFLINE forbids downloads; put mnist\.npz .* let CREDO_DATA name that"):
        sets.load("mnist")
    lines = {line.name: line for line in sets.available()}
    assert lines["diabetes"].ready
    assert not lines["uci-yacht"].ready
    assert "uci/yacht.npz" in lines["uci-yacht"].why


def test_the_list_says_how_much_a_download_is(nothing_here, monkeypatch):
    monkeypatch.delenv("CREDO_OFFLINE")
    lines = {line.name: line.why for line in sets.available()}
    assert "is downloaded when it is first asked for (170 MB from https://www.cs.toronto.edu/~kriz)" in lines["cifar10"]
    assert "(12 MB from" in lines["mnist"]


def test_a_folder_without_the_file(nothing_here, monkeypatch, tmp_path):
    monkeypatch.setenv("CREDO_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"neither in the folder .* \(CREDO_DATA\), nor in .*cache"):
        sets.load("mushroom")


def test_a_file_that_is_not_the_known_one(nothing_here, monkeypatch, tmp_path):
    monkeypatch.setenv("CREDO_DATA", str(tmp_path))
    for content, said in ((b"nonsense", "no npz file"), (b"PKnonsense", "damaged"), (npz(x=np.zeros(3)), "SHA-256")):
        (tmp_path / "mnist.npz").write_bytes(content)
        with pytest.raises(DataError, match=said):
            sets.load("mnist")
    (tmp_path / "mushroom.csv").write_bytes(b"class,odor\np,\xff\n")
    with pytest.raises(DataError, match="no table of letters"):
        sets.load("mushroom")


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def test_a_downloaded_file_is_used_and_checked(nothing_here, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "yacht.npz").write_bytes(npz(X=np.ones((308, 6)), y=np.ones(308)))
    with pytest.raises(DataError, match=r"cache.yacht\.npz is not what credo knows as 'uci-yacht'"):
        sets.load("uci-yacht")


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


def test_pictures_in_color():
    data = folder_or_skip("cifar10")
    assert (data.x.shape, data.test[0].shape) == ((50_000, 32, 32, 3), (10_000, 32, 32, 3))
    np.testing.assert_allclose(data.x.mean((0, 1, 2)) / 255, [0.49139968, 0.48215841, 0.44653091], atol=1e-8)
    assert [data.classes[k] for k in data.y[:3]] == ["frog", "truck", "truck"]


def test_what_is_at_hand_says_where_from():
    assert sets.load("wine").origin == "in scikit-learn"
    assert sets.load("sine").origin == "generated"
    assert folder_or_skip("uci-yacht").origin.endswith("yacht.npz")


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
