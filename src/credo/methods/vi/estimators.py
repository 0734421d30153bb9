"""What an estimator of the variational gradient is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection

from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Variables
from credo.methods.vi.factors import Drawn, Factors
from credo.model import Batch, Target
from credo.nets.network import Network


class Estimator(ABC):
    """How the expected log likelihood under q is estimated, and with it its gradient by backpropagation.

    All estimators have the same expectation for every example; they differ in variance and cost.
    """

    @abstractmethod
    def log_likelihood(self, target: Target, q: Factors, batch: Batch, noise: Stream) -> tuple[Tensor, Drawn]:
        """One estimate of E_q[log p(y_b | x_b, w)] for each example, (M, B), and what was drawn of the weights for it.

        Args:
            target: the density.
            q: the leaves of the step.
            batch: examples.
            noise: all the randomness there is.
        """

    def notes(self, network: Network, variables: Variables, x: Tensor, uncertain: Collection[str]) -> tuple[str, ...]:
        """What a person should know of how this estimator treats a network.

        Args:
            network: the model's.
            variables: weights to look at a forward pass with.
            x: a few inputs.
            uncertain: names of the parameters that have a distribution.
        """
        return ()
