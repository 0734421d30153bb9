"""Known and unknown images: the quick sizes of four experiments, and how their rows are measured and stored."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch
from sklearn.model_selection import train_test_split

import credo
from credo import metrics
from credo.data.splits import scikit_split
from credo.experiments import registry
from credo.experiments.base import Progress, Size, Verdict
from credo.experiments.doubt import FILTERED, DoubtResult, DoubtRow, predicted, train
from credo.experiments.doubt_tables import reasons, tables
from credo.experiments.mnist_ood import problem as mnist_ood
from credo.experiments.novel_class import problem as novel
from credo.experiments.rows import results, stored
from credo.experiments.runs import Run, perform
from credo.experiments.shift import problem as shift
from credo.experiments.shift.measure import ACCURACY, ShiftResult

NAMES = ("novel-class", "mnist-ood", "shift", "fashion")


def none(row: object) -> NoReturn:
    raise AssertionError("no row should be trained")


@pytest.fixture(scope="module", params=NAMES)
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Run, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, perform(registry.load(request.param), Size.QUICK, folder, 0, Progress()), folder


def test_quick_runs_pass_their_claims(done: tuple[str, Run, Path]) -> None:
    _, run, _ = done
    verdicts = {j.claim.id: j.verdict for j in run.judged}
    assert all(
        verdict is (Verdict.AGREES if name.startswith("digits-") else Verdict.NOT_MEASURED)
        for name, verdict in verdicts.items()
    ), verdicts
    assert sum(name.startswith("digits-") for name in verdicts) >= 2


def test_figures_are_drawn_and_every_claim_has_a_reason(done: tuple[str, Run, Path]) -> None:
    _, run, folder = done
    assert run.figures
    assert all((folder / figure.path).read_bytes().startswith(b"\x89PNG") for figure in run.figures)
    assert all(j.reason == "part of the full size" for j in run.judged if j.verdict is Verdict.NOT_MEASURED)


def test_rows_are_read_the_second_time(done: tuple[str, Run, Path]) -> None:
    name, run, folder = done
    problems = {
        "novel-class": (novel, DoubtResult),
        "mnist-ood": (mnist_ood, DoubtResult),
        "shift": (shift, ShiftResult),
    }
    if name not in problems:
        return
    problem, kind = problems[name]
    again = results(problem.quick(), kind, folder, 0, none)  # type: ignore[type-var]
    assert list(again) == [row.name for row in problem.quick()]
    if kind is DoubtResult:
        assert [table.rows for table in tables(again)] == [table.rows for table in run.tables]


@pytest.fixture(scope="module")
def row() -> DoubtRow:
    return DoubtRow("short", novel._small, credo.Ensemble(novel.plain(1, 128), 2))


def test_a_row_s_numbers(row: DoubtRow, tmp_path: Path) -> None:
    """They are those of the posterior that the same fit gives."""
    data = novel.digits(1)
    data = replace(data, x=data.x[:256], y=data.y[:256])
    result = train(row, data, tmp_path, 3, Progress(), "cpu")
    model = credo.Model(row.net(), credo.likelihoods.Categorical(), row.prior)
    posterior = credo.fit(model, (data.x, data.y), row.method, seed=3, progress=False)
    x, y = data.test
    prediction = posterior.predict(x)
    assert result.accuracy == pytest.approx(metrics.accuracy(prediction, y))
    assert result.log_likelihood == pytest.approx(metrics.log_likelihood(prediction, y))
    torch.testing.assert_close(predicted(posterior, x, None).probs, prediction.probs)
    nines = posterior.predict(data.unknown["nine"])
    area = metrics.auroc(prediction.entropy, nines.entropy)
    assert result.detection["nine"]["entropy"][0] == pytest.approx(area, abs=1e-3)  # ties by float32
    assert len(result.members) == 2
    assert result.kept[-1] == pytest.approx(result.accuracy)
    assert result.filtered["entropy"][-1] == pytest.approx(result.accuracy * len(y) / (len(y) + len(nines)))
    assert len(result.kept) == FILTERED
    assert json.loads(json.dumps(result.probabilities)) == result.probabilities
    assert (result.epochs, result.device, result.finished) == (1, "cpu", True)


def test_a_training_that_was_cut_short_goes_on(tmp_path: Path) -> None:
    row, data = DoubtRow("short", novel._small, novel.plain(4, 128)), novel.digits(1)
    data = replace(data, x=data.x[:256], y=data.y[:256])
    seen: list[float] = []

    def cut(text: str, share: float) -> None:
        seen.append(share)
        if not tmp_path.joinpath("b", "done").exists() and share >= 0.5:
            raise KeyboardInterrupt

    whole = train(row, data, tmp_path / "a", 3, Progress(), "cpu")
    with pytest.raises(KeyboardInterrupt):
        train(row, data, tmp_path / "b", 3, Progress(cut), "cpu")
    (tmp_path / "b" / "done").touch()
    seen.clear()
    resumed = train(row, data, tmp_path / "b", 3, Progress(cut), "cpu")
    assert min(seen) >= 0.5  # nothing was trained twice
    assert replace(resumed, seconds=whole.seconds, curve=whole.curve) == whole
    assert not list((tmp_path / "b" / "training").iterdir())


def test_rows_are_kept_for_their_very_settings(row: DoubtRow, tmp_path: Path) -> None:
    data = novel.digits(1)
    data = replace(data, x=data.x[:64], y=data.y[:64])
    results([row], DoubtResult, tmp_path, 0, lambda each: train(each, data, tmp_path, 0, Progress(), "cpu"))
    assert stored(row, DoubtResult, tmp_path, 0) is not None
    others = {
        "method": novel.plain(2, 128),
        "prior": credo.priors.Normal(2.0),
        "net": lambda: credo.nets.CNN(1, 9, 8, dropout=0.1),
        "draws": 7,
    }
    for name, value in others.items():
        assert stored(replace(row, **{name: value}), DoubtResult, tmp_path, 0) is None, name  # type: ignore[arg-type]
    assert stored(row, DoubtResult, tmp_path, 1) is None


def test_the_lecture_s_networks_and_split() -> None:
    weights = {row.name: sum(p.numel() for p in row.net().parameters()) for row in novel.full()}
    assert set(weights.values()) == {117_805}
    methods = {row.name: row.method for row in novel.full()}
    assert isinstance(methods["vi"], credo.BayesByBackprop)
    assert isinstance(methods["mc-dropout"], credo.MCDropout)
    assert (methods["vi"].epochs, methods["mc-dropout"].epochs, methods["mc-dropout"].rate) == (700, 400, 0.3)
    train_rows, held_out = scikit_split(45_000, novel.VALIDATION, novel.STATE)
    assert (len(train_rows), len(held_out)) == (27_000, 18_000)
    expected = train_test_split(np.arange(45_000), test_size=0.4, random_state=22)
    assert np.array_equal(train_rows, expected[0])
    known, y = novel.without(torch.arange(10), novel.HORSE)
    assert known.tolist() == [k != 7 for k in range(10)]
    assert y[known].tolist() == list(range(9))


def test_the_unknown_is_nowhere_in_training() -> None:
    data = novel.digits(0)
    assert sorted(set(data.y.tolist())) == list(range(9))
    assert len(data.unknown["nine"]) == 180
    other = mnist_ood.small(0)
    assert int(other.y.max()) == 7
    assert set(other.unknown) == {"eight", "nine"}


def test_reasons_name_the_row_that_is_missing() -> None:
    missing = {"plain": "no GPU", "vi": "not trained", "digits-plain": "quick"}
    found = reasons(["plain", "vi-over-plain", "alarm", "digits-plain", "there"], {"there": 1.0}, missing)
    assert found == {"plain": "no GPU", "vi-over-plain": "no GPU", "alarm": "no GPU", "digits-plain": "quick"}


def test_what_gets_worse_is_read_worse(done: tuple[str, Run, Path]) -> None:
    name, _, folder = done
    if name != "shift":
        return
    each = results(shift.quick(), ShiftResult, folder, 0, none)["digits-ensemble"]
    accuracy = each.by_severity(ACCURACY)
    assert accuracy[0] == each.clean[ACCURACY]
    assert accuracy[0] > accuracy[3] > accuracy[5]
