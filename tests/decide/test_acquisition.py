"""What a label tells: against sums over every joint label, and against determinants."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

import credo
from credo import likelihoods
from credo.decide import Acquisition, acquire, acquisition_scores, batch_bald, batch_information, information
from credo.decide.acquisition import JointLabels
from credo.predictive import ClassPredictive, predictive

LOGITS = 2.0 * credo.Stream(0).normal(6, 5, 3, dtype=torch.float64)
WEIGHTS = torch.tensor([0.3, 0.1, 0.2, 0.2, 0.1, 0.1], dtype=torch.float64)
POOL = predictive(likelihoods.Categorical(), LOGITS, {}, WEIGHTS.log())
assert isinstance(POOL, ClassPredictive)
PROBS = LOGITS.softmax(-1)


def by_enumeration(rows: tuple[int, ...]) -> float:
    """I(y_rows; w): a sum over all joint labels and all draws."""
    entropy = 0.0
    for labels in itertools.product(range(3), repeat=len(rows)):
        p = sum(
            float(WEIGHTS[s]) * math.prod(float(PROBS[s, n, k]) for n, k in zip(rows, labels, strict=True))
            for s in range(6)
        )
        entropy -= p * math.log(p)
    given = sum(float(WEIGHTS[s]) * -float((PROBS[s, n] * PROBS[s, n].log()).sum()) for s in range(6) for n in rows)
    return entropy - given


def test_bald_is_the_mutual_information() -> None:
    expected = torch.tensor([by_enumeration((n,)) for n in range(5)], dtype=torch.float64)
    torch.testing.assert_close(acquisition_scores(POOL, "bald"), expected)
    assert not torch.allclose(acquisition_scores(POOL, "entropy"), expected)


def greedy(count: int) -> list[int]:
    rows: tuple[int, ...] = ()
    for _ in range(count):
        rows = max(((*rows, n) for n in range(5) if n not in rows), key=by_enumeration)
    return list(rows)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_batchbald_is_greedy_on_the_joint_mutual_information(count: int) -> None:
    assert acquire(POOL, count, "batchbald").tolist() == greedy(count)


def test_joint_entropies_of_drawn_labels_are_right_on_average() -> None:
    """Of three inputs and each other one, by 200 times 50 draws, within four standard errors."""
    stream, found = credo.Stream(1), []
    for trial in range(200):
        joint = JointLabels.of_none(WEIGHTS)
        for step, row in enumerate((0, 1, 2)):
            joint = joint.extended(PROBS[:, row], 4, stream.child(trial, step))
        assert not joint.listed
        found.append(joint.entropy_with(PROBS))
    each = torch.stack(found)
    exact_joint = JointLabels.of_none(WEIGHTS)
    for row in (0, 1, 2):
        exact_joint = exact_joint.extended(PROBS[:, row], 100, stream)
    exact = exact_joint.entropy_with(PROBS)
    error = each.std(0) / math.sqrt(200)
    assert exact_joint.listed
    assert ((each.mean(0) - exact).abs() < 4 * error).all()
    assert ((each.mean(0) - 0.9 * exact).abs() > 4 * error).any()


def test_large_pools_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = predictive(
        likelihoods.Categorical(), credo.Stream(2).normal(7, 90, 4, dtype=torch.float64), {}, torch.zeros(7)
    )
    whole = acquire(pool, 4, "batchbald")
    monkeypatch.setattr("credo.decide.acquisition.ENTRIES", 1)
    assert torch.equal(acquire(pool, 4, "batchbald"), whole)


def test_two_copies_of_an_input_are_not_asked_for_together() -> None:
    """BALD takes both, the reason for BatchBALD."""
    logits = torch.zeros(4, 3, 2, dtype=torch.float64)
    signs = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)
    logits[:, 0, 0] = logits[:, 1, 0] = 6 * signs[:, 0]  # two copies
    logits[:, 2, 0] = 3 * signs[:, 1]  # tells less, but something else
    pool = predictive(likelihoods.Categorical(), logits, {}, torch.zeros(4))
    assert set(acquire(pool, 2, "bald").tolist()) == {0, 1}
    assert 2 in acquire(pool, 2, "batchbald").tolist()


def numbers(targets: int) -> tuple[credo.Predictive, Tensor]:
    draws = credo.Stream(3).normal(50, 6, targets, dtype=torch.float64) * torch.linspace(0.5, 2.0, 6).view(1, 6, 1)
    return predictive(likelihoods.Gaussian(0.7), draws, {}, torch.zeros(50)), draws


@pytest.mark.parametrize("targets", [1, 2])
def test_batches_of_numbers_are_greedy_on_the_determinant(targets: int) -> None:
    pool, draws = numbers(targets)

    def joint(rows: list[int]) -> float:
        flat = draws[:, rows].flatten(1)
        covariance = torch.cov(flat.T, correction=0).reshape(flat.shape[1], -1)
        return 0.5 * float(torch.logdet(torch.eye(flat.shape[1]).double() + covariance / 0.49))

    rows: list[int] = []
    for _ in range(4):
        rows.append(max((n for n in range(6) if n not in rows), key=lambda n: joint([*rows, n])))
    if targets == 1:  # for several targets of an input their correlation is left out of its own gain
        assert batch_information(pool, 4).tolist() == rows
        torch.testing.assert_close(float(information(pool)[0]), joint([0]))
    assert len(set(acquire(pool, 4, "batchbald").tolist())) == 4


def test_random_choices_come_from_the_seed() -> None:
    first, again, other = (acquire(POOL, 3, "random", seed).tolist() for seed in (0, 0, 1))
    assert first == again
    assert any(acquire(POOL, 3, "random", seed).tolist() != other for seed in range(2, 6))
    assert sorted(acquire(POOL, 99, "random").tolist()) == list(range(5)), "all there are"


@pytest.mark.parametrize("name", [a for a in Acquisition if a is not Acquisition.BATCH_BALD])
def test_every_acquisition_gives_rows(name: Acquisition) -> None:
    rows = acquire(POOL, 2, name).tolist()
    assert len(set(rows)) == 2
    assert set(rows) <= set(range(5))


def test_mistakes() -> None:
    pool, _ = numbers(1)
    with pytest.raises(ValueError, match="must be one of"):
        acquire(POOL, 2, "surprise")
    with pytest.raises(TypeError, match="take 'bald'"):
        acquire(pool, 2, "variation ratio")
    with pytest.raises(ValueError, match="no score of single inputs"):
        acquisition_scores(POOL, "random")
    separate = predictive(likelihoods.Bernoulli(), LOGITS, {}, WEIGHTS.log())
    assert isinstance(separate, ClassPredictive)
    with pytest.raises(ValueError, match="separate yes-or-no"):
        batch_bald(separate, 2, credo.Stream(0))
