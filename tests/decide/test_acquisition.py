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
from credo.predictive import ClassPredictive, OutputNormal, gaussian_predictive, predictive

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


def test_entropies_after_drawn_labels_are_right_on_average() -> None:
    """Of each input after three others, by 200 times 4 draws, within four standard errors."""
    stream, found = credo.Stream(1), []
    for trial in range(200):
        joint = JointLabels.of_none(WEIGHTS)
        for step, row in enumerate((0, 1, 2)):
            joint = joint.extended(PROBS[:, row], 4, stream.child(trial, step))
        assert not joint.listed
        found.append(joint.entropy_of(PROBS))
    each = torch.stack(found)
    listed = JointLabels.of_none(WEIGHTS)
    for row in (0, 1, 2):
        listed = listed.extended(PROBS[:, row], 100, stream)
    exact = listed.entropy_of(PROBS)
    gain = torch.tensor([by_enumeration((0, 1, 2, n)) - by_enumeration((0, 1, 2)) for n in (3, 4)])
    torch.testing.assert_close(exact[3:] - POOL.expected_entropy[3:], gain.double(), rtol=1e-6, atol=1e-7)
    error = each.std(0) / math.sqrt(200)
    assert listed.listed
    assert ((each.mean(0) - exact).abs() < 4 * error).all()
    unconditional = JointLabels.of_none(WEIGHTS).entropy_of(PROBS)  # the broken twin: what labels say is forgotten
    assert ((each.mean(0) - unconditional).abs() > 4 * error).any()


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
    assert batch_information(pool, 4).tolist() == acquire(pool, 4, "batchbald").tolist() == rows
    torch.testing.assert_close(information(pool), torch.tensor([joint([n]) for n in range(6)], dtype=torch.float64))


def test_two_targets_that_move_together_tell_less_than_their_sum() -> None:
    """The broken twin: a sum over targets, as if they were independent."""
    draws = credo.Stream(4).normal(40, 3, 1, dtype=torch.float64).expand(-1, -1, 2)
    pool = predictive(likelihoods.Gaussian(0.5), draws, {}, torch.zeros(40))
    signal = (pool.epistemic / pool.aleatoric)[:, 0]
    torch.testing.assert_close(information(pool), 0.5 * torch.log1p(2 * signal))
    assert (information(pool) < torch.log1p(signal)).all()


def test_normal_outputs_have_their_information_in_closed_form() -> None:
    covariance = torch.tensor([[2.0, 0.6], [0.6, 1.0]], dtype=torch.float64).expand(1, 3, 2, 2)
    outputs = OutputNormal(torch.zeros(1, 3, 2, dtype=torch.float64), covariance)
    prediction = gaussian_predictive(likelihoods.Gaussian(0.5), outputs, {}, torch.zeros(1))
    exact = 0.5 * torch.logdet(torch.eye(2, dtype=torch.float64) + covariance[0] / 0.25)
    torch.testing.assert_close(acquisition_scores(prediction), exact)
    with pytest.raises(TypeError, match="predict by drawn functions"):
        acquire(prediction, 2, "batchbald")


def test_a_long_batch_of_unsure_inputs_has_probabilities_below_what_floats_hold() -> None:
    """10^-60 for each joint label: gains stay finite, and two copies are not both taken first."""
    logits = credo.Stream(5).normal(20, 61, 10)
    logits[:, 60] = logits[:, 0]
    pool = predictive(likelihoods.Categorical(), logits, {}, torch.zeros(20))
    rows = acquire(pool, 60, "batchbald", configurations=50).tolist()
    assert len(set(rows)) == 60
    joint = JointLabels.of_none(pool.weights)
    for step in range(60):
        joint = joint.extended(pool.likelihood.mean(logits[:, step], {}), 50, credo.Stream(step))
    torch.testing.assert_close(joint.posterior.sum(1), torch.ones(50))
    assert joint.entropy_of(logits.softmax(-1)).isfinite().all()


def test_what_a_class_cannot_be_is_no_trouble() -> None:
    logits = LOGITS.clone()
    logits[:, :, 2] = -torch.inf
    two = predictive(likelihoods.Categorical(), LOGITS[:, :, :2], {}, WEIGHTS.log())
    three = predictive(likelihoods.Categorical(), logits, {}, WEIGHTS.log())
    assert acquire(three, 5, "batchbald").tolist() == acquire(two, 5, "batchbald").tolist()


@pytest.mark.parametrize("name", ["bald", "batchbald", "entropy", "mean standard deviation"])
def test_a_prediction_that_is_no_number_is_refused(name: str) -> None:
    logits, values = LOGITS.clone(), numbers(1)[1].clone()
    logits[2, 3] = values[2, 3] = torch.nan
    for likelihood, draws in ((likelihoods.Categorical(), logits), (likelihoods.Gaussian(0.7), values)):
        if name == "entropy" and draws is values:
            continue
        pool = predictive(likelihood, draws, {}, torch.zeros(len(draws)))
        with pytest.raises(ValueError, match="input 3 is not a number"):
            acquire(pool, 2, name)


def test_no_noise_and_absurd_units() -> None:
    _, draws = numbers(1)
    order = acquire(predictive(likelihoods.Gaussian(0.7), draws, {}, torch.zeros(50)), 6, "batchbald").tolist()
    for unit in (1e-9, 1e9):
        pool = predictive(likelihoods.Gaussian(0.7 * unit), unit * draws, {}, torch.zeros(50))
        assert acquire(pool, 6, "batchbald").tolist() == order
    exact = predictive(likelihoods.Gaussian(1e-60), draws, {}, torch.zeros(50))
    assert information(exact).isfinite().all()


def test_pixels_of_an_image_add_up() -> None:
    each = credo.Stream(6).normal(5, 2, 3, 4, 4, dtype=torch.float64)
    likelihood = likelihoods.at_positions(likelihoods.Categorical(), axes=2)
    found = acquisition_scores(predictive(likelihood, each, {}, torch.zeros(5)))
    pixels = predictive(likelihoods.Categorical(), each.permute(0, 1, 3, 4, 2).flatten(1, 3), {}, torch.zeros(5))
    torch.testing.assert_close(found, acquisition_scores(pixels).view(2, 16).sum(1))
    with pytest.raises(ValueError, match="several labels"):
        acquire(predictive(likelihood, each, {}, torch.zeros(5)), 1, "batchbald")


def test_yes_or_no_is_two_classes() -> None:
    logit = LOGITS[:, :, :1]
    yes = predictive(likelihoods.Bernoulli(), logit, {}, WEIGHTS.log())
    two = predictive(likelihoods.Categorical(), torch.cat([torch.zeros_like(logit), logit], 2), {}, WEIGHTS.log())
    assert acquire(yes, 4, "batchbald").tolist() == acquire(two, 4, "batchbald").tolist()


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
    with pytest.raises(ValueError, match="needs one of K classes"):
        batch_bald(separate, 2, credo.Stream(0))
