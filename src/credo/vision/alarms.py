"""When a new image rings the alarm: the answer is too unsure, or the image is unlike those that were learned from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from credo.posteriors import Posterior
from credo.predictive import ClassPredictive
from credo.uncertainty import Alarm, NearestNeighbors, entropy, features

KNOWN = 5_000
"""Training images whose features are kept, at most."""
SHARE = 1_000
"""The distance to the nearest thousandth of them counts, as in the paper of `NearestNeighbors`."""


@dataclass(frozen=True, eq=False)
class ImageAlarms:
    """Two thresholds, each at half of the stated rate, so that together they keep it.

    An image of the same kind as the held-out ones rings with a probability of at most `false_alarms`, whatever network
    and images are. Nothing is promised of how many unknown images are found.

    Attributes:
        unsure: of the entropy of the answer, in nats.
        unlike: of the distance to the training images in the network's features.
        neighbors: features of training images.
    """

    unsure: Alarm
    unlike: Alarm
    neighbors: NearestNeighbors

    @property
    def false_alarms(self) -> float:
        """Probability of an alarm for an image like the held-out ones, at most."""
        return min(1.0, self.unsure.false_alarms + self.unlike.false_alarms)

    @staticmethod
    def of(known: Tensor, doubt: Tensor, distance: Tensor, rate: float) -> ImageAlarms:
        """From features of training images (N, F), and doubt (n,) and distance (n,) of held-out ones."""
        return ImageAlarms(Alarm.of(doubt, rate / 2), Alarm.of(distance, rate / 2), neighbors_of(known))

    def rings(self, doubt: Tensor, distance: Tensor) -> tuple[Tensor, list[str]]:
        """Whether each image rings, (B,), and why."""
        unsure, unlike = self.unsure.rings(doubt), self.unlike.rings(distance)
        reasons = [
            " and ".join(word for word, rings in (("unsure", a), ("unlike the training images", b)) if rings)
            for a, b in zip(unsure.tolist(), unlike.tolist(), strict=True)
        ]
        return unsure | unlike, reasons


def neighbors_of(known: Tensor) -> NearestNeighbors:
    """Which distance counts among so many training images."""
    return NearestNeighbors.of(known, max(1, len(known) // SHARE))


@torch.no_grad()
def seen(posterior: Posterior, x: Tensor) -> Tensor:
    """What the network makes of images before its last layer, on the CPU, (B, F)."""
    return features(posterior, x).float().cpu()


def doubt_of(prediction: ClassPredictive) -> Tensor:
    """Entropy of the answer in nats, (B,)."""
    return entropy(prediction).double().cpu()
