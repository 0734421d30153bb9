"""Noise that a network has in training, which samplers of weights switch off."""

from __future__ import annotations

from credo.core.inputs import Inputs
from credo.model import Model
from credo.nets.dropout import DropoutChange
from credo.nets.hidden_noise import listed
from credo.posteriors.base import checked_shape


def without_noise(model: Model, x: Inputs) -> tuple[Model, tuple[str, ...]]:
    """The model with the noise of training off, and a sentence that says so; batch norm still goes by the batch.

    Chains bring all the noise there is: with dropout in addition they would not explore the posterior of the weights.
    """
    network, weights = model.network, model.network.given().to(x.device)
    quiet = model.with_network(network.without_noise())
    checked_shape(quiet, weights, x)
    if quiet.network.trace(weights, x).sites:  # which drop in evaluation too
        change = DropoutChange(0.0, inserted=False)
        quiet = model.with_network(network.with_dropout(change).without_noise())
    what = _noise(model, x)
    return quiet, (f"{what}: noise of training has no place in chains that bring their own",) if what else ()


def _noise(model: Model, x: Inputs) -> str:
    """What is switched off."""
    try:
        seen = model.network.trace(model.network.given().to(x.device), x)
    except ValueError:  # what training does is of no concern
        return "what is random in the network's training is off"
    parts = ["dropout is off"] if seen.sites else []
    return " and ".join(
        parts + ([f"the random numbers inside {listed([*seen.hidden])} are off"] if seen.hidden else [])
    )
