"""Which inputs are worth a label? Scores of a pool, and batches of it."""

from __future__ import annotations

from enum import StrEnum

import torch
from torch import Tensor

from credo.core.checks import whole_number
from credo.core.rng import Stream
from credo.predictive import ClassPredictive, Predictive
from credo.uncertainty import entropy, maximum_probability, mutual_information, variation_ratio

CONFIGURATIONS = 10_000
"""Joint labels of a batch that are enumerated, or drawn where there are more."""
ENTRIES = 2**18
"""Entries of a joint distribution that are held at a time."""


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
    if acquisition not in list(Acquisition):
        raise ValueError(f"acquisition must be one of {', '.join(Acquisition)}, got {acquisition!r}")
    chosen, stream = Acquisition(acquisition), Stream(seed, ("acquire",))
    if chosen is Acquisition.RANDOM:
        return stream.permutation(len(prediction))[:count]
    if chosen is Acquisition.BATCH_BALD:
        if isinstance(prediction, ClassPredictive):
            return batch_bald(prediction, count, stream, configurations)
        return batch_information(prediction, count)
    return acquisition_scores(prediction, chosen).topk(count).indices.cpu()


def acquisition_scores(prediction: Predictive, acquisition: Acquisition | str = Acquisition.BALD) -> Tensor:
    """What each input of the pool is worth on its own, (B,)."""
    chosen = Acquisition(acquisition)
    if chosen is Acquisition.MEAN_STDDEV:
        return prediction.epistemic.double().sqrt().mean(-1)
    if chosen is Acquisition.ENTROPY:
        return entropy(prediction)
    if chosen is Acquisition.BALD:
        return mutual_information(prediction) if isinstance(prediction, ClassPredictive) else information(prediction)
    if not isinstance(prediction, ClassPredictive):
        raise TypeError(f"{chosen} is a measure of classes, and the prediction is one of numbers: take 'bald'")
    if chosen is Acquisition.VARIATION_RATIO:
        return variation_ratio(prediction)
    if chosen is Acquisition.MAXIMUM_PROBABILITY:
        return maximum_probability(prediction)
    raise ValueError(f"{chosen} is no score of single inputs: use acquire()")


def information(prediction: Predictive) -> Tensor:
    """1/2 log(1 + epistemic / aleatoric) summed over the targets, (B,): what a number tells about the weights, in nats.

    Exact where expectations over the draws and noise are normal.
    """
    return 0.5 * torch.log1p(prediction.epistemic.double() / prediction.aleatoric.double()).sum(-1)


def batch_information(prediction: Predictive, count: int) -> Tensor:
    """Numbers of inputs whose targets together tell most about the weights, chosen greedily, (count,).

    I(y_1 .. y_b; w) = 1/2 log det(I + N^-1/2 C N^-1/2)

    with C the covariance over the draws of the expectations and N the noise: exact for normals of one target. Several
    targets of an input are taken one after the other, as if they were inputs of their own.
    """
    means = prediction.likelihood.mean(prediction.draws, prediction.params).double()  # (S, B, D)
    centered = means - prediction.average(means)
    noise = prediction.aleatoric.double().sqrt()
    # rows whose products are entries of N^-1/2 C N^-1/2
    rows = (centered / noise * prediction.weights.double().sqrt().view(-1, 1, 1)).permute(1, 2, 0)  # (B, D, S)
    left = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
    chosen: list[int] = []
    for _ in range(count):
        gain = 0.5 * torch.log1p(rows.square().sum(-1)).sum(-1)
        best = int(torch.where(left, gain, -torch.inf).argmax())
        chosen.append(best)
        left[best] = False
        for row in rows[best].clone():
            # what is left of all rows once this target is known: a step of conditioning a normal
            size = 1.0 + row.square().sum()
            factor = (1.0 - size.rsqrt()) / row.square().sum().clamp_min(torch.finfo(torch.float64).tiny)
            rows = rows - factor * (rows @ row).unsqueeze(-1) * row
    return torch.tensor(chosen)


