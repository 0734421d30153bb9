"""The reproduction: the quick size, the networks' sizes, and results that are kept for these settings alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from credo.experiments import registry
from credo.experiments.base import Progress, Size, Verdict
from credo.experiments.rows import stored
from credo.experiments.runs import perform
from credo.experiments.sparse_lenet.measure import SparseResult, tables
from credo.experiments.sparse_lenet.problem import full, quick


def test_quick_run_passes_its_claims_and_is_kept(tmp_path: Path) -> None:
    run = perform(registry.load("sparse-lenet"), Size.QUICK, tmp_path, 0, Progress())
    verdicts = {j.claim.id: j.verdict for j in run.judged if j.verdict is not Verdict.NOT_MEASURED}
    expected = [f"{row.name}/{what}" for row in quick() for what in ("error", "compression")]
    assert verdicts == dict.fromkeys(expected, Verdict.AGREES)
    assert [figure.path for figure in run.figures] == ["noise.png", "thresholds.png", "curves.png"]
    row = quick()[0]
    assert stored(row, SparseResult, tmp_path, 0) is not None
    assert stored(row, SparseResult, tmp_path, 1) is None
    assert stored(replace(row, method=full()[0].method), SparseResult, tmp_path, 0) is None


def test_the_networks_are_the_papers() -> None:
    weights = [sum(p.numel() for p in row.net().parameters() if p.ndim > 1) for row in full()]
    assert weights == [266_200, 430_500] * 2
    assert {claim.id.split("/")[0] for claim in registry.load("sparse-lenet").card.claims} == {
        row.name for row in (*full(), *quick())
    }


def test_full_size_without_a_gpu_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    run = perform(registry.load("sparse-lenet"), Size.FULL, tmp_path, 0, Progress())
    assert all(judged.verdict is Verdict.NOT_MEASURED for judged in run.judged)
    assert "no GPU" in run.judged[0].reason
    assert tables({}) == ()
