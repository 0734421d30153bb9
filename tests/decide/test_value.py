"""What a label, or a feature, would tell: against sums over every possibility."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

import credo
from credo import likelihoods, nets
from credo.decide import value_of_features, value_of_rows
from credo.posteriors import Posterior

X = credo.Stream(0).normal(24, 2)


def fitted(likelihood: likelihoods.Likelihood | None, y: Tensor, outputs: int) -> Posterior:
    model = credo.Model(nets.MLP(2, outputs, (8,)), likelihood)
    return credo.fit(model, (X, y), credo.DeepEnsemble(members=4, epochs=10, learning_rate=3e-2))


@pytest.fixture(scope="module")
def classes() -> Posterior:
    return fitted(likelihoods.Categorical(), (X.sum(1) > 0).long(), 3)


@pytest.fixture(scope="module")
def numbers() -> Posterior:
    return fitted(likelihoods.Gaussian(0.3), X.sin(), 2)


def entropy(p: Tensor) -> float:
    return -sum(float(q) * math.log(float(q)) for q in p.flatten() if q > 0)


def test_a_label_is_worth_the_information_that_it_shares(classes: Posterior) -> None:
    candidates, interest = X[:5], X[5:8]
    here, there = (classes.predict(x).draws.double().softmax(-1) for x in (candidates, interest))
    expected = []
    for n in range(5):
        total = 0.0
        for b in range(3):
            joint = torch.zeros(3, 3, dtype=torch.float64)
            for s, j, k in itertools.product(range(4), range(3), range(3)):
                joint[j, k] += here[s, n, j] * there[s, b, k] / 4
            total += entropy(joint.sum(1)) + entropy(joint.sum(0)) - entropy(joint)
        expected.append(total / 3)
    found = value_of_rows(classes, candidates, interest)
    # probabilities of a network in float32
    torch.testing.assert_close(found, torch.tensor(expected).double(), rtol=1e-4, atol=1e-6)
    own = classes.predict(candidates).mutual_information.double()  # the broken twin: doubt about the candidate itself
    assert not torch.allclose(found, own, rtol=0.05)


def test_a_number_explains_what_conditioning_a_normal_says(numbers: Posterior) -> None:
    here, there = (numbers.predict(x).draws.double() for x in (X[:4], X[4:7]))
    expected = []
    for n in range(4):
        both = torch.cat([here[:, n], there.flatten(1)], 1)  # (S, 2 + 6)
        c = torch.cov(both.T, correction=0)
        top = c[:2, :2] + 0.09 * torch.eye(2, dtype=torch.float64)
        left = c[2:, 2:] - c[2:, :2] @ torch.linalg.solve(top, c[:2, 2:])
        expected.append(float(c[2:, 2:].trace() - left.trace()) / 3)
    found = value_of_rows(numbers, X[:4], X[4:7])
    # predictions in float32
    torch.testing.assert_close(found, torch.tensor(expected).double(), rtol=1e-4, atol=1e-9)


def test_a_label_far_from_what_is_of_interest_is_worth_less_than_one_near_it() -> None:
    """BALD would ask far away, where there is most doubt."""
    x = torch.linspace(-1, 1, 20)[:, None]
    model = credo.Model(nets.MLP(1, 1), likelihoods.Gaussian(0.02))
    posterior = credo.fit(model, (x, x.sin()), credo.DeepEnsemble(members=10, epochs=60, learning_rate=1e-2))
    near, far = torch.tensor([[1.5]]), torch.tensor([[-6.0]])
    interest = torch.tensor([[1.6]])
    prediction = posterior.predict(torch.cat([near, far]))
    assert prediction.epistemic[1, 0] > prediction.epistemic[0, 0]
    value = value_of_rows(posterior, torch.cat([near, far]), interest)
    assert value[0] > value[1]
    assert value.max() <= posterior.predict(interest).epistemic.double().max() * (1 + 1e-5)  # float32


REFERENCE = torch.tensor([[a, b] for a in (-1.0, 0.0, 2.0) for b in (-2.0, 1.0)])


def test_a_feature_is_worth_the_spread_of_what_it_would_say(numbers: Posterior, classes: Posterior) -> None:
    mean = numbers.predict(REFERENCE).mean.double().view(3, 2, 2)
    x = torch.tensor([[math.nan, math.nan], [math.nan, 1.0], [0.0, 1.0]])
    found = value_of_features(numbers, x, REFERENCE)
    expected = torch.zeros(3, 2, dtype=torch.float64)
    expected[0, 0] = mean.mean(1).var(0, correction=0).sum()
    expected[0, 1] = mean.mean(0).var(0, correction=0).sum()
    expected[1, 0] = mean[:, 1].var(0, correction=0).sum()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-9)  # predictions in float32
    probs = classes.predict(REFERENCE).probs.double().view(3, 2, 3)
    info = value_of_features(classes, x, REFERENCE)
    by_hand = entropy(probs.mean((0, 1))) - sum(entropy(p) for p in probs.mean(1)) / 3
    assert float(info[0, 0]) == pytest.approx(by_hand, rel=1e-3, abs=1e-7)  # probabilities in float32
    whole = mean.flatten(0, 1).var(0, correction=0).sum()  # the broken twin: all doubt, whatever it comes from
    assert not torch.allclose(found[0], whole)


def test_what_says_nothing_is_worth_nothing() -> None:
    y = 3.0 * X[:, :1]
    posterior = credo.fit(nets.MLP(2, 1, (16,)), (X, y), credo.DeepEnsemble(members=3, epochs=200, learning_rate=2e-2))
    value = value_of_features(posterior, torch.full((1, 2), math.nan), X)
    assert value[0, 0] > 50 * value[0, 1]


def test_many_reference_rows_are_sampled_by_the_seed(numbers: Posterior) -> None:
    x, many = torch.full((1, 2), math.nan), credo.Stream(3).normal(500, 2)
    first, again, other = (value_of_features(numbers, x, many, seed=seed, values=16) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_mistakes(numbers: Posterior) -> None:
    with pytest.raises(ValueError, match="3 features and the reference 2"):
        value_of_features(numbers, torch.zeros(1, 3), X)
    with pytest.raises(ValueError, match="rows of features"):
        value_of_features(numbers, torch.zeros(3), X)
    with pytest.raises(ValueError, match="reference has NaN"):
        value_of_features(numbers, torch.zeros(1, 2), X * math.nan)
    separate = fitted(likelihoods.Bernoulli(), torch.stack([X[:, 0] > 0, X[:, 1] > 0], 1).long(), 2)
    with pytest.raises(ValueError, match="several labels"):
        value_of_rows(separate, X[:2], X[:2])