def batch_bald(prediction: ClassPredictive, count: int, stream: Stream, configurations: int = CONFIGURATIONS) -> Tensor:
    """Numbers of inputs whose labels together tell most about the weights, chosen greedily, (count,).

    I(y_1 .. y_b; w) = H(y_1 .. y_b) - sum_i E_s[H(y_i | w_s)]

    The joint distribution is a sum over the draws, exact while there are no more than `configurations` joint labels;
    beyond that as many are drawn from it.

    Reference: A. Kirsch, J. van Amersfoort, Y. Gal, "BatchBALD: efficient and diverse batch acquisition for deep
        Bayesian active learning", 2019, https://arxiv.org/abs/1906.08158
    """
    if not prediction.likelihood.exclusive:
        raise ValueError("BatchBALD needs one of K classes for each input, and these are separate yes-or-no targets")
    probs = prediction.likelihood.mean(prediction.draws, prediction.params)  # (S, B, K)
    weights, alone = prediction.weights.to(probs), prediction.expected_entropy.double()
    joint = JointLabels.of_none(weights)
    left = torch.ones(len(prediction), dtype=torch.bool, device=probs.device)
    chosen: list[int] = []
    spent = torch.zeros((), dtype=torch.float64, device=probs.device)
    for step in range(count):
        gain = joint.entropy_with(probs) - spent - alone
        best = int(torch.where(left, gain, -torch.inf).argmax())
        chosen.append(best)
        left[best] = False
        spent = spent + alone[best]
        if step + 1 < count:
            joint = joint.extended(probs[:, best], configurations, stream.child(step))
    return torch.tensor(chosen)


class JointLabels:
    """The labels of some inputs together, given each draw.

    Attributes:
        given_draw: p(labels | draw) of C joint labels, (C, S).
        share: how much each joint label counts in a sum over all, (C,): 1 where all are listed; for labels that were
            drawn, 1 / (C p(labels)).
        weights: of the draws, (S,).
        listed: whether all joint labels are there.
    """

    def __init__(self, given_draw: Tensor, share: Tensor, weights: Tensor, *, listed: bool) -> None:
        self.given_draw, self.share, self.weights, self.listed = given_draw, share, weights, listed

    @staticmethod
    def of_none(weights: Tensor) -> JointLabels:
        """Of no input: one joint label, which is certain."""
        one = weights.new_ones(1, len(weights))
        return JointLabels(one, weights.new_ones(1), weights, listed=True)

    def entropy_with(self, probs: Tensor) -> Tensor:
        """Entropy of these labels and that of each further input in nats, (B,), of probabilities (S, B, K)."""
        draws, _, classes = probs.shape
        weighted = self.given_draw * self.weights  # (C, S)
        size = max(16, ENTRIES // (len(weighted) * classes))
        parts = []
        for part in torch.split(probs, size, dim=1):
            joint = weighted @ part.reshape(draws, -1)  # (C, b K)
            surprise = joint.clamp_min(torch.finfo(joint.dtype).tiny).log_().mul_(joint)
            parts.append(-(self.share @ surprise).double().view(part.shape[1], classes).sum(1))
        return torch.cat(parts)

    def extended(self, probs: Tensor, configurations: int, stream: Stream) -> JointLabels:
        """With one more input, of which the probabilities are (S, K)."""
        classes = probs.shape[1]
        if self.listed and len(self.given_draw) * classes <= configurations:
            joint = (self.given_draw.unsqueeze(1) * probs.T).flatten(0, 1)  # (C K, S)
            return JointLabels(joint, joint.new_ones(len(joint)), self.weights, listed=True)
        return self._drawn(probs, configurations, stream)

    def _drawn(self, probs: Tensor, configurations: int, stream: Stream) -> JointLabels:
        """Joint labels drawn from their distribution, in the place of all of them."""
        generator = stream.generator(probs.device)
        if self.listed:
            mass = self.given_draw @ self.weights
            rows = torch.multinomial(mass, configurations, replacement=True, generator=generator)
        else:
            rows = torch.arange(len(self.given_draw), device=probs.device)
        before = self.given_draw[rows]
        posterior = before * self.weights
        next_label = (posterior / posterior.sum(1, keepdim=True)) @ probs  # p(y | labels before), (C, K)
        label = torch.multinomial(next_label, 1, generator=generator).squeeze(1)
        joint = before * probs.T[label]
        marginal = joint @ self.weights
        return JointLabels(joint, 1.0 / (len(joint) * marginal), self.weights, listed=False)
