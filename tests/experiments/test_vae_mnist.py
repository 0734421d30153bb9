"""The tutorial's autoencoder and three bounds, at the quick size, and the numbers that its claims are about."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from credo import generative, likelihoods
from credo.core.threads import one_thread
from credo.experiments.base import Outcome, Progress, Size, Verdict, judge
from credo.experiments.registry import load
from credo.experiments.vae_mnist import bounds
from credo.experiments.vae_mnist.bounds import BoundResult, numbers, spread_over
from credo.experiments.vae_mnist.measure import log_mass, unknown_numbers
from credo.experiments.vae_mnist.problem import long, quick, short, small_images
from credo.vision.neighbors import neighbor_map


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vae-mnist")


@pytest.fixture(scope="module")
def outcome(folder: Path) -> Outcome:
    return load("vae-mnist").run(Size.QUICK, folder, 0, Progress())


def test_more_draws_in_training_give_a_higher_log_p(outcome: Outcome) -> None:
    """The gate: the order of the three bounds, on images that none of them has seen."""
    judged = {entry.claim.id: entry for entry in judge(load("vae-mnist").card.claims, outcome)}
    assert judged["order-digits"].verdict is Verdict.AGREES
    assert {entry.verdict for entry in judged.values()} == {Verdict.AGREES, Verdict.NOT_MEASURED}


def test_every_figure_is_there(outcome: Outcome, folder: Path) -> None:
    names = {figure.path for figure in outcome.figures}
    wanted = {"reconstructions", "samples", "manifold", "latent", "between", "active", "bounds"}
    assert names == {f"{name}.png" for name in wanted}
    assert all((folder / name).stat().st_size > 5000 for name in names)


def test_a_second_run_reads_the_rows_of_the_first(
    outcome: Outcome, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_training(*_: object, **__: object) -> None:
        raise AssertionError("a stored row was trained again")

    monkeypatch.setattr(bounds, "fit", no_training)
    monkeypatch.setattr("credo.experiments.vae_mnist.draw_trained", lambda *_: ())
    again = load("vae-mnist").run(Size.QUICK, folder, 0, Progress())
    assert again.measured == outcome.measured
    with pytest.raises(AssertionError, match="trained again"):
        load("vae-mnist").run(Size.QUICK, folder, 1, Progress())


def test_a_training_that_was_cut_short_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, row = small_images(0), quick()[0]
    row = replace(row, method=replace(row.method, epochs=3), tested=20, samples=5)

    def stopped(*args: object, **around: object) -> generative.FittedVAE:
        with pytest.warns(UserWarning, match="stopped after"):
            return generative.fit(*args, **around, seconds=1e-9)  # type: ignore[arg-type]

    with one_thread():
        whole = bounds.train(row, data, tmp_path / "whole", 0, Progress(), "cpu")
        monkeypatch.setattr(bounds, "rmtree", lambda *_, **__: None)
        monkeypatch.setattr(bounds, "fit", stopped)
        bounds.train(row, data, tmp_path / "cut", 0, Progress(), "cpu")
        monkeypatch.setattr(bounds, "fit", generative.fit)
        resumed = bounds.train(row, data, tmp_path / "cut", 0, Progress(), "cpu")
    assert replace(resumed, seconds=0.0) == replace(whole, seconds=0.0)


def result(name: str, log_prob: float) -> BoundResult:
    return BoundResult(name, log_prob, 0.1, log_prob - 1.0, 3, [log_prob], 1, 5, 5, 10, 1.0, "cpu")


def test_the_order_is_refuted_by_a_row_that_is_out_of_it() -> None:
    rows = ("vae-short", "iwae-5-short", "iwae-50-short")
    right = {name: result(name, value) for name, value in zip(rows, (-90.0, -89.0, -88.5), strict=True)}
    assert numbers(right)["order-short"] == pytest.approx(0.5)
    wrong = {**right, "iwae-50-short": result("iwae-50-short", -89.2)}
    assert numbers(wrong)["order-short"] < 0
    assert "order-short" not in numbers({"vae-short": right["vae-short"]})


def test_the_mass_of_the_cross_entropy_in_closed_form() -> None:
    """The integral over one gray value is (2 p - 1) / logit(p): e^-sum of 16 of them."""
    decoder = nn.Linear(2, 16)
    nn.init.zeros_(decoder.weight)
    nn.init.constant_(decoder.bias, 3.0)
    vae = generative.VAE(2, likelihoods.GrayCrossEntropy(), hidden=(4,), decoder=decoder)
    method = generative.AutoEncodingBayes(epochs=1, learning_rate=1e-12)
    fitted = generative.fit(vae, torch.rand(8, 16, generator=torch.Generator().manual_seed(0)), method)
    p = 1.0 / (1.0 + math.exp(-3.0))
    expected = torch.full((8,), 16 * math.log((2 * p - 1) / 3.0), dtype=torch.float64)
    # outputs are float32
    torch.testing.assert_close(log_mass(fitted, torch.rand(8, 16)), expected, atol=1e-4, rtol=0)


def test_an_alarm_that_is_wrong_has_less_than_half_the_area() -> None:
    low, high = torch.linspace(0, 1, 50), torch.linspace(10, 11, 50)
    found = unknown_numbers(
        {"Fashion-MNIST": {"Fashion-MNIST": low, "MNIST": high}, "MNIST": {"Fashion-MNIST": low, "MNIST": high}}
    )
    assert found == {"unknown-digits": 0.0, "unknown-garments": 1.0}


def test_rows_differ_in_their_settings_and_sizes() -> None:
    settings = [str(row.settings(0)) for row in (*long(), *short(), *quick())]
    assert len(set(settings)) == 9
    assert spread_over(torch.arange(100), 3).tolist() == [0, 50, 99]


def test_a_map_of_neighbors_keeps_groups_together() -> None:
    groups = torch.arange(60) % 3
    points = torch.randn(60, 5, generator=torch.Generator().manual_seed(0)) + 20.0 * groups[:, None]
    found = neighbor_map(points)
    assert found is not None
    distances = torch.cdist(torch.as_tensor(found), torch.as_tensor(found)).fill_diagonal_(math.inf)
    assert torch.equal(groups[distances.argmin(1)], groups)
    assert neighbor_map(points[:5]) is None
