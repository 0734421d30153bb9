"""From a folder of images to a run that predicts new ones, whatever happens on the way."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

import credo
from credo.core.folders import SavedElsewhereError
from credo.core.storage import StorageError
from credo.data import DataError
from credo.vision import fit_folder, fitting, open_vision_run, read_image
from credo.vision.folder import images_below
from credo.vision.pixels import ImageShape
from credo.vision.recipes import METHODS, NETWORKS, VisionRequest
from credo.vision.runs import FILES, IMAGES
from credo.vision.saving import save_vision_run
from image_files import Image, write_digits

QUICK = {"method": "map", "size": 8, "epochs": 2}


def weights(run):
    return torch.cat([w.flatten() for w in run.posterior.members().params.values()])


def test_a_run_knows_its_images(run):
    assert run.metadata.counts == (40, 40, 40)
    assert (run.evaluation.trained, run.evaluation.held_out) == (96, 24)
    assert run.evaluation.score("accuracy").model > 0.8
    assert run.evaluation.score("accuracy").plain is not None
    assert {path.name for path in run.folder.iterdir()} == set(FILES)
    assert not run.folder.with_name("run.training").exists()
    assert list(run.predictions.columns[:7]) == ["file", "observed", "label", "probability", "doubt", "alarm", "why"]
    assert run.predictions["alarm"].mean() <= run.alarms.false_alarms <= 0.2 + 1e-9
    page = run.report.read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == len(run.evaluation.doubtful) == len(run.thumbnails)
    assert " rows" not in page.split("</style>")[1]
    assert "new-photos" not in page
    assert "credo predict run photos" in page


def test_a_run_that_is_read_back_gives_the_same_answers(run, digits):
    files = images_below(digits)[::7]
    again = open_vision_run(run.folder)
    one, other = run.predict(files), again.predict(files)
    pd.testing.assert_frame_equal(one, other)
    pd.testing.assert_frame_equal(one.iloc[[3]].reset_index(drop=True), again.predict([files[3]]), atol=1e-5)
    assert one["file"].tolist() == [str(file) for file in files]
    np.testing.assert_allclose(one["epistemic"] + one["aleatoric"], one["doubt"], atol=1e-9)
    np.testing.assert_allclose(one.filter(like="probability_").sum(axis=1), 1.0)
    assert again.evaluation == run.evaluation
    assert again.thumbnails == run.thumbnails
    held = run.predictions.merge(
        again.predict([digits / file for file in run.predictions["file"]]), left_index=True, right_index=True
    )
    np.testing.assert_allclose(held["doubt_x"], held["doubt_y"], atol=1e-5)  # other batches, summed in another order
    assert (held["alarm_x"] == held["alarm_y"]).all()


def test_the_posterior_takes_plain_pixels(run, digits):
    """Resizing is the run's, standardizing the posterior's."""
    file = digits / "digit 0" / "00.png"
    x = torch.from_numpy(read_image(file, 8, 1)).float().unsqueeze(0) / 255
    found = run.posterior.predict(x).probs[0]
    row = run.predict([file]).iloc[0]
    assert [row[f"probability_digit {k}"] for k in (0, 1, 4)] == pytest.approx(found.tolist(), abs=1e-6)


def test_what_is_no_digit_rings(run, tmp_path):
    rng = np.random.default_rng(0)
    for number in range(20):
        pixels = rng.integers(0, 256, (8, 8), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    found = run.predict(images_below(tmp_path))
    assert found["alarm"].mean() > run.alarms.false_alarms + 0.3
    assert set(found.loc[found["alarm"], "why"]) <= {
        "unsure",
        "unlike the training images",
        "unsure and unlike the training images",
    }


def test_files_that_cannot_be_read_ring_and_keep_their_rows(run, digits, tmp_path):
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"nothing")
    good = digits / "digit 0" / "00.png"
    found = run.predict([bad, good, tmp_path / "missing.png"])
    assert found["alarm"].tolist()[::2] == [True, True]
    assert found["label"].tolist()[::2] == ["", ""]
    assert found["probability"].isna().tolist() == [True, False, True]
    assert found["why"].str.contains("not readable").tolist() == [True, False, True]
    assert run.predict([bad])["why"].iloc[0].endswith("is no image that Pillow knows")
    with pytest.raises(ValueError, match="there is no image to predict"):
        run.predict([])


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains(method, digits):
    run = fit_folder(digits, method=method, size=8, epochs=1)
    assert run.folder is None
    assert run.posterior.record.finished
    assert run.evaluation.score("accuracy").model is not None


@pytest.mark.parametrize("network", NETWORKS)
def test_every_network_takes_every_shape(network):
    request = VisionRequest(network=network)
    with torch.device("meta"):
        for shape in (ImageShape(16, 1), ImageShape(33, 3), ImageShape(96, 3)):
            net = NETWORKS[network](shape, 4, False)
            x = torch.zeros(2, shape.channels, shape.size, shape.size)
            assert net(x).shape == (2, 4)
    assert request.passes(100) == 60
    assert request.passes(1_000_000) == 3


def test_the_same_seed_gives_the_same_numbers_saved_or_not(digits, tmp_path):
    one, other = fit_folder(digits, **QUICK), fit_folder(digits, out=tmp_path / "run", **QUICK)
    assert torch.equal(weights(one), weights(other))
    assert one.evaluation == other.evaluation
    assert not torch.equal(weights(fit_folder(digits, seed=1, **QUICK)), weights(one))


KILLED = """
import os, signal, sys
from credo.vision import fit_folder, fitting
from credo.loop import run
fitting.SECONDS = run.REPORT_SECONDS = 0.0

