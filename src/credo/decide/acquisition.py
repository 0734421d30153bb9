"""Which inputs are worth a label? Scores of a pool, and batches of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from credo.core.checks import one_of, whole_number
from credo.core.rng import Stream
from credo.predictive import ClassMixture, ClassPredictive, GaussianPredictive, NumericMixture, Predictive
from credo.uncertainty import entropy, maximum_probability, mutual_information, variation_ratio

CONFIGURATIONS = 10_000
"""Joint labels of a batch that are enumerated, or drawn where there are more."""
ENTRIES = 2**18
"""Entries of a joint distribution that are held at a time."""
NO_NOISE = 1e-50
"""The smallest standard deviation of noise, so that targets without any are worth much and not infinitely much."""


class Acquisition(StrEnum):
    """What makes an input worth asking for, by name."""

    BALD = "bald"
    """The mutual information of the label and the weights, or the expected information of a number."""
    BATCH_BALD = "batchbald"
    """That of the labels of the whole batch together, chosen greedily, so that no two inputs tell the same."""
    ENTROPY = "entropy"
    VARIATION_RATIO = "variation ratio"
    MAXIMUM_PROBABILITY = "maximum probability"
    MEAN_STDDEV = "mean standard deviation"
    """1/K sum_k Std_s(p_sk) of class probabilities; of numbers the standard deviation of the expectation."""
    RANDOM = "random"


def acquire(
    prediction: Predictive,
    count: int,
    acquisition: Acquisition | str = Acquisition.BALD,
    seed: int = 0,
    configurations: int = CONFIGURATIONS,
) -> Tensor:
    """Numbers of the inputs that are worth most, best first, (count,).

    Args:
        prediction: of the whole pool.
        count: how many; all where there are fewer.
        acquisition: what makes them worth it, by name.
        seed: of what is drawn: random choices, and joint labels of BatchBALD where they are too many.
        configurations: joint labels that BatchBALD enumerates, or draws.
    """
    count = min(whole_number("count", count), len(prediction))
    chosen, stream = one_of("acquisition", acquisition, Acquisition), Stream(seed, ("acquire",))
    if chosen is Acquisition.RANDOM:
        return stream.permutation(len(prediction))[:count]
    _refuse_one_function(prediction, chosen)
    if chosen is not Acquisition.BATCH_BALD:
        order = stream.permutation(len(prediction))  # of equal scores, any
        return order[acquisition_scores(prediction, chosen).cpu()[order].topk(count).indices]
    if isinstance(prediction, ClassMixture):
        return batch_bald(prediction, count, stream, configurations)
    if isinstance(prediction, NumericMixture):
        return batch_information(prediction, count)
    raise TypeError(
        f"BatchBALD asks how predictions move together from draw to draw, and {type(prediction).__name__} knows each "
        "input on its own: predict by drawn functions"
    )


DISAGREEMENT = (Acquisition.BALD, Acquisition.BATCH_BALD, Acquisition.VARIATION_RATIO, Acquisition.MEAN_STDDEV)
"""What is zero for every input where there is one function."""


def _refuse_one_function(prediction: Predictive, chosen: Acquisition) -> None:
    mixture = isinstance(prediction, ClassMixture | NumericMixture)
    if mixture and len(prediction.draws) == 1 and chosen in DISAGREEMENT:
        raise ValueError(
            f"{chosen} asks where drawn functions disagree, and there is one alone: use a method with several draws, "
            "such as DeepEnsemble() or MCDropout(), or 'entropy'"
        )


def acquisition_scores(prediction: Predictive, acquisition: Acquisition | str = Acquisition.BALD) -> Tensor:
    """What each input of the pool is worth on its own, (B,); positions of an input, such as its pixels, add up."""
    chosen, rows = one_of("acquisition", acquisition, Acquisition), prediction.rows()
    scores = _scores(rows, chosen)
    if bool(scores.isnan().any()):
        row = int(scores.isnan().nonzero()[0, 0]) * len(prediction) // len(rows)
        raise ValueError(f"the prediction of input {row} is not a number: has the network diverged?")
    return scores if rows is prediction else scores.view(len(prediction), -1).sum(1)


def _scores(prediction: Predictive, chosen: Acquisition) -> Tensor:
    if chosen is Acquisition.MEAN_STDDEV:
        return prediction.epistemic.double().sqrt().mean(-1)
    if chosen is Acquisition.ENTROPY:
        return entropy(prediction)
    if chosen is Acquisition.BALD:
        return mutual_information(prediction) if isinstance(prediction, ClassPredictive) else information(prediction)
    if chosen not in (Acquisition.VARIATION_RATIO, Acquisition.MAXIMUM_PROBABILITY):
        raise ValueError(f"{chosen} is no score of single inputs: use acquire()")
    if not isinstance(prediction, ClassPredictive):
        raise TypeError(f"{chosen} is a measure of classes, and the prediction is one of numbers: take 'bald'")
    return (variation_ratio if chosen is Acquisition.VARIATION_RATIO else maximum_probability)(prediction)


def information(prediction: Predictive) -> Tensor:
    """What the targets of each input tell about the weights, in nats, (B,).

    I(y; w) = 1/2 log det(I + N^-1/2 C N^-1/2),   for one target 1/2 log(1 + epistemic / aleatoric)

    with C the covariance of the D expectations over the draws and N the noise: exact where both are normal.
    """
    noise, rows = _noise(prediction), _signal(prediction)
    covariance = rows @ rows.mT  # (B, D, D)
    if isinstance(prediction, GaussianPredictive):
        within = prediction.average(prediction.outputs.covariance).double()
        covariance = covariance + within / noise.unsqueeze(1) / noise.unsqueeze(2)
    return _half_log_det(covariance)


def batch_information(prediction: Predictive, count: int) -> Tensor:
    """Numbers of inputs whose targets together tell most about the weights, chosen greedily, (count,).

    I(y_1 .. y_b; w) = 1/2 log det(I + N^-1/2 C N^-1/2)

    with C the covariance over the draws of the expectations of all targets and N the noise: exact for normals.
    """
    if prediction.likelihood.event_axes > 1:
        raise ValueError("batches are chosen among inputs with one row of targets each, not a target at each position")
    rows = _signal(prediction)
    if bool(rows.isnan().any()):
        raise ValueError(
            f"the prediction of input {int(rows.isnan().nonzero()[0, 0])} is not a number: it has diverged"
        )
    left = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
    chosen: list[int] = []
    for _ in range(count):
        gain = _half_log_det(rows @ rows.mT)
        best = int(torch.where(left, gain, -torch.inf).argmax())
        chosen.append(best)
        left[best] = False
        for target in range(rows.shape[1]):
            # what is left of all rows once this target is known: a step of conditioning a normal
            row = rows[best, target].clone()
            square = row.square().sum()
            factor = (1.0 - (1.0 + square).rsqrt()) / square.clamp_min(torch.finfo(torch.float64).tiny)
            rows = rows - factor * (rows @ row).unsqueeze(-1) * row
    return torch.tensor(chosen)


def _noise(prediction: Predictive) -> Tensor:
    """Standard deviations of the noise, (B, D)."""
    return prediction.aleatoric.double().sqrt().clamp_min(NO_NOISE)


def _signal(prediction: Predictive) -> Tensor:
    """Rows whose products are the entries of N^-1/2 C N^-1/2, (B, D, S)."""
    means = prediction.likelihood.mean(prediction.draws, prediction.params).double()  # (S, B, D)
    apart = means - means[0]  # a large offset of all draws does not eat the digits of the differences
    centered = (apart - prediction.average(apart)) / _noise(prediction)
    return (centered * prediction.weights.double().sqrt().view(-1, 1, 1)).permute(1, 2, 0)


def _half_log_det(covariance: Tensor) -> Tensor:
    """1/2 log det(I + C) of each, (B, D, D) to (B,)."""
    if covariance.shape[-1] == 1:
        return 0.5 * covariance[:, 0, 0].log1p()
    return 0.5 * torch.linalg.eigvalsh(covariance).clamp_min(0.0).log1p().sum(-1)


def batch_bald(prediction: ClassPredictive, count: int, stream: Stream, configurations: int = CONFIGURATIONS) -> Tensor:
    """Numbers of inputs whose labels together tell most about the weights, chosen greedily, (count,).

    I(y_1 .. y_b; w) = H(y_1 .. y_b) - sum_i E_s[H(y_i | w_s)]

    By the chain rule each further input adds I(y; w | labels so far) = E[H(y | labels so far)] - E_s[H(y | w_s)], and
    the first term is a sum over joint labels: exact while there are no more than `configurations` of them; beyond that
    as many are drawn from their distribution.

    Reference: A. Kirsch, J. van Amersfoort, Y. Gal, "BatchBALD: efficient and diverse batch acquisition for deep
        Bayesian active learning", 2019, https://arxiv.org/abs/1906.08158
    """
    probs = _class_probs(prediction)  # (S, B, K)
    if bool(probs.isnan().any()):
        row = int(probs.isnan().nonzero()[0, 1])
        raise ValueError(f"the prediction of input {row} is not a number: it has diverged")
    alone = prediction.average(torch.special.entr(probs.double()).sum(-1))
    joint = JointLabels.of_none(prediction.weights.to(probs))
    left = torch.ones(len(prediction), dtype=torch.bool, device=probs.device)
    chosen: list[int] = []
    for step in range(count):
        gain = joint.entropy_of(probs) - alone
        best = int(torch.where(left, gain, -torch.inf).argmax())
        chosen.append(best)
        left[best] = False
        if step + 1 < count:
            joint = joint.extended(probs[:, best], configurations, stream.child(step))
    return torch.tensor(chosen)


def _class_probs(prediction: ClassPredictive) -> Tensor:
    """Probabilities of K classes, or of no and yes, by each draw, (S, B, K)."""
    likelihood = prediction.likelihood
    probs = likelihood.mean(prediction.draws, prediction.params)
    probs = probs if probs.dtype is torch.float64 else probs.float()
    if likelihood.event_axes == 1 and not likelihood.exclusive and probs.shape[2] == 1:
        return torch.cat([1.0 - probs, probs], dim=2)
    if not likelihood.exclusive or likelihood.event_axes > 1:
        raise ValueError(
            "BatchBALD needs one of K classes for each input: take 'bald' where inputs have several labels"
        )
    return probs


@dataclass(frozen=True, eq=False)
class JointLabels:
    """What the labels of some inputs may be together, and what is believed about the draws after each.

    Attributes:
        mass: how much each of C joint labels counts in an expectation, (C,): p(labels) where all are listed, 1/C for
            labels that were drawn.
        posterior: p(draw | labels), (C, S).
        listed: whether all joint labels are there.
    """

    mass: Tensor
    posterior: Tensor
    listed: bool

    @staticmethod
    def of_none(weights: Tensor) -> JointLabels:
        """Of no input: one joint label, which is certain, and the weights of the draws, (S,)."""
        return JointLabels(weights.new_ones(1), weights.unsqueeze(0), listed=True)

    def entropy_of(self, probs: Tensor) -> Tensor:
        """E[H(y | labels)] of each further input in nats, (B,), of its probabilities given each draw, (S, B, K)."""
        draws, _, classes = probs.shape
        size = max(16, ENTRIES // (len(self.mass) * classes))
        parts = []
        for part in torch.split(probs, size, dim=1):
            given = self.posterior @ part.reshape(draws, -1)  # p(y | labels), (C, b K)
            surprise = given.clamp_min(torch.finfo(given.dtype).tiny).log_().mul_(given)
            parts.append(-(self.mass @ surprise).double().view(part.shape[1], classes).sum(1))
        return torch.cat(parts)

    def extended(self, probs: Tensor, configurations: int, stream: Stream) -> JointLabels:
        """With one more input, of which the probabilities are (S, K)."""
        if self.listed and len(self.mass) * probs.shape[1] <= configurations:
            mass = self.mass.unsqueeze(1) * (self.posterior @ probs)  # (C, K)
            joint = (self.posterior.unsqueeze(1) * probs.T).flatten(0, 1)  # (C K, S)
            return JointLabels(mass.flatten(), _normalized(joint), listed=True)
        generator, rows = stream.generator(probs.device), torch.arange(len(self.mass), device=probs.device)
        if self.listed:
            rows = torch.multinomial(self.mass, configurations, replacement=True, generator=generator)
        before = self.posterior[rows]
        label = torch.multinomial(before @ probs, 1, generator=generator).squeeze(1)
        mass = probs.new_full((len(rows),), 1.0 / len(rows))
        return JointLabels(mass, _normalized(before * probs.T[label]), listed=False)


def _normalized(joint: Tensor) -> Tensor:
    """Rows that add up to one; labels that cannot be have a mass of zero, and any row will do."""
    return joint / joint.sum(1, keepdim=True).clamp_min(torch.finfo(joint.dtype).tiny)
