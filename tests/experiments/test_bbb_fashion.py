"""Bayes by Backprop on Fashion-MNIST: the quick size, the settings, and the rows that were brought from a GPU."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from credo.experiments import registry
from credo.experiments.base import Progress, Size, Verdict
from credo.experiments.bbb_fashion.problem import quick, rows
from credo.experiments.bbb_mnist.problem import NOTEBOOK
from credo.experiments.classifiers import ClassifierResult
from credo.experiments.rows import FOLDER, stored
from credo.experiments.runs import perform

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "bbb-fashion"


def test_quick_run_passes_its_claims(tmp_path: Path) -> None:
    run = perform(registry.load("bbb-fashion"), Size.QUICK, tmp_path, 0, Progress())
    verdicts = {j.claim.id: j.verdict for j in run.judged if j.verdict is not Verdict.NOT_MEASURED}
    assert verdicts == dict.fromkeys([row.name for row in quick()], Verdict.AGREES)


def test_rows_and_claims_belong_together() -> None:
    assert {claim.id for claim in registry.load("bbb-fashion").card.claims} == {r.name for r in (*rows(), *quick())}
    assert [row.hidden for row in rows()] == [200, 400, 800] * 2
    assert all(row.method == NOTEBOOK for row in rows()[:3])


def test_full_size_from_the_results_that_were_brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert all(stored(row, ClassifierResult, RESULTS, 0) is not None for row in rows())
    shutil.copytree(RESULTS / FOLDER, tmp_path / FOLDER)
    run = perform(registry.load("bbb-fashion"), Size.FULL, tmp_path, 0, Progress())
    by_id = {j.claim.id: j for j in run.judged}
    assert all(by_id[f"better-{hidden}"].verdict is Verdict.AGREES for hidden in (200, 400, 800))
    assert by_id["notebook-800"].verdict is Verdict.DIFFERS
    assert next(row for row in run.tables[0].rows if row[0] == "notebook-800")[3] == "diverged"
    assert [figure.path for figure in run.figures] == ["errors.png"]