def say(text, share):
    if text.startswith(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

fit_folder(sys.argv[1], out=sys.argv[2], method="map", size=8, epochs=2, say=say)
"""


@pytest.mark.parametrize("when", ["training: epoch 2", pytest.param("judging", marks=pytest.mark.slow)])
def test_a_training_goes_on_after_a_kill(when, digits, tmp_path):
    out = tmp_path / "run"
    child = [sys.executable, "-c", KILLED, str(digits), str(out), when]
    assert subprocess.run(child, capture_output=True, check=False).returncode == -signal.SIGKILL
    assert not out.exists()
    with pytest.raises(StorageError, match="holds an interrupted training: continue it with --resume"):
        fit_folder(digits, out=out, **QUICK)
    with pytest.raises(StorageError, match="was started with --seed 0, and now it is 1"):
        fit_folder(digits, out=out, resume=True, seed=1, **QUICK)
    resumed = fit_folder(digits, out=out, resume=True, **QUICK)
    assert torch.equal(weights(resumed), weights(fit_folder(digits, **QUICK)))
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("when", ["training: epoch 2", "judging", "looking"])
def test_ctrl_c(when, digits, tmp_path, monkeypatch):
    monkeypatch.setattr("credo.loop.run.REPORT_SECONDS", 0.0)

    def say(text, share):
        if text.startswith(when):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        fit_folder(digits, out=tmp_path / "run", say=say, **QUICK)
    begun = when != "looking"
    assert ("continues it" in str(caught.value)) == begun
    assert os.listdir(tmp_path) == ["run.training"] * begun
    resumed = fit_folder(digits, out=tmp_path / "run", resume=begun, **QUICK)
    assert torch.equal(weights(resumed), weights(fit_folder(digits, **QUICK)))


def test_a_folder_that_changed_is_not_resumed(digits, tmp_path, monkeypatch):
    root = tmp_path / "photos"
    shutil.copytree(digits, root)

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fitting, "save_vision_run", stop)
        with pytest.raises(KeyboardInterrupt, match="--resume"):
            fit_folder(root, out=tmp_path / "run", **QUICK)
    (root / "digit 0" / "00.png").unlink()
    with pytest.raises(StorageError, match=r"the training of .*run was started with images"):
        fit_folder(root, out=tmp_path / "run", resume=True, **QUICK)


def test_a_folder_that_fails_in_the_end_does_not_lose_the_run(digits, tmp_path, monkeypatch):
    out = tmp_path / "run"

    def full(run, folder):
        if folder == out:
            raise StorageError(f"{folder} cannot be written (the disk is full)")
        return save_vision_run(run, folder)

    monkeypatch.setattr(fitting, "save_vision_run", full)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(SavedElsewhereError, match=r"the disk is full.*was saved to") as caught:
        fit_folder(digits, out=out, **QUICK)
    assert open_vision_run(caught.value.run.folder).metadata.counts == (40, 40, 40)


def test_a_run_in_the_way_is_replaced_by_force_alone(digits, tmp_path):
    out = tmp_path / "run"
    fit_folder(digits, out=out, **QUICK)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match="holds a run already"):
        fit_folder(digits, out=out, **QUICK)
    fit_folder(digits, out=out, force=True, **QUICK)
    assert (out / "notes.txt").read_text() == "mine"
    other = tmp_path / "other"
    other.mkdir()
    (other / "x").write_text("x")
    with pytest.raises(StorageError, match="holds other files, which are not touched"):
        fit_folder(digits, out=other, force=True, **QUICK)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "magic"}, "method must be one of ensemble, map, dropout, vi, got 'magic'"),
        ({"network": "vgg"}, "network must be one of cnn, lenet5"),
        ({"method": "dropout", "network": "resnet20"}, "resnet20 has no dropout"),
        ({"test": 1.0}, "test must lie between 0 and 1"),
        ({"false_alarms": 0.0}, "rate must lie between 0 and 1"),
        ({"size": 4}, "size"),
        ({"epochs": 0}, "epochs"),
        ({"device": "gpu"}, "device must be a device of torch's"),
        ({"resume": True}, "resume=True needs out="),
        ({"test": 0.95}, "leaves 6 of 120 images for training, and at least 8 are needed"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_work(options, sentence, digits):
    with pytest.raises(ValueError, match=sentence):
        fit_folder(digits, **options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_no_gpu_where_one_is_asked_for(digits):
    with pytest.raises(ValueError, match="device 'cuda' was asked for, and torch finds no CUDA device"):
        fit_folder(digits, device="cuda")


def test_a_class_of_damaged_images_alone(tmp_path):
    root = write_digits(tmp_path / "photos", (0, 1), 12)
    kept = {path: path.read_bytes() for path in (root / "digit 1").iterdir()}
    for path, content in kept.items():
        path.write_bytes(content[:60])
    with pytest.raises(DataError, match=r"no file of the class 'digit 1' in .* is a readable image"):
        fit_folder(root, out=tmp_path / "run", **QUICK)
    for path, content in kept.items():
        path.write_bytes(content)
    assert fit_folder(root, out=tmp_path / "run", **QUICK).evaluation  # the same command, once it is mended


def test_a_tiny_folder_with_names_of_any_bytes(tmp_path):
    """Ten images: numbers are rough, and say so."""
    root = write_digits(tmp_path / "photos", (0, 1), 5)
    strange = os.fsdecode(b'caf\xe9, "0"')
    (root / "digit 0").rename(root / strange)
    os.rename(root / strange / "00.png", root / strange / os.fsdecode(b"\xff\n.png"))
    run = fit_folder(root, out=tmp_path / "run", test=0.01, size=8, method="map", epochs=1)
    assert (run.evaluation.trained, run.evaluation.held_out) == (9, 1)
    assert run.alarms.false_alarms == 1.0
    assert {check.question: check.rating for check in run.evaluation.checks}["Is the alarm set?"] == "fair"
    assert run.metadata.classes[0] == 'caf\N{REPLACEMENT CHARACTER}, "0"'
    answers = open_vision_run(tmp_path / "run").predict(images_below(root))
    assert len(answers) == 10
    answers.to_csv(tmp_path / "answers.csv")


def test_images_of_one_color(tmp_path):
    """Constants: nothing to standardize by, and nothing to tell apart."""
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(10):
            Image.new("RGB", (9, 9), (7, 7, 7)).save(tmp_path / "photos" / name / f"{number}.png")
    run = fit_folder(tmp_path / "photos", **QUICK)
    assert run.evaluation.score("accuracy").model == pytest.approx(0.5)
    assert np.isfinite(run.predictions["doubt"]).all()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: text.replace('"threshold"', '"thresh"', 1), "images.json is damaged"),
        (lambda text: text.replace('"neighbor": 1', '"neighbor": 1000'), "images.json is damaged"),
        (lambda text: text.replace('"channels": 1', '"channels": 2'), "images.json is damaged"),
        (lambda text: text[:100], "not readable JSON"),
    ],
)
def test_a_damaged_run_is_refused(change, sentence, run, tmp_path):
    shutil.copytree(run.folder, tmp_path / "run")
    path = tmp_path / "run" / IMAGES
    path.write_text(change(path.read_text()))
    with pytest.raises(StorageError, match=sentence):
        open_vision_run(tmp_path / "run")
    with pytest.raises(StorageError, match="holds no run of images"):
        open_vision_run(tmp_path)
    assert isinstance(credo.load(run.folder), type(run.posterior))
