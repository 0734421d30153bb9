"""Weights drawn from the prior."""

from __future__ import annotations

from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.model import OWN, Target, likelihood_params


def prior_draws(target: Target, variables: Variables, noise: Stream) -> Variables:
    """As many draws from the prior as there are members, with their buffers.

    Args:
        target: whose prior; that of the likelihood's own parameters is part of it.
        variables: names, number, type and place are taken from them.
        noise: the stream; drawn on the CPU, so that every device draws the same.
    """
    model, members = target.model, variables.members
    weights = model.prior.sample(model.network.layout, members, noise.child("weights"))
    own = likelihood_params(variables.params)
    outputs = next(iter(own.values())).shape[1] if own else 0
    drawn = model.likelihood.draw_parameters(outputs, members, noise.child("likelihood").generator()) if own else {}
    missing = [name for name in own if name not in drawn]
    if missing:
        raise ValueError(
            f"the likelihood {type(model.likelihood).__name__} cannot draw its own {missing[0]!r} from the prior: give "
            "it a method draw_parameters, or give a proposal"
        )
    found = {**weights, **{OWN + name: t for name, t in drawn.items()}}
    return Variables(_like(variables.params, found), variables.buffers)


def _like(params: Params, found: Params) -> Params:
    """In the order, type and place of other parameters."""

    def moved(name: str, like: Tensor) -> Tensor:
        return found[name].to(like)

    return {name: moved(name, w) for name, w in params.items()}
