"""Model selection by the evidence, small."""

from __future__ import annotations

from pathlib import Path

import pytest

from credo.experiments import registry
from credo.experiments.base import Progress, Size, Verdict, verdict
from credo.experiments.runs import Run, perform


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    folder = tmp_path_factory.mktemp("evidence")
    return perform(registry.load("evidence"), Size.QUICK, folder, 0, Progress()), folder


def test_the_claims_hold(done: tuple[Run, Path]) -> None:
    assert {j.claim.id: j.verdict for j in done[0].judged} == dict.fromkeys(
        ("linear-gap", "linear-choice", "network-regret", "network-line", "annealing-gap"), Verdict.AGREES
    )


def test_a_choice_of_the_line_is_refuted(done: tuple[Run, Path]) -> None:
    networks = done[0].tables[1].rows
    best, line = max(row[2] for row in networks), networks[0][2]
    claim = next(j.claim for j in done[0].judged if j.claim.id == "network-regret")
    assert verdict(best - line, claim.low, claim.high) is Verdict.DIFFERS


def test_the_figure_is_there(done: tuple[Run, Path]) -> None:
    run, folder = done
    assert (folder / run.figures[0].path).read_bytes().startswith(b"\x89PNG")
