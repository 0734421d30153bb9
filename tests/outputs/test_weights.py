"""Weights of examples whose targets have positions, some of them masked: a position weighs as much as its example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import credo
from credo import Stream, likelihoods, metrics
from credo.predictive import predictive

N, K, T = 12, 3, 5
X = Stream(1).normal(N, 4, dtype=torch.float64)
LABELS = torch.randint(0, K, (N, T), generator=Stream(2).generator())
LABELS[torch.rand(N, T, generator=Stream(3).generator()) < 0.3] = -100
LABELS[0] = -100  # an example without any observed position
NUMBERS = Stream(4).normal(N, T, dtype=torch.float64).masked_fill(LABELS == -100, torch.nan)
WEIGHTS = torch.randint(0, 4, (N,), generator=Stream(5).generator()).double()
TWICE = torch.repeat_interleave(torch.arange(N), WEIGHTS.long())
OUTPUTS = Stream(6).normal(3, N, K, T, dtype=torch.float64)


def of_classes(rows: torch.Tensor) -> tuple[Any, Any]:
    found = likelihoods.at_positions(likelihoods.Categorical(), axes=1, class_axis=1)
    return predictive(found, OUTPUTS[:, rows], {}, torch.zeros(3)), LABELS[rows]


def of_numbers(rows: torch.Tensor) -> tuple[Any, Any]:
    found = likelihoods.at_positions(likelihoods.Gaussian(0.5), axes=1, class_axis=1)
    return predictive(found, OUTPUTS[:, rows, :1], {}, torch.zeros(3)), NUMBERS[rows].unsqueeze(1)


METRICS: dict[str, tuple[Callable[..., Any], Any]] = {
    "accuracy": (metrics.accuracy, of_classes),
    "brier": (metrics.brier, of_classes),
    "log likelihood": (metrics.log_likelihood, of_classes),
    "calibration error": (metrics.expected_calibration_error, of_classes),
    "risk": (lambda *a, **k: float(metrics.risk_coverage(*a, **k).risk[-1]), of_classes),
    "rmse": (metrics.rmse, of_numbers),
    "mae": (metrics.mae, of_numbers),
    "crps": (metrics.crps, of_numbers),
    "coverage": (metrics.coverage, of_numbers),
    "sharpness": (lambda p, _, **k: metrics.sharpness(p, **k), of_numbers),
    "coverage curve": (lambda *a, **k: metrics.coverage_curve(*a, **k).error, of_numbers),
}


@pytest.mark.parametrize(("metric", "of"), METRICS.values(), ids=METRICS.keys())
def test_metrics_of_positions_by_weight_are_those_of_repeated_examples(metric: Callable[..., Any], of: Any) -> None:
    every = torch.arange(N)
    repeated = metric(*of(TWICE))
    assert metric(*of(every), weights=WEIGHTS) == pytest.approx(repeated, rel=1e-9)
    if metric is not METRICS["sharpness"][0]:  # of equal draws all intervals are nearly as wide
        assert abs(metric(*of(every)) - repeated) > 1e-6, "the twin without weights"
    with pytest.raises(ValueError, match=r"weights has shape \(11,\), and there are 12 examples"):
        metric(*of(every), weights=WEIGHTS[1:])


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, K * T)
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).view(-1, K, T)


def state(posterior: credo.Posterior) -> torch.Tensor:
    return torch.cat([t.double().flatten() for t in posterior.tensors().values()])


@pytest.mark.filterwarnings("ignore::credo.CredoWarning")
@pytest.mark.parametrize(
    "method",
    [
        credo.MAP(epochs=20, batch_size=None),
        credo.DeepEnsemble(members=2, epochs=20, batch_size=None),
        credo.SGLD(epochs=10, batch_size=None, draws=3),
        credo.HMC(draws=3, warmup=3, chains=2),
    ],
    ids=["map", "ensemble", "sgld", "hmc"],
)
def test_a_weighted_example_is_one_that_comes_twice_with_all_its_positions(method: credo.methods.Method) -> None:
    with Stream(9).borrowed_global():
        model = credo.Model(Net(), class_axis=1)
    weighted = credo.fit(model, (X, LABELS), method, weights=WEIGHTS)
    repeated = credo.fit(model, (X[TWICE], LABELS[TWICE]), method)
    # sums in another order
    torch.testing.assert_close(state(weighted), state(repeated), rtol=1e-6, atol=1e-8)
    assert weighted.record.size == len(TWICE), "examples count, and never their observed positions"
    assert not torch.allclose(state(credo.fit(model, (X, LABELS), method)), state(repeated), rtol=1e-3), "the twin"


def test_masks_and_weights_cut_oddly_over_batches_are_the_whole_in_validation() -> None:
    with Stream(9).borrowed_global():
        model = credo.Model(Net(), class_axis=1)
    still = credo.MAP(epochs=1, learning_rate=1e-30)
    loader = DataLoader(TensorDataset(X, LABELS, WEIGHTS), batch_size=5)
    rows = [
        credo.fit(model, loader, still, weights=2, validation=held).history[-1]
        for held in ((X[TWICE], LABELS[TWICE]), (X, LABELS, WEIGHTS), loader)
    ]
    for name in ("validation_log_likelihood", "validation_accuracy"):
        assert [row[name] for row in rows] == pytest.approx([rows[0][name]] * 3, rel=1e-9)
