"""Measures of doubt against loops over draws and classes in float64, and alarms against their promised rate."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from sklearn.metrics import average_precision_score, roc_curve
from torch import Tensor, nn

import credo
from credo import likelihoods, metrics, nets, uncertainty
from credo.predictive import predictive
from credo.uncertainty import Alarm, ClassDensity, Doubt, NearestNeighbors

LOGITS = 2.0 * credo.Stream(0).normal(5, 7, 3, dtype=torch.float64)
WEIGHTS = torch.tensor([0.4, 0.1, 0.1, 0.3, 0.1], dtype=torch.float64)
PREDICTION = predictive(likelihoods.Categorical(), LOGITS, {}, WEIGHTS.log())


def by_loop(name: Doubt, b: int) -> float:
    """The measure at one input, written out."""
    draws = [[math.exp(f) for f in LOGITS[s, b].tolist()] for s in range(5)]
    probs = [[p / sum(row) for p in row] for row in draws]
    mixture = [sum(float(WEIGHTS[s]) * probs[s][k] for s in range(5)) for k in range(3)]
    total = -sum(p * math.log(p) for p in mixture)
    expected = -sum(float(WEIGHTS[s]) * sum(p * math.log(p) for p in probs[s]) for s in range(5))
    spread = [sum(float(WEIGHTS[s]) * (probs[s][k] - mixture[k]) ** 2 for s in range(5)) for k in range(3)]
    votes = [sum(float(WEIGHTS[s]) for s in range(5) if max(probs[s]) == probs[s][k]) for k in range(3)]
    centered = [[f - sum(LOGITS[s, b].tolist()) / 3 for f in LOGITS[s, b].tolist()] for s in range(5)]
    middle = [sum(float(WEIGHTS[s]) * centered[s][k] for s in range(5)) for k in range(3)]
    apart = [sum(float(WEIGHTS[s]) * (centered[s][k] - middle[k]) ** 2 for s in range(5)) for k in range(3)]
    return {
        Doubt.MAXIMUM_PROBABILITY: 1 - max(mixture),
        Doubt.ENTROPY: total,
        Doubt.EXPECTED_ENTROPY: expected,
        Doubt.MUTUAL_INFORMATION: total - expected,
        Doubt.VARIATION_RATIO: 1 - max(votes),
        Doubt.TOTAL_STDDEV: math.sqrt(sum(spread)),
        Doubt.ENERGY: -sum(float(WEIGHTS[s]) * math.log(sum(draws[s])) for s in range(5)),
        Doubt.DISAGREEMENT: math.sqrt(sum(apart) / 3),
        Doubt.STDDEV: math.sqrt(sum(p * (1 - p) for p in mixture)),
    }[name]


@pytest.mark.parametrize("name", list(Doubt))
def test_scores_of_classes_against_a_loop(name: Doubt) -> None:
    expected = torch.tensor([by_loop(name, b) for b in range(7)], dtype=torch.float64)
    found = uncertainty.score(PREDICTION, name)
    torch.testing.assert_close(found, expected)
    assert torch.equal(found, uncertainty.score(PREDICTION, str(name)))
    equal = predictive(likelihoods.Categorical(), LOGITS, {}, torch.zeros(5, dtype=torch.float64))
    assert not torch.allclose(uncertainty.score(equal, name), expected), "without the weights of the draws"


def test_scores_of_numbers_and_of_separate_answers() -> None:
    numbers = predictive(likelihoods.Gaussian(0.5), LOGITS, {}, WEIGHTS.log())
    torch.testing.assert_close(uncertainty.stddev(numbers), numbers.variance.sum(-1).sqrt())
    torch.testing.assert_close(uncertainty.entropy(numbers), numbers.entropy.sum(-1))
    with pytest.raises(TypeError, match="one of numbers"):
        uncertainty.score(numbers, "energy")
    separate = predictive(likelihoods.Bernoulli(), LOGITS, {}, WEIGHTS.log())
    doubt = torch.minimum(separate.probs, 1 - separate.probs).amax(-1)
    torch.testing.assert_close(uncertainty.maximum_probability(separate), doubt)
    with pytest.raises(ValueError, match="separate yes-or-no"):
        uncertainty.energy(separate)
    with pytest.raises(ValueError, match="must be one of"):
        uncertainty.score(separate, "surprise")
    assert uncertainty.per_draw(PREDICTION).shape == (5, 7)
    for name in ("maximum probability", "entropy", "energy"):
        each = uncertainty.per_draw(PREDICTION, name)
        for s in range(5):
            alone = predictive(likelihoods.Categorical(), LOGITS[s : s + 1], {}, torch.zeros(1, dtype=torch.float64))
            torch.testing.assert_close(each[s], uncertainty.score(alone, name))
    with pytest.raises(ValueError, match="variation ratio is no measure of a single draw"):
        uncertainty.per_draw(PREDICTION, "variation ratio")


def test_positions_have_a_doubt_each() -> None:
    """Sums and maxima over the last axis would be over pixels, not over classes."""
    pixels = predictive(
        likelihoods.at_positions(likelihoods.Categorical(), axes=2, class_axis=1),
        torch.zeros(2, 3, 4, 5, 6),
        {},
        torch.zeros(2),
    )
    for name in Doubt:
        with pytest.raises(ValueError, match=r"take that of prediction.rows\(\)"):
            uncertainty.score(pixels, name)
        assert uncertainty.score(pixels.rows(), name).shape == (3 * 5 * 6,)


def test_false_alarms_stay_below_the_promised_rate() -> None:
    """4,000 times 60 known scores, and one more of the same kind: an alarm in at most 5 % of them, 3 errors."""
    scores = credo.Stream(1).normal(4000, 61).double().exp()
    rung = [bool(Alarm.of(row[:-1], 0.05).rings(row[-1:])) for row in scores]
    rate, error = sum(rung) / 4000, math.sqrt(0.05 * 0.95 / 4000)
    assert rate < 0.05 + 3 * error
    assert rate > 0.02, "and it does ring"
    naive = [float(row[-1]) > float(row[:-1].quantile(0.95)) for row in scores]
    assert sum(naive) / 4000 > rate, "the plain quantile, which rings more often"


def test_alarms_of_few_scores_say_what_they_can_promise() -> None:
    assert Alarm.of(torch.arange(5.0), rate=0.01).false_alarms == pytest.approx(1 / 6)
    assert Alarm.of([-3.0, -2.0, -1.0], 0.5).rings([-1.5, -2.5]).tolist() == [True, False]
    for wrong in (torch.zeros(0), torch.zeros(2, 2), torch.tensor([math.nan])):
        with pytest.raises(ValueError, match="scores"):
            Alarm.of(wrong)


def test_detection_against_scikit_learn() -> None:
    known, unknown = credo.Stream(2).normal(80).round(decimals=1), credo.Stream(3).normal(50).round(decimals=1) + 0.5
    labels = torch.cat([torch.zeros(80), torch.ones(50)]).numpy()
    values = torch.cat([known, unknown]).numpy()
    assert metrics.aupr(known, unknown) == pytest.approx(average_precision_score(labels, values))
    false, true, _ = roc_curve(labels, values, drop_intermediate=False)
    assert metrics.false_positive_rate(known, unknown) == pytest.approx(float(false[true >= 0.95][0]))
    assert metrics.aupr(unknown, known) != pytest.approx(metrics.aupr(known, unknown))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.conv(x)).relu().mean((2, 3)))


def fitted(members: int = 1) -> tuple[credo.Posterior, Tensor, Tensor]:
    x = credo.Stream(4).normal(30, 1, 6, 6)
    y = torch.arange(30) % 3
    x[y == 1] += 2.0
    x[y == 2] *= 3.0
    method = credo.DeepEnsemble(members=members, epochs=20, learning_rate=1e-2, batch_size=10)
    return credo.fit(credo.Model(Net(), likelihoods.Categorical()), (x, y), method), x, y


@pytest.mark.parametrize("members", [1, 2])
def test_features_are_what_goes_into_the_last_linear_layer(members: int) -> None:
    posterior, x, _ = fitted(members)
    found = uncertainty.features(posterior, x)
    weights = posterior.members().params
    for m in range(members):
        part = found[:, 4 * m : 4 * (m + 1)]
        outputs = part @ weights["head.weight"][m].T + weights["head.bias"][m]
        torch.testing.assert_close(outputs, posterior.draw()(x)[m])
    images = uncertainty.features(posterior, x, "norm")
    assert images.shape == (30, members * 4 * 16)
    with pytest.raises(ValueError, match=r"never calls a layer 'nose'.*conv, norm, head"):
        uncertainty.features(posterior, x, "nose")


def test_features_of_many_inputs_are_those_of_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior, x, _ = fitted()
    whole = uncertainty.features(posterior, x)
    monkeypatch.setattr("credo.uncertainty.distances.ROWS", 7)
    torch.testing.assert_close(uncertainty.features(posterior, x), whole)
    before = {name: t.clone() for name, t in posterior.tensors().items()}
    uncertainty.features(posterior, x)
    assert all(torch.equal(t, before[name]) for name, t in posterior.tensors().items())


def test_a_net_without_a_linear_layer_is_answered_in_a_sentence() -> None:
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    x = torch.zeros(4, 1, 6, 6)
    posterior = credo.fit(credo.Model(net, likelihoods.Categorical()), (x, torch.arange(4) % 3), credo.MAP(epochs=1))
    with pytest.raises(ValueError, match=r"calls no nn\.Linear"):
        uncertainty.features(posterior, x)
    assert uncertainty.features(posterior, x, "1").shape == (4, 3 * 16)


def test_nearest_neighbors_against_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    known, values = credo.Stream(5).normal(40, 6).double(), credo.Stream(6).normal(9, 6).double()
    unit = [v / v.norm() for v in values]
    expected = [sorted(float((v - k / k.norm()).norm()) for k in known)[3] for v in unit]
    found = NearestNeighbors.of(known, k=4).score(values)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
    monkeypatch.setattr("credo.uncertainty.distances.ENTRIES", 80)
    torch.testing.assert_close(NearestNeighbors.of(known, k=4).score(values), found)
    assert not torch.allclose(NearestNeighbors.of(known, k=3).score(values), found)


def test_class_density_against_a_loop() -> None:
    known, y = credo.Stream(7).normal(60, 3).double(), torch.arange(60) % 2
    known = known @ torch.tensor([[2.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 0.2]], dtype=torch.float64)
    known[y == 1] += 3.0
    values = credo.Stream(8).normal(9, 3).double()
    means = [known[y == k].mean(0) for k in range(2)]
    pooled = sum((known[y == k] - means[k]).T @ (known[y == k] - means[k]) for k in range(2)) / 60
    pooled = 0.999 * pooled + 0.001 * pooled.diagonal().mean() * torch.eye(3, dtype=torch.float64)
    inverse = torch.linalg.inv(pooled)
    expected = [min(float((v - m) @ inverse @ (v - m)) for m in means) for v in values]
    found = ClassDensity.of(known, y).score(values)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
    assert not torch.allclose(ClassDensity.of(known, torch.zeros(60)).score(values), found), "one class for all"


def test_a_dead_feature_does_no_harm() -> None:
    known = credo.Stream(9).normal(50, 4)
    known[:, 2] = 0.0
    assert ClassDensity.of(known, torch.arange(50) % 2).score(known).isfinite().all()
    constant = torch.ones(50, 4)
    assert ClassDensity.of(constant, torch.arange(50) % 2).score(constant).isfinite().all()


MISTAKES: dict[str, tuple[Any, str]] = {
    "too many neighbors": (lambda: NearestNeighbors.of(torch.zeros(3, 2), k=4), "take a smaller k"),
    "other features": (lambda: NearestNeighbors.of(torch.ones(3, 2), k=1).score(torch.ones(2, 5)), "must agree"),
    "no features": (lambda: NearestNeighbors.of(torch.zeros(3)), r"features are \(B, F\)"),
    "nan": (lambda: ClassDensity.of(torch.full((3, 2), math.nan), torch.zeros(3)), "NaN"),
    "labels": (lambda: ClassDensity.of(torch.zeros(3, 2), torch.zeros(4)), "must agree"),
}


@pytest.mark.parametrize(("mistake", "answer"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_answered_in_a_sentence(mistake: Any, answer: str) -> None:
    with pytest.raises(ValueError, match=answer):
        mistake()


def test_an_unknown_cluster_is_found_by_an_ensemble() -> None:
    """The whole way: train, choose a threshold on known inputs, ring on others."""
    stream = credo.Stream(10)
    x = torch.cat([stream.child(0).normal(100, 2) - 3, stream.child(1).normal(100, 2) + 3])
    y = (torch.arange(200) >= 100).long()
    others = stream.child(2).normal(60, 2) + torch.tensor([-12.0, 12.0])
    posterior = credo.fit(
        nets.MLP(2, 2), (x[::2], y[::2]), credo.DeepEnsemble(members=5, epochs=60, learning_rate=1e-2)
    )
    known, unknown = (uncertainty.disagreement(posterior.predict(part)) for part in (x[1::2], others))
    alarm = Alarm.of(known, rate=0.05)
    assert alarm.rings(unknown).double().mean() > 0.9
    assert metrics.auroc(known, unknown) > 0.95
