"""The flag for rows unlike the training data: its false alarms are bounded, and it sees what it should."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from credo.likelihoods import Categorical, Gaussian
from credo.predictive import ClassPredictive, NumericPredictive, predictive
from credo.uncertainty.familiarity import Familiarity, disagreement

TABLES = 4000


def alarms(held_out: int, rate: float, threshold: str = "ours") -> int:
    """In how many of `TABLES` tables a new row of the same kind is flagged."""
    generator = torch.Generator().manual_seed(held_out)
    values = torch.randn(TABLES, held_out + 1, generator=generator, dtype=torch.float64).exp()
    if threshold == "plain quantile":
        limits = values[:, 1:].quantile(1.0 - rate, dim=1)
    else:
        limits = torch.tensor([Familiarity.of(row[1:], rate).threshold for row in values], dtype=torch.float64)
    return int((values[:, 0] > limits).sum())


@pytest.mark.parametrize(("held_out", "rate"), [(20, 0.01), (88, 0.01), (199, 0.05), (500, 0.01)])
def test_false_alarms_are_within_the_stated_bound(held_out: int, rate: float) -> None:
    bound = Familiarity.of(torch.ones(held_out), rate).false_alarms
    assert bound == max(rate, 1.0 / (held_out + 1))
    assert alarms(held_out, rate) <= stats.binom.ppf(1.0 - 1e-6, TABLES, bound)  # one failure in a million


def test_the_bound_is_not_idle() -> None:
    """With 199 rows and a rate of 0.05 the rate is met exactly; far fewer alarms would be a wrong threshold too."""
    assert alarms(199, 0.05) >= stats.binom.ppf(1e-6, TABLES, 0.05)


def test_a_plain_quantile_would_not_do() -> None:
    """The twin: the empirical quantile of 20 rows at 0.95 is exceeded more often than once in twenty."""
    assert alarms(20, 0.05, "plain quantile") > stats.binom.ppf(1.0 - 1e-6, TABLES, 0.05)


def test_scores_are_in_units_of_the_threshold() -> None:
    found = Familiarity.of(torch.arange(1.0, 101.0))
    assert found.threshold == 100.0
    assert found.score(torch.tensor([50.0, 200.0])).tolist() == [0.5, 2.0]


def test_a_single_network_flags_nothing() -> None:
    found = Familiarity.of(torch.zeros(50))
    assert found.threshold is None
    assert all(map(math.isnan, found.score(torch.zeros(3)).tolist()))


def classes(logits: Tensor) -> ClassPredictive:
    found = predictive(Categorical(), logits, {}, torch.zeros(len(logits), dtype=torch.float64))
    assert isinstance(found, ClassPredictive)
    return found


def test_for_numbers_it_is_the_epistemic_standard_deviation() -> None:
    draws = torch.tensor([[[1.0]], [[3.0]]], dtype=torch.float64)
    found = predictive(Gaussian(0.1), draws, {}, torch.zeros(2, dtype=torch.float64))
    assert isinstance(found, NumericPredictive)
    assert disagreement(found).tolist() == [1.0]


def test_a_constant_on_all_logits_changes_nothing() -> None:
    logits = torch.randn(4, 6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    shifted = logits + torch.randn(4, 6, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.testing.assert_close(disagreement(classes(logits)), disagreement(classes(shifted)))


def test_it_grows_where_the_mutual_information_saturates_and_falls_back() -> None:
    """The twin: far away all draws are sure of the same class, and the mutual information says that all is well."""
    near = torch.tensor([[[2.0, 0.0]], [[4.0, 0.0]]], dtype=torch.float64)
    far = 20.0 * near
    assert disagreement(classes(far)) == pytest.approx(20.0 * disagreement(classes(near)))
    assert float(classes(far).mutual_information) < 0.01 * float(classes(near).mutual_information)
