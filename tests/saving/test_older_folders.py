"""Folders that older versions wrote are read: those in `data/` are of schema 1, one for each kind of posterior."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import credo
from credo import priors
from credo.core.status import Status

DATA = Path(__file__).with_name("data")
X = torch.linspace(-1, 1, 8, dtype=torch.float64).reshape(4, 2)
FOLDERS = sorted(path.name for path in DATA.iterdir())


@pytest.mark.parametrize("name", FOLDERS)
def test_an_older_folder_gives_the_posterior_that_was_saved(name: str) -> None:
    posterior, expected = credo.load(DATA / name), json.loads((DATA / name / "expected.json").read_text())
    assert type(posterior).__name__ == expected["kind"]
    mean = torch.tensor(expected["mean"], dtype=torch.float64).unsqueeze(1)
    torch.testing.assert_close(posterior.predict(X, draws=7).mean, mean, rtol=1e-9, atol=1e-9)
    assert posterior.record.status is Status.FINISHED
    assert posterior.record.seed == 1


def test_every_kind_of_schema_1_is_among_them() -> None:
    saved = {json.loads((DATA / name / "expected.json").read_text())["kind"] for name in FOLDERS}
    assert saved == {"Chains", "DiagonalGaussian", "Draws", "Dropout", "UnitNoise", "Weighted"}


def test_the_prior_that_variational_dropout_put_in_the_place_of_the_models_is_read_off_the_method() -> None:
    """The folder itself names the prior of the user's model."""
    weights = ("layers.1.weight", "layers.3.weight")
    for name in ("sparse", "units"):
        assert json.loads((DATA / name / "config.json").read_text())["model"]["prior"]["kind"] == "Normal"
        assert credo.load(DATA / name).prior == priors.LogUniform(weights, priors.Normal(scale=1.0))
    assert credo.load(DATA / "gaussian").prior == priors.StudentT(scale=0.7)


@pytest.mark.parametrize("name", FOLDERS)
def test_an_older_folder_is_saved_as_a_new_one(name: str, tmp_path: Path) -> None:
    first = credo.load(DATA / name)
    again = credo.load(first.save(tmp_path))
    assert json.loads((tmp_path / "config.json").read_text())["schema"] == 2
    assert torch.equal(again.predict(X, draws=7).mean, first.predict(X, draws=7).mean)
    assert again.record == first.record
    assert again.prior == first.prior


def test_a_run_that_an_older_version_began_is_not_resumed(tmp_path: Path) -> None:
    """What methods keep between two steps differs between versions."""
    data, method = (X, X[:, :1]), credo.MAP(epochs=1)
    model = credo.Model(credo.nets.MLP(2, 1, (2,)).double())
    credo.fit(model, data, method, checkpoint=tmp_path)
    run = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps({**run, "schema": 1}))
    with pytest.raises(credo.StorageError, match="a run that an older credo began"):
        credo.fit(model, data, method, checkpoint=tmp_path, resume=True)
