"""What drawn networks believe about digits, and about images that are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from torch import Tensor

from credo.core.trees import take
from credo.experiments.dropout_mnist1k.problem import DigitImages, synthetic
from credo.posteriors import DiagonalGaussian, Dropout, Posterior
from credo.predictive import ClassPredictive

DRAWS = 1000
"""S of the tutorial's figures."""
SHOWN = 4
"""Test digits in the figure: two that are clear and the two with most doubt."""


@dataclass(frozen=True)
class ImageBelief:
    """What is believed about one image.

    Attributes:
        label: what it is.
        image: gray values, (side, side).
        mean: probabilities of the ten classes.
        spread: their standard deviation over the draws.
        entropy: of the mean, in nats.
    """

    label: str
    image: Tensor
    mean: Tensor
    spread: Tensor
    entropy: float


@dataclass(frozen=True)
class Beliefs:
    """Of one repetition of a method.

    Attributes:
        label: the method.
        real: test digits, the clearest first.
        synthetic: images that are no digit, or no longer one.
        ordinary: mean entropy of all test digits, in nats.
    """

    label: str
    real: Sequence[ImageBelief]
    synthetic: Sequence[ImageBelief]
    ordinary: float

    @property
    def ratio(self) -> float:
        """Mean entropy of the synthetic images over that of the test digits."""
        return fmean(belief.entropy for belief in self.synthetic) / self.ordinary


def beliefs_of(label: str, posterior: Posterior, data: DigitImages, seed: int, draws: int = DRAWS) -> Beliefs:
    """What the first repetition makes of test digits, clear and doubtful ones, and of images that are no digits.

    Args:
        label: the method.
        posterior: of all repetitions.
        data: with the test digits.
        seed: of the draws.
        draws: for the test digits.
    """
    one = first_of(posterior)
    real = one.predict(data.x_test, draws, seed)
    assert isinstance(real, ClassPredictive)
    order = real.entropy.argsort()
    chosen = [int(i) for i in (*order[: SHOWN // 2], *order[-(SHOWN // 2) :])]
    odd = synthetic(data, seed)
    predictions = [one.predict(o.image.unsqueeze(0), DRAWS, seed) for o in odd]
    return Beliefs(
        label,
        [_belief(f"a {int(data.y_test[i])}", data.x_test[i], real, i) for i in chosen],
        [_belief(o.label, o.image, p, 0) for o, p in zip(odd, predictions, strict=True)],
        float(real.entropy.mean()),
    )


def first_of(posterior: Posterior) -> Posterior:
    """The posterior of the first repetition alone."""
    if isinstance(posterior, DiagonalGaussian):
        return replace(posterior, mean=posterior.mean.take([0]), scale=take(posterior.scale, [0]))
    assert isinstance(posterior, Dropout)
    return replace(posterior, variables=posterior.variables.take([0]))


def _belief(label: str, image: Tensor, prediction: object, row: int) -> ImageBelief:
    assert isinstance(prediction, ClassPredictive)
    probs = prediction.draws[:, row].softmax(-1)
    return ImageBelief(label, image, probs.mean(0), probs.std(0), float(prediction.entropy[row]))
