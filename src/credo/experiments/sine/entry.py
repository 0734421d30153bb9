"""What is run on the sine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from credo.experiments.sine.problem import NOISE
from credo.likelihoods import Gaussian
from credo.methods import Ensemble, Method
from credo.methods.base import Sampler
from credo.model import Model
from credo.nets import Net
from credo.priors import Prior


@dataclass(frozen=True)
class Entry:
    """A method with all that it needs to be run on the sine.

    Attributes:
        name: for files.
        label: for people.
        colour: in every figure.
        method: with its numbers.
        net: makes the network.
        prior: of its weights.
        draws: functions drawn for a prediction; None for all that the posterior has.
        caption: what to see in its picture.
        remark: written into the picture.
    """

    name: str
    label: str
    colour: str
    method: Method
    net: Net
    prior: Prior
    draws: int | None
    caption: str
    remark: str = ""

    @property
    def model(self) -> Model:
        return Model(self.net, Gaussian(scale=NOISE), self.prior)

    @property
    def samples(self) -> bool:
        """Whether the method is a sampler."""
        return isinstance(self.method, Sampler)

    def repeated(self, runs: int) -> Entry:
        """The same method run several times side by side, each with its own first weights and noise."""
        draws = None if self.draws is None else self.draws * runs
        return replace(self, method=Ensemble(self.method, runs), draws=draws)
