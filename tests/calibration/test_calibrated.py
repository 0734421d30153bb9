"""A posterior with calibrators: it predicts by them, and they are saved with it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import credo
from credo.calibration import Calibrator, CdfMap, ConformalIntervals, ConformalSets, Temperature
from credo.predictive import Predictive

X = torch.linspace(-1, 1, 60)[:, None]


@dataclass(frozen=True, eq=False)
class Shift(Calibrator):
    """A calibrator of a user."""

    by: Tensor
    note: str = "a shift"

    def apply(self, prediction: Predictive) -> Predictive:
        return replace(prediction, draws=prediction.draws + self.by)


@pytest.fixture(scope="module")
def numbers() -> credo.Posterior:
    y = X + 0.1 * credo.Stream(0).normal(60, 1)
    return credo.fit(credo.nets.MLP(1, 1, (8,)), (X[::2], y[::2]), credo.DeepEnsemble(members=2, epochs=20))


@pytest.fixture(scope="module")
def classes() -> credo.Posterior:
    return credo.fit(credo.nets.MLP(1, 3, (8,)), (X, torch.arange(60) % 3), credo.MCDropout(epochs=3, rate=0.1))


def calibrated_numbers(posterior: credo.Posterior) -> credo.Posterior:
    first = CdfMap.of(posterior.predict(X[1::4]), X[1::4])
    second = ConformalIntervals.of(first.apply(posterior.predict(X[3::4])), X[3::4])
    return credo.Calibrated.of(posterior, first, second)


def test_numbers_are_saved_and_read(numbers: credo.Posterior, tmp_path: Path) -> None:
    posterior = calibrated_numbers(numbers)
    read = credo.load(posterior.save(tmp_path / "run"))
    there, here = read.predict(X), posterior.predict(X)
    for name in ("mean", "epistemic", "aleatoric"):
        assert torch.equal(getattr(there, name), getattr(here, name))
    assert torch.equal(there.interval(0.9)[1], here.interval(0.9)[1])  # type: ignore[attr-defined]
    assert torch.equal(there.log_prob(X), here.log_prob(X))
    assert read.notes == posterior.notes
    assert "CdfMap, ConformalIntervals" in read.notes[-1]
    code = f"import credo; print(credo.load({str(tmp_path / 'run')!r}).predict([[0.3]]).interval(0.8)[0].item())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) == posterior.predict([[0.3]]).interval(0.8)[0].item()  # type: ignore[attr-defined]


def test_classes_are_saved_and_read(classes: credo.Posterior, tmp_path: Path) -> None:
    y = torch.arange(60) % 3
    first = Temperature.of(classes.predict(X), y)
    second = ConformalSets.of(first.apply(classes.predict(X)), y, adaptive=True, penalty=0.01)
    posterior = credo.Calibrated.of(classes, first, second)
    read = credo.load(posterior.save(tmp_path / "run"))
    there, here = read.predict(X, seed=3), posterior.predict(X, seed=3)
    assert isinstance(there, credo.ClassPredictive)
    assert isinstance(here, credo.ClassPredictive)
    assert torch.equal(there.probs, here.probs)
    assert torch.equal(there.prediction_set(0.8), here.prediction_set(0.8))
    torch.testing.assert_close(here.draws, classes.predict(X, seed=3).draws / first.temperature)


def test_the_posterior_itself_is_as_it_was(numbers: credo.Posterior) -> None:
    posterior = calibrated_numbers(numbers)
    assert isinstance(posterior, credo.Calibrated)
    assert posterior.base is numbers
    assert torch.equal(posterior.draw(2, seed=1)(X), numbers.draw(2, seed=1)(X))
    assert posterior.default_draws == numbers.default_draws
    batches = torch.cat([p.interval(0.9)[0] for p in posterior.predict_batches(X, rows=7)])  # type: ignore[attr-defined]
    torch.testing.assert_close(batches, posterior.predict(X).interval(0.9)[0])  # type: ignore[attr-defined]
    moved = posterior.to("cpu")
    assert torch.equal(moved.predict(X).mean, posterior.predict(X).mean)
    with pytest.raises(ValueError, match="does not calibrate some of them"):
        posterior.of_members(torch.tensor([0]))


def test_calibrators_add_up(classes: credo.Posterior) -> None:
    once = credo.Calibrated.of(classes, Temperature(2.0))
    twice = credo.Calibrated.of(once, Temperature(3.0))
    assert twice.base is classes
    assert len(twice.calibrators) == 2
    torch.testing.assert_close(twice.predict(X).draws, classes.predict(X).draws / 6.0)


def test_a_calibrator_of_a_user_is_saved_by_its_numbers(numbers: credo.Posterior, tmp_path: Path) -> None:
    posterior = credo.Calibrated.of(numbers, Shift(torch.tensor([5.0])))
    read = credo.load(posterior.save(tmp_path))
    assert torch.equal(read.predict(X).mean, posterior.predict(X).mean)
    assert isinstance(read, credo.Calibrated)
    assert vars(read.calibrators[0])["note"] == "a shift"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "Nothing"}, "unknown kind"),
        ({"numbers": {"temperature": -1.0}}, "temperature must be a positive number"),
        ({"numbers": {"temperature": "hot"}}, "temperature must be a positive number"),
        ({"numbers": {}}, "temperature"),
    ],
)
def test_files_that_cannot_be_are_refused(
    classes: credo.Posterior, tmp_path: Path, change: dict[str, object], said: str
) -> None:
    credo.Calibrated.of(classes, Temperature(2.0)).save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["calibrators"][0].update(change)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(credo.StorageError, match=said):
        credo.load(tmp_path)


def test_misuse_is_a_sentence(classes: credo.Posterior, numbers: credo.Posterior) -> None:
    with pytest.raises(ValueError, match="there is no calibrator"):
        credo.Calibrated.of(classes)
    with pytest.raises(TypeError, match="calibrator must be"):
        credo.Calibrated.of(classes, "temperature")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="for numbers use CdfMap"):
        credo.Calibrated.of(numbers, Temperature(2.0)).predict(X)
    with pytest.raises(TypeError, match="use ConformalIntervals"):
        ConformalSets.of(numbers.predict(X), torch.zeros(60))
