"""From a file of images to a run with a report."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

from credo.cli.main import app
from credo.cli.options import PIXEL_LIKELIHOODS
from credo.core.storage import StorageError
from credo.data.sets import load
from credo.reports.autoencoder_figures import displayable, mosaic
from credo.vision import AutoencoderRun, fit_autoencoder, open_autoencoder_run
from credo.vision.autoencoder import LIKELIHOODS
from credo.vision.autoencoder_evaluation import _ended, _generalizes, _reconstructs, _uses_its_dimensions


def digits(folder: Path, count: int = 300) -> Path:
    """Scikit-learn's digits as bytes."""
    data = load("digits")
    x = (np.asarray(data.x)[:count].reshape(-1, 8, 8) * 15).astype(np.uint8)
    np.savez(folder / "digits.npz", x=x, y=np.asarray(data.y)[:count])
    return folder / "digits.npz"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("autoencoder")


@pytest.fixture(scope="module")
def run(folder: Path) -> AutoencoderRun:
    return fit_autoencoder(digits(folder), out=folder / "run", latent=2, epochs=20)


def credo(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_the_numbers_are_those_of_the_autoencoder(run: AutoencoderRun) -> None:
    found = run.evaluation
    assert (found.trained, found.held_out, found.shape) == (270, 30, [8, 8])
    assert found.elbo == pytest.approx(found.reconstruction - found.kl, rel=1e-4)
    assert found.log_prob > found.elbo
    assert sum(found.kl_per_dimension) == pytest.approx(found.kl, rel=0.01)
    assert found.error < found.error_of_mean
    assert 0.0 < found.explained < 1.0


def test_the_page_is_whole_and_loads_nothing(run: AutoencoderRun) -> None:
    assert run.report is not None
    page = run.report.read_text(encoding="utf-8")
    assert page.count("<figure>") == page.count("</figure>") == 8
    assert page.count("data:image/png;base64,") >= 5, "reconstructions, samples, the way between, the map"
    assert not re.search(r'(src|href)="https?:', page)
    assert "<script" not in page
    for check in run.evaluation.checks:
        assert check.question in page


def test_a_run_can_be_opened(run: AutoencoderRun) -> None:
    assert run.folder is not None
    again = open_autoencoder_run(run.folder)
    assert again.evaluation == run.evaluation
    assert torch.equal(again.fitted.sample(3), run.fitted.sample(3))
    with pytest.raises(StorageError, match="holds no autoencoder"):
        open_autoencoder_run(run.folder.parent)


def test_an_interrupted_training_goes_on_to_the_same_numbers(
    run: AutoencoderRun, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from credo.loop.interrupts import Interrupts

    source, out, calls = folder / "digits.npz", folder / "again", 0

    def asked(self: Interrupts) -> bool:
        nonlocal calls
        calls += 1
        return calls > 25

    with monkeypatch.context() as patch:
        patch.setattr(Interrupts, "requested", property(asked, lambda self, value: None), raising=False)
        with pytest.warns(UserWarning, match="interrupted"), pytest.raises(KeyboardInterrupt, match="--resume"):
            fit_autoencoder(source, out=out, latent=2, epochs=20)
    assert not out.exists()
    with pytest.raises(StorageError, match="holds an interrupted training"):
        fit_autoencoder(source, out=out, latent=2, epochs=20)
    with pytest.raises(StorageError, match="started with --epochs 20, and now it is 30"):
        fit_autoencoder(source, out=out, latent=2, epochs=30, resume=True)
    resumed = fit_autoencoder(source, out=out, latent=2, epochs=20, resume=True)
    same = replace(run.evaluation, seconds=0.0, created="")
    assert replace(resumed.evaluation, seconds=0.0, created="") == same
    assert not (folder / "again.training").exists()


def test_images_in_color_and_rows_that_are_none(tmp_path: Path) -> None:
    noise = torch.rand((40, 6, 6, 3), generator=torch.Generator().manual_seed(0)).numpy()
    np.savez(tmp_path / "color.npz", x=noise)
    color = fit_autoencoder(tmp_path / "color.npz", out=tmp_path / "color", latent=3, epochs=2)
    assert color.evaluation.shape == [6, 6, 3]
    np.savez(tmp_path / "rows.npz", x=noise.reshape(40, -1)[:, :7] * 10)
    rows = fit_autoencoder(tmp_path / "rows.npz", out=tmp_path / "rows", latent=1, epochs=2)
    assert rows.evaluation.likelihood == "SharedGaussian"
    assert rows.report is not None
    assert "What it makes of images" not in rows.report.read_text()


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "likelihood": ({"likelihood": "poison"}, "likelihood must be one of auto"),
    "support": ({"likelihood": "bernoulli"}, "x does not suit .*BinarizedBernoulli"),
    "latent": ({"latent": 0}, "latent must be a whole number"),
    "test": ({"test": 1.5}, "test must be a part"),
    "nothing to resume": ({"resume": True}, "no training to resume"),
}


@pytest.mark.parametrize(("options", "answer"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_answered_in_a_sentence(tmp_path: Path, options: dict[str, Any], answer: str) -> None:
    with pytest.raises(ValueError, match=answer):
        fit_autoencoder(digits(tmp_path, 30), out=tmp_path / "run", **options)
    again = fit_autoencoder(digits(tmp_path, 30), out=tmp_path / "run", latent=1, epochs=1)
    assert again.evaluation.trained == 27, "a mistake leaves nothing in the way"


def test_folders_that_are_taken(run: AutoencoderRun, folder: Path, tmp_path: Path) -> None:
    assert run.folder is not None
    with pytest.raises(StorageError, match="holds a run already"):
        fit_autoencoder(folder / "digits.npz", out=run.folder)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("x")
    with pytest.raises(StorageError, match="holds other files"):
        fit_autoencoder(folder / "digits.npz", out=tmp_path / "other", force=True)


def test_a_run_of_classes_is_replaced_only_when_asked_and_leaves_nothing_behind(tmp_path: Path) -> None:
    source, out = digits(tmp_path, 30), tmp_path / "run"
    out.mkdir()
    for name in ("images.json", "predictions.csv", "my notes.txt"):
        (out / name).write_text("{}")
    with pytest.raises(StorageError, match="holds a run already"):
        fit_autoencoder(source, out=out, latent=1, epochs=1)
    fit_autoencoder(source, out=out, latent=1, epochs=1, force=True)
    assert not {"images.json", "predictions.csv"} & {path.name for path in out.iterdir()}
    assert (out / "my notes.txt").exists()
    assert open_autoencoder_run(out).evaluation.trained == 27


def test_the_command(tmp_path: Path) -> None:
    done = credo("vae", digits(tmp_path, 60), "--latent", 2, "--epochs", 2, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert "60 images of 8 x 8" in done.output
    assert "Does it use its latent dimensions?" in done.output
    bad = credo("vae", tmp_path / "none.npz", "--out", tmp_path / "other")
    assert (bad.exit_code, "does not exist" in bad.stderr) == (2, True)
    json_answer = credo("vae", tmp_path / "digits.npz", "--epochs", 1, "--force", "--json", "-o", tmp_path / "run")
    assert json_answer.exit_code == 0
    assert json_answer.stdout.startswith("{")
    assert set(PIXEL_LIKELIHOODS) == set(LIKELIHOODS)


@pytest.mark.parametrize(
    ("change", "check", "rating"),
    [
        ({"error": 0.1, "error_of_mean": 0.3}, _reconstructs, "good"),
        ({"error": 0.25, "error_of_mean": 0.3}, _reconstructs, "fair"),
        ({"error": 0.4, "error_of_mean": 0.3}, _reconstructs, "poor"),
        ({"error": 0.1, "error_trained": 0.1}, _generalizes, "good"),
        ({"error": 0.2, "error_trained": 0.1}, _generalizes, "poor"),
        ({"active": [True, True]}, _uses_its_dimensions, "good"),
        ({"active": [True, False]}, _uses_its_dimensions, "fair"),
        ({"active": [False, False]}, _uses_its_dimensions, "poor"),
        ({"best_epoch": 3.0, "epochs": 20.0}, lambda e: _ended(e, [(1.0, 1.0), (5.0, 3.0), (2.0, 20.0)]), "fair"),
        ({"best_epoch": 20.0, "epochs": 20.0}, lambda e: _ended(e, [(0.0, 1.0), (9.0, 18.0), (10.0, 20.0)]), "fair"),
        ({"best_epoch": 20.0, "epochs": 20.0}, lambda e: _ended(e, [(0.0, 1.0), (10.0, 18.0), (10.1, 20.0)]), "good"),
        (
            {"best_epoch": 20.0, "epochs": 20.0},
            lambda e: _ended(e, [(-500.0, 1.0), (78.1, 10.0), (80.8, 18.0), (81.4, 20.0)]),
            "fair",  # a steady rise after a steep one
        ),
    ],
)
def test_the_answers(run: AutoencoderRun, change: dict[str, Any], check: Callable[..., Any], rating: str) -> None:
    assert check(replace(run.evaluation, **change)).rating == rating


def test_a_mosaic_has_every_image_in_its_place() -> None:
    images = np.stack([np.full((2, 3), value) for value in (0.0, 0.5, 1.0)])
    found = mosaic(images, 2)
    assert found.shape == (5, 7, 4)
    assert np.allclose(found[0, 4:, :3], 0.5)
    assert np.allclose(found[3:, :3, :3], 0.0), "dark is a large value"
    assert np.allclose(found[2], 0.0), "transparent between rows"
    assert displayable(torch.zeros(3, 7)) is None
    stretched = displayable(torch.tensor([[[-2.0, 0.0], [0.0, 2.0]]]))
    assert stretched is not None
    assert (stretched.min(), stretched.max()) == (0.0, 1.0)
    assert displayable(torch.zeros(2, 3, 8, 9)).shape == (2, 8, 9, 3)  # type: ignore[union-attr]
    assert not math.isnan(float(displayable(torch.full((1, 4, 4), 7.0)).sum()))  # type: ignore[union-attr]
