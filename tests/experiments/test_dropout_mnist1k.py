"""Dropout on a thousand images: the quick size, the settings of the tutorial, and which images are which."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import credo
from credo.experiments import registry
from credo.experiments.base import Progress, Size, Verdict
from credo.experiments.dropout_mnist1k.log import LogLine
from credo.experiments.dropout_mnist1k.measure import train
from credo.experiments.dropout_mnist1k.problem import (
    BASE,
    CONCRETE,
    MC,
    VARIATIONAL,
    digits,
    logged,
    more_data,
    quick,
    rotated,
    rows,
    synthetic,
)
from credo.experiments.runs import Run, perform


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    folder = tmp_path_factory.mktemp("dropout")
    return perform(registry.load("dropout-mnist1k"), Size.QUICK, folder, 0, Progress()), folder


def test_quick_run_passes_its_claims(done: tuple[Run, Path]) -> None:
    verdicts = {j.claim.id: j.verdict for j in done[0].judged if j.verdict is not Verdict.NOT_MEASURED}
    ids = ("mc-dropout/sampled", "concrete-dropout/sampled", "more-data", "doubt")
    assert verdicts == {f"digits-{name}": Verdict.AGREES for name in ids}


def test_figures_are_drawn_and_every_row_has_its_line(done: tuple[Run, Path]) -> None:
    run, folder = done
    assert [f.path for f in run.figures] == ["accuracy.png", "keeps.png", "real.png", "synthetic.png", "methods.png"]
    assert all((folder / f.path).stat().st_size > 10_000 for f in run.figures)
    assert len(run.tables[0].rows) == 5
    assert {row[0] for row in run.tables[1].rows} == {"500 images", "1,200 images"}


def test_the_log_is_read_halfway_through_an_epoch() -> None:
    data, row = digits(20), replace(next(row for row in quick() if row.name == MC), members=1)
    assert LogLine(0.1, 0.4).halfway(LogLine(0.3, 0.8)) == LogLine(pytest.approx(0.2), pytest.approx(0.6))
    posterior = train(row, data, 0, Progress()).posterior
    line = LogLine.of(posterior, data, 1)
    weights = [w for name, w in posterior.members().params.items() if name.endswith("weight")]
    assert line.decay == pytest.approx(1e-4 * sum(float(w.double().square().sum()) for w in weights) / 2)
    assert 0.5 < line.accuracy <= float((posterior.at_mean().predict(data.x).label == data.y).double().mean()) + 0.02


def test_without_the_images_nothing_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDO_DATA", raising=False)
    run = perform(registry.load("dropout-mnist1k"), Size.FULL, tmp_path, 0, Progress())
    assert {j.verdict for j in run.judged} == {Verdict.NOT_MEASURED}
    assert "CREDO_DATA" in run.judged[0].reason


def test_settings_are_the_tutorials() -> None:
    table = {row.name: row for row in rows()}
    assert list(table) == [BASE, MC, CONCRETE, VARIATIONAL]
    assert all((row.method.epochs, row.method.batch_size, row.hidden) == (200, 100, 500) for row in table.values())  # type: ignore[attr-defined]
    # 1e-4 / 2 |w|^2 per example is l^2 / (2 N) |w|^2 for the plain network, l^2 / (2 N keep) |w|^2 with dropout
    assert table[BASE].prior == credo.priors.Normal((1e-4 * 1000) ** -0.5)
    method = table[MC].method
    assert isinstance(method, credo.MCDropout)
    assert method.length_scale == pytest.approx((1e-4 * 1000 * 0.3) ** 0.5)
    assert method.rate == 0.7
    log = logged().method
    assert isinstance(log, credo.MCDropout)
    assert (log.rate, log.epochs) == (0.5, 10)
    assert log.length_scale == pytest.approx((1e-4 * 1000 * 0.5) ** 0.5)
    assert more_data(table[CONCRETE]).per_class == 1000


def test_images_to_test_are_not_learned_from() -> None:
    few, many = digits(50), digits(120)
    assert (
        torch.equal(few.x_test[:50], many.x_test[:50]) is False
    )  # the first fifty, then the first hundred, come before
    for data in (few, many):
        assert torch.equal(data.y.bincount()[:1], torch.tensor([len(data.y) // 10]))
        same = (data.x.flatten(1)[:, None] == data.x_test.flatten(1)).all(2)
        assert not bool(same.any())


def test_synthetic_images() -> None:
    data = digits(20)
    odd = synthetic(data, 0)
    assert len(odd) == 4
    assert all(o.image.shape == (8, 8) and float(o.image.min()) >= 0.0 and float(o.image.max()) <= 1.0 for o in odd)
    image = data.x_test[0]
    torch.testing.assert_close(rotated(image, 0.0), image)
    torch.testing.assert_close(rotated(rotated(image, 90.0), -90.0), image, rtol=0, atol=1e-5)  # bilinear, in float32
    assert torch.equal(rotated(image, 90.0).round(decimals=4), image.rot90(-1).round(decimals=4)) or torch.equal(
        rotated(image, 90.0).round(decimals=4), image.rot90(1).round(decimals=4)
    )


def test_a_training_that_was_cut_short_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row, data = next(row for row in quick() if row.name == MC), digits(20)
    whole = train(row, data, 0, Progress())

    pressed: list[float] = []

    def interrupt(text: str, share: float | None) -> None:
        if share is not None and share > 0.5 and not pressed:
            pressed.append(share)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("credo.loop.run.REPORT_SECONDS", 0.0)  # a report for every step
    with pytest.raises(KeyboardInterrupt), pytest.warns(credo.CredoWarning, match="interrupted"):
        train(row, data, 0, Progress(interrupt), tmp_path)
    assert any((tmp_path / MC).iterdir())
    shares: list[float] = []
    resumed = train(row, data, 0, Progress(lambda text, share: shares.append(share or 0.0)), tmp_path)
    assert min(shares) > 0.4
    assert (resumed.naive, resumed.sampled) == (whole.naive, whole.sampled)
