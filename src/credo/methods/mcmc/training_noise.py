"""Noise that a network has in training, which samplers of weights switch off."""

from __future__ import annotations

from credo.core.inputs import Inputs
from credo.model import Model
from credo.nets.dropout import DropoutChange
from credo.nets.hidden_noise import listed


def without_noise(model: Model, x: Inputs) -> tuple[Model, tuple[str, ...]]:
    """The model with the noise of training off, and a sentence that says so; batch norm still goes by the batch.

    Chains bring all the noise there is: with dropout in addition they would not explore the posterior of the weights.
    """
    network, weights = model.network, model.network.given().to(x.device)
    seen = network.trace(weights, x)
    if not (seen.sites or seen.hidden):
        return model, ()
    parts = ["dropout is off"] if seen.sites else []
    parts += [f"the random numbers inside {listed([*seen.hidden])} are off"] if seen.hidden else []
    quiet = network.without_noise()
    if quiet.trace(weights, x).sites:  # which drop in evaluation too
        quiet = network.with_dropout(DropoutChange(0.0, inserted=False)).without_noise()
    note = f"{' and '.join(parts)}: noise of training has no place in chains that bring their own"
    return model.with_network(quiet), (note,)
