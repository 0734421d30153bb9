"""Estimators of the expected log likelihood under q: what they share, and the one in weight space."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from torch import Tensor

from credo.core.inputs import Inputs
from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.methods.vi.layers import Layer, Perturbation, find_layers, perturbed_outputs
from credo.methods.vi.mean_field import MeanFieldNormal
from credo.model import Batch, Target, likelihood_params
from credo.nets.network import Network


class Estimator(ABC):
    """How the expected log likelihood under q is estimated, and with it its gradient by backpropagation.

    All estimators have the same expectation for every example; they differ in variance and cost.
    """

    @abstractmethod
    def log_likelihood(self, target: Target, q: MeanFieldNormal, batch: Batch, rng: Stream) -> tuple[Tensor, Params]:
        """One estimate of E_q[log p(y_b | x_b, w)] for each example, (M, B), and the weights drawn for it.

        Args:
            target: the density.
            q: differentiable in its means and rho.
            batch: examples.
            rng: all the randomness there is.
        """

    def notes(self, network: Network, variables: Variables, x: Inputs, uncertain: Collection[str]) -> tuple[str, ...]:
        """What a person should know of how this estimator treats a network.

        Args:
            network: the model's.
            variables: weights to look at a forward pass with.
            x: a few inputs.
            uncertain: names of the parameters that have a distribution.
        """
        return ()


@dataclass(frozen=True)
class Reparameterization(Estimator):
    """One draw of all weights for the whole batch, as in Bayes by Backprop. Any module will do.

    w = mean + scale * noise

    Reference: C. Blundell et al., "Weight uncertainty in neural networks", 2015, https://arxiv.org/abs/1505.05424
    """

    def log_likelihood(self, target: Target, q: MeanFieldNormal, batch: Batch, rng: Stream) -> tuple[Tensor, Params]:
        weights = q.sample(q.rho, rng.child("weights"))
        variables = Variables({**q.mean, **weights}, q.buffers)
        return target.training_log_likelihood(variables, batch, rng.child("network")), weights


class LayerEstimator(Estimator, Perturbation):
    """Perturbs linear and convolutional layers example by example; all other uncertain parameters are drawn once."""

    name: str
    """For notes."""

    @abstractmethod
    def tensors(
        self, layers: Sequence[Layer], q: MeanFieldNormal, examples: int, rng: Stream
    ) -> tuple[list[list[Tensor]], Params]:
        """What the perturbation needs of q and of noise for each layer, (M, ...) each, and weights drawn for it."""

    def log_likelihood(self, target: Target, q: MeanFieldNormal, batch: Batch, rng: Stream) -> tuple[Tensor, Params]:
        x = batch.example
        layers = _uncertain(find_layers(target.model.network, q.center, x), q.rho)
        covered = {name for layer in layers for name in layer.names}
        rest = q.sample([name for name in q.rho if name not in covered], rng.child("weights"))
        tensors, drawn = self.tensors(layers, q, batch.examples, rng.child("layers"))
        variables = Variables({**q.mean, **rest}, q.buffers)
        outputs = perturbed_outputs(target, layers, self, tensors, variables, batch, rng.child("network", "dropout"))
        each = target.model.likelihood.log_prob(outputs, batch.y, likelihood_params(variables.params))
        return each, {**drawn, **rest}

    def notes(self, network: Network, variables: Variables, x: Inputs, uncertain: Collection[str]) -> tuple[str, ...]:
        layers = _uncertain(find_layers(network, variables, x), uncertain)
        covered = {name for layer in layers for name in layer.names}
        note = f"{self.name} at {len(layers)} layer(s)"
        others = [name for name in network.layout if name in uncertain and name not in covered]
        if others:
            note += (
                f"; weight space for {len(others)} parameter(s) that are not the weight or bias of exactly one linear "
                f"or convolutional call: {', '.join(others[:5])}{', ...' if len(others) > 5 else ''}"
            )
        return (note,)


def _uncertain(layers: Sequence[Layer], uncertain: Collection[str]) -> list[Layer]:
    """The layers whose weight has a distribution; a bias that is a point is none of theirs."""
    chosen = [layer for layer in layers if layer.weight in uncertain]
    return [layer if layer.bias in uncertain else layer.without_bias() for layer in chosen]
