"""Estimators that give every example noise of its own, layer by layer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence

from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.methods.vi.estimators import Estimator
from credo.methods.vi.factors import Drawn, Factors
from credo.methods.vi.layers import Layer, Perturbation, find_layers, perturbed_outputs, walkable
from credo.model import Batch, Target, likelihood_params
from credo.nets.dropout import draw_masks
from credo.nets.network import Network
from credo.nets.walk import Rule

Brought = list[list[Tensor]]
"""For each layer, the tensors that its perturbation needs."""


class ByLayer(Estimator, Perturbation):
    """Perturbs the linear and convolutional layers; all other uncertain parameters are drawn in weight space."""

    name: str
    """For notes."""

    @abstractmethod
    def bring(self, layers: Sequence[Layer], q: Factors, examples: int, noise: Stream) -> tuple[Brought, Params]:
        """What the perturbation needs for each layer, and the deviations from the mean that are among it.

        Where q is without a graph, the former has no axis for members.
        """

    def log_likelihood(self, target: Target, q: Factors, batch: Batch, noise: Stream) -> tuple[Tensor, Drawn]:
        network = target.model.network
        x = batch.x[0] if batch.own else batch.x
        layers = _uncertain(find_layers(network, q.centre, x), q.uncertain)
        covered = {name for layer in layers for name in layer.names}
        rest = q.draw((name for name in q.uncertain if name not in covered), noise.child("weights"))
        stack = None if network.layout.keys() & rest else walkable(network, self, q.centre, x)
        q.without_graph = stack is not None
        brought, deviations = self.bring(layers, q, batch.examples, noise.child("layers"))
        if stack is not None and isinstance(self, Rule):
            by_name = {layer.weight: own for layer, own in zip(layers, brought, strict=True)}
            outputs = q.walked(stack, self, by_name, x, deviates=bool(deviations))
        else:
            masks = draw_masks(
                network.trace(q.centre, x).sites,
                noise.child("network", "dropout"),
                q.centre.members,
                batch.examples,
                network.dtype,
                q.centre.device,
            )
            variables = Variables({**q.mean, **rest}, q.buffers)
            outputs = perturbed_outputs(network, layers, self, brought, variables, batch, target.plan, masks)
        each = target.model.likelihood.log_prob(outputs, batch.y, likelihood_params({**q.own, **rest}))
        return each, Drawn(rest, deviations)

    def notes(self, network: Network, variables: Variables, x: Tensor, uncertain: Collection[str]) -> tuple[str, ...]:
        layers = _uncertain(find_layers(network, variables, x), uncertain)
        covered = {name for layer in layers for name in layer.names}
        told = f"{self.name} at {len(layers)} layer(s)"
        others = [name for name in network.layout if name in uncertain and name not in covered]
        if others:
            told += (
                f"; weight space for {len(others)} parameter(s) that are not the weight or bias of exactly one linear "
                f"or convolutional call: {', '.join(others[:5])}{', ...' if len(others) > 5 else ''}"
            )
        return (told,)


def _uncertain(layers: Sequence[Layer], uncertain: Collection[str]) -> list[Layer]:
    """The layers whose weight has a distribution; a bias that is a point is none of theirs."""
    kept = [layer for layer in layers if layer.weight in uncertain]
    return [layer if layer.bias in uncertain else layer.without_bias() for layer in kept]
