"""How unsure is a prediction? One number for each input, larger for more doubt, without knowing the answer."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import torch
from torch import Tensor

from credo.predictive import ClassPredictive, Predictive
from credo.uncertainty.familiarity import check_rows, disagreement


class Doubt(StrEnum):
    """A measure of doubt about classes, or numbers, by name."""

    MAXIMUM_PROBABILITY = "maximum probability"
    ENTROPY = "entropy"
    EXPECTED_ENTROPY = "expected entropy"
    MUTUAL_INFORMATION = "mutual information"
    VARIATION_RATIO = "variation ratio"
    TOTAL_STDDEV = "total standard deviation"
    ENERGY = "energy"
    DISAGREEMENT = "disagreement"
    STDDEV = "standard deviation"


def maximum_probability(prediction: ClassPredictive) -> Tensor:
    """1 - max_k p_k of the mixture, (B,); of D separate answers the largest doubt."""
    check_rows(prediction)
    probs = prediction.probs.double()
    if prediction.likelihood.exclusive:
        return 1.0 - probs.amax(-1)
    return torch.minimum(probs, 1.0 - probs).amax(-1)


def entropy(prediction: Predictive) -> Tensor:
    """Entropy of the mixture in nats, (B,), summed over separate targets: all the doubt there is."""
    return _per_input(prediction, prediction.entropy)


def expected_entropy(prediction: Predictive) -> Tensor:
    """Mean entropy of the draws in nats, (B,): the doubt that all of them share, which more data would not remove."""
    return _per_input(prediction, prediction.expected_entropy)


def mutual_information(prediction: Predictive) -> Tensor:
    """Entropy of the mixture less the mean entropy of the draws, (B,): what the draws disagree about."""
    return _per_input(prediction, prediction.mutual_information)


def variation_ratio(prediction: ClassPredictive) -> Tensor:
    """The weight of the draws that do not have the most frequent label among their own, (B,).

    Reference: L. C. Freeman, "Elementary applied statistics", 1965.
    """
    check_rows(prediction)
    _check_exclusive(prediction, "variation_ratio")
    votes = torch.nn.functional.one_hot(prediction.draws.argmax(-1), prediction.draws.shape[-1]).double()
    return 1.0 - prediction.average(votes).amax(-1)


def total_stddev(prediction: ClassPredictive) -> Tensor:
    """sqrt(sum_k Var_s(p_sk)), (B,): the spread of the class probabilities over the draws.

    The measure of the week-8 lecture of Sick, Brändli and Dürr.
    """
    check_rows(prediction)
    return prediction.epistemic.double().sum(-1).sqrt()


def energy(prediction: ClassPredictive) -> Tensor:
    """-log sum_k exp(f_k), averaged over the draws, (B,): low where some class has a large logit.

    Reference: W. Liu et al., "Energy-based out-of-distribution detection", 2020, https://arxiv.org/abs/2010.03759
    """
    check_rows(prediction)
    _check_exclusive(prediction, "energy")
    return -prediction.average(torch.logsumexp(prediction.draws.double(), -1))


def stddev(prediction: Predictive) -> Tensor:
    """Standard deviation of the target, (B,), of several targets the root of the summed variances."""
    check_rows(prediction)
    return prediction.variance.double().sum(-1).sqrt()


_SCORES: dict[Doubt, Callable[..., Tensor]] = {
    Doubt.MAXIMUM_PROBABILITY: maximum_probability,
    Doubt.ENTROPY: entropy,
    Doubt.EXPECTED_ENTROPY: expected_entropy,
    Doubt.MUTUAL_INFORMATION: mutual_information,
    Doubt.VARIATION_RATIO: variation_ratio,
    Doubt.TOTAL_STDDEV: total_stddev,
    Doubt.ENERGY: energy,
    Doubt.DISAGREEMENT: disagreement,
    Doubt.STDDEV: stddev,
}
OF_CLASSES = (Doubt.MAXIMUM_PROBABILITY, Doubt.VARIATION_RATIO, Doubt.TOTAL_STDDEV, Doubt.ENERGY)
"""Scores that need a distribution over classes."""
PER_DRAW = (Doubt.MAXIMUM_PROBABILITY, Doubt.ENTROPY, Doubt.ENERGY)
"""Scores that a single draw has too."""


def score(prediction: Predictive, name: Doubt | str = Doubt.ENTROPY) -> Tensor:
    """A measure of doubt by its name, (B,).

    Examples:
        `score(posterior.predict(x), "mutual information")`
    """
    if name not in list(Doubt):
        raise ValueError(f"the score must be one of {', '.join(Doubt)}, got {name!r}")
    chosen = Doubt(name)
    if chosen in OF_CLASSES and not isinstance(prediction, ClassPredictive):
        raise TypeError(f"{chosen} is a measure of doubt about classes, and the prediction is one of numbers")
    return _SCORES[chosen](prediction)


def per_draw(prediction: ClassPredictive, name: Doubt | str = Doubt.ENTROPY) -> Tensor:
    """A measure of doubt of each draw on its own, (S, B): how unsure each drawn network is.

    Args:
        prediction: over classes.
        name: maximum probability, entropy or energy; the others are a matter of several draws.
    """
    if name not in PER_DRAW:
        raise ValueError(f"{name} is no measure of a single draw: take one of {', '.join(PER_DRAW)}")
    check_rows(prediction)
    if Doubt(name) is Doubt.ENERGY:
        _check_exclusive(prediction, "energy")
        return -torch.logsumexp(prediction.draws.double(), -1)
    exclusive = prediction.likelihood.exclusive
    if Doubt(name) is Doubt.MAXIMUM_PROBABILITY:
        probs = prediction.likelihood.mean(prediction.draws, prediction.params).double()
        return 1.0 - probs.amax(-1) if exclusive else torch.minimum(probs, 1.0 - probs).amax(-1)
    each = prediction.likelihood.entropy(prediction.draws, prediction.params).double()
    return each if exclusive else each.sum(-1)


def _per_input(prediction: Predictive, values: Tensor) -> Tensor:
    """(B,): separate targets add up."""
    check_rows(prediction)
    single = isinstance(prediction, ClassPredictive) and prediction.likelihood.exclusive
    return values.double() if single else values.double().sum(-1)


def _check_exclusive(prediction: ClassPredictive, name: str) -> None:
    if not prediction.likelihood.exclusive:
        raise ValueError(f"{name} needs one of K classes for each input, and these are separate yes-or-no targets")
