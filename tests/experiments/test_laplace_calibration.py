"""Calibration before and after Laplace's method, on digits: what holds, and what is shown to differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from credo.experiments import registry
from credo.experiments.base import Progress, Size, Verdict
from credo.experiments.laplace_calibration import problem
from credo.experiments.laplace_calibration.measure import ERROR, CalibrationResult, numbers
from credo.experiments.laplace_calibration.problem import AS_IT_IS, TREATMENTS
from credo.experiments.rows import results, stored
from credo.experiments.runs import Run, perform


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    folder = tmp_path_factory.mktemp("laplace-calibration")
    return perform(registry.load("laplace-calibration"), Size.QUICK, folder, 0, Progress()), folder


def test_held_out_images_choose_a_precision_that_calibrates_and_the_evidence_does_not(done: tuple[Run, Path]) -> None:
    """On digits that are learned by heart the published claim differs, and the run says so."""
    verdicts = {j.claim.id: j.verdict for j in done[0].judged}
    assert verdicts["digits-long/overconfident"] is Verdict.AGREES
    for number in ("error", "likelihood", "accuracy"):
        assert verdicts[f"digits-long/held-out-{number}"] is Verdict.AGREES, number
    for number in ("error", "likelihood"):
        assert verdicts[f"digits-long/{number}"] is Verdict.DIFFERS, number
        assert verdicts[f"digits-long/all-{number}"] is Verdict.DIFFERS, number
    assert not done[0].agrees


def test_what_was_not_measured_has_a_reason(done: tuple[Run, Path]) -> None:
    reasons = {j.claim.id: j.reason for j in done[0].judged if j.verdict is Verdict.NOT_MEASURED}
    assert "no WideResNet-16-4" in reasons.pop("cifar10-error")
    assert set(reasons.values()) == {"part of the full size"}
    assert all(name.startswith(("long/", "short/")) for name in reasons)


def test_the_figure_is_drawn_and_rows_are_read_the_second_time(done: tuple[Run, Path]) -> None:
    run, folder = done

    def none(row: object) -> NoReturn:
        raise AssertionError("no row should be trained")

    assert (folder / run.figures[0].path).read_bytes().startswith(b"\x89PNG")
    found = results(problem.quick(), CalibrationResult, folder, 0, none)
    assert list(found) == ["digits-short", "digits-long"]
    assert set(found["digits-long"].treatments) == {AS_IT_IS, *TREATMENTS, problem.TEMPERATURE}
    other = replace(problem.quick()[0], trained=replace(problem.quick()[0].trained, method=problem.trained(3)))
    assert stored(other, CalibrationResult, folder, 0) is None


def test_a_fall_is_counted_from_before_to_after(done: tuple[Run, Path]) -> None:
    """The twin, which takes the difference the other way round, has the other sign."""
    found = results(problem.quick(), CalibrationResult, done[1], 0, lambda row: pytest.fail("trained"))
    each = found["digits-long"].treatments
    fall = numbers(found)["digits-long/held-out-error"]
    assert fall == pytest.approx(each[AS_IT_IS][ERROR] - each["last layer, held out"][ERROR])
    assert fall != pytest.approx(-fall)
