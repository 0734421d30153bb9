"""The line experiment: its claims hold, and would not hold for a wrong answer."""

from __future__ import annotations

import pytest
import torch

from credo.core.rng import Stream
from credo.experiments import registry
from credo.experiments.base import Outcome, Progress, Size, Verdict, judge
from credo.experiments.line import measure
from credo.experiments.line.problem import NOISE, SHIFT, X, Y, regression

EXPERIMENT = registry.load("line")
SHIFTED = regression(X + SHIFT, Y)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("line")
    outcome = EXPERIMENT.run(Size.QUICK, folder, 0, Progress())
    assert all((folder / figure.path).stat().st_size > 10_000 for figure in outcome.figures)
    return outcome


def refuted(outcome: Outcome, **instead: float) -> set[str]:
    changed = Outcome({**outcome.measured, **instead})
    return {entry.claim.id for entry in judge(EXPERIMENT.card.claims, changed) if entry.verdict is Verdict.DIFFERS}


def test_every_claim_agrees(outcome: Outcome) -> None:
    assert refuted(outcome) == set()
    assert {entry.verdict for entry in judge(EXPERIMENT.card.claims, outcome)} == {Verdict.AGREES}


def test_the_data_are_those_of_the_notebook() -> None:
    noise = torch.tensor([-0.41675785, -0.05626683, -2.1361961, 1.64027081], dtype=torch.float64)
    torch.testing.assert_close(Y, 2 * X - 1 + NOISE * noise, rtol=0, atol=1e-7)  # eight digits are printed


def test_marginal_variances_are_found_out(outcome: Outcome) -> None:
    ratios = SHIFTED.posterior.scale / SHIFTED.mean_field.scale
    wrong = refuted(
        outcome,
        variational_slope_ratio=float(ratios[0]),
        variational_intercept_ratio=float(ratios[1]),
        variational_marginal_ratio=1.0,
    )
    assert wrong == {"variational_slope_ratio", "variational_intercept_ratio", "variational_marginal_ratio"}


def test_a_weight_lost_in_the_kl_is_found_out(outcome: Outcome) -> None:
    """A KL divergence divided by the number of tensors, here two: an error of the alternatives."""
    prior, both = SHIFTED.prior.precision.diagonal(), SHIFTED.posterior.precision.diagonal()
    # q minimizes E[-log p(y | w)] + KL / 2, in which the entropy of q has the weight 1/2 too
    wrong_scale = (0.5 / (both - prior + 0.5 * prior)).sqrt()
    ratio = float((wrong_scale / SHIFTED.mean_field.scale)[0])
    assert refuted(outcome, variational_slope_ratio=ratio) == {"variational_slope_ratio"}


def test_maximum_likelihood_in_place_of_the_mean_is_found_out(outcome: Outcome) -> None:
    exact = regression(X, Y)
    error = float(((exact.maximum_likelihood - exact.posterior.mean) / exact.posterior.scale).abs().max())
    assert refuted(outcome, map_error=error) == {"map_error"}


def test_a_prediction_from_one_fit_is_found_out(outcome: Outcome) -> None:
    best, _ = measure.compare(50, Stream(1))
    wrong = refuted(outcome, wider_away=1.0, averaging_gain=0.0, averaging_coverage=best.coverage)
    assert wrong == {"wider_away", "averaging_gain", "averaging_coverage"}


def test_scores_agree_with_simulated_targets() -> None:
    """Expectations in closed form against the average over drawn targets, within four standard errors (1 in 16,000)."""
    truth, mean, stddev = torch.tensor(1.0), torch.tensor([[2.5]]), torch.tensor([[4.0]])
    scores = measure._scores(truth.double(), mean.double().expand(2, 1), stddev.double().expand(2, 1))
    y = 1.0 + NOISE * Stream(0).normal(40_000, dtype=torch.float64)
    logs = torch.distributions.Normal(2.5, 4.0).log_prob(y)
    inside = ((y - 2.5).abs() < 1.959964 * 4.0).double()
    for value, drawn in ((scores.log_score, logs), (scores.coverage, inside)):
        assert abs(value - float(drawn.mean())) < 4 * float(drawn.std()) / 200
