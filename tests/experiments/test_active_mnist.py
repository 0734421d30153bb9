"""Labels needed on MNIST: the quick size, the settings of the paper, and a row that is broken off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from credo.decide import ActiveLearner
from credo.experiments import registry
from credo.experiments.active_mnist.measure import LabelResult, needed, numbers, train
from credo.experiments.active_mnist.problem import cnn, digits, full, quick, smaller
from credo.experiments.base import Progress, Size, Verdict
from credo.experiments.runs import Run, perform

SHORT = replace(quick()[2], name="short-0", most=30, samples=400)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    folder = tmp_path_factory.mktemp("active")
    return perform(registry.load("active-mnist"), Size.QUICK, folder, 0, Progress()), folder


def test_the_quick_size_agrees(done: tuple[Run, Path]) -> None:
    run, folder = done
    verdicts = {j.claim.id: j.verdict for j in run.judged if j.verdict is not Verdict.NOT_MEASURED}
    assert verdicts == dict.fromkeys(("digits-bald-random", "digits-batchbald-bald"), Verdict.AGREES)
    assert (folder / "curves.png").stat().st_size > 10_000
    assert len(run.tables[0].rows) == 3
    assert not (folder / "sessions" / quick()[0].name).exists()


def test_rows_that_are_there_are_not_computed_again(done: tuple[Run, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr("credo.experiments.active_mnist.train", never)
    again = perform(registry.load("active-mnist"), Size.QUICK, done[1], 0, Progress())
    assert [j.measured for j in again.judged] == [j.measured for j in done[0].judged]


def test_without_a_gpu_the_full_size_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    run = perform(registry.load("active-mnist"), Size.FULL, tmp_path, 0, Progress())
    reasons = {j.claim.id: j.reason for j in run.judged}
    assert "no GPU" in reasons["bald-10/90"]
    assert reasons["digits-bald-random"] == "part of the quick size"


def test_a_row_that_is_broken_off_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train(SHORT, 0, tmp_path / "whole", Progress(), "cpu")
    tell, calls = ActiveLearner.tell, []

    def second(self: ActiveLearner, *arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        tell(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ActiveLearner, "tell", second)
        with pytest.raises(KeyboardInterrupt):
            train(SHORT, 0, tmp_path / "cut", Progress(), "cpu")
    resumed = train(SHORT, 0, tmp_path / "cut", Progress(), "cpu")
    assert replace(resumed, seconds=0.0) == replace(whole, seconds=0.0)
    assert whole.labels == [20, 30]


def test_the_settings_are_the_papers() -> None:
    rows = {row.name: row for row in full()}
    assert len(rows) == 19
    assert {row.samples for row in rows.values()} == {24_576}
    assert (rows["bald-10-0"].batch, rows["bald-1-0"].batch, rows["batchbald-10-0"].draws) == (10, 1, 100)
    assert rows["repeated-bald-10-2"].repeats == 3
    assert all(row.candidates is None and row.tested == 10_000 for row in rows.values())
    assert rows["bald-10-0"].method(100).steps(2) == 2 * 246
    shapes = [tuple(p.shape) for p in cnn().parameters() if p.ndim > 1]
    assert shapes == [(32, 1, 5, 5), (64, 32, 5, 5), (128, 1024), (10, 128)]
    assert [row.name for row in smaller()][:2] == ["small-bald-10-0", "small-batchbald-10-0"]


def test_repeated_images_differ_by_noise_alone() -> None:
    pool = digits(3, 500, 0)
    part = len(pool.x) // 3
    apart = pool.x[:part] - pool.x[part : 2 * part]
    assert float(apart.std()) == pytest.approx(0.1 * 2**0.5, rel=0.02)  # noise of each copy, over 80,000 pixels
    assert torch.equal(pool.y[:part], pool.y[part : 2 * part])
    start = pool.start(0)
    assert torch.equal(pool.y[start].bincount(), torch.full((10,), 2))
    assert start != pool.start(1)


def result(name: str, *accuracy: float) -> LabelResult:
    return LabelResult(name, [20, 30, 40], list(accuracy), [0.0] * 3, 1.0, "cpu")


def test_labels_needed_are_a_median_over_repetitions() -> None:
    curves = [result("bald-10-0", 80, 91, 96), result("bald-10-1", 80, 85, 90), result("bald-10-2", 70, 80, 85)]
    assert needed(curves, 90) == 40
    assert needed(curves, 95) == float("inf")
    assert needed(curves[:1], 80) == 20
    others = [result("batchbald-10-0", 90, 90, 90), result("random-10-0", 80, 80, 83)]
    found = numbers({each.name: each for each in (*curves, *others)})
    assert found["bald-10/90"] == 40
    assert found["batchbald-random"] == pytest.approx(9.0)
    assert found["bald-random"] == pytest.approx(757 / 9 - 81)
