"""The log density of all weights as one vector per chain, with its gradient: what samplers move on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.trees import Layout, ParameterInfo, Params, Variables, ravel, unravel
from credo.model import Batch, Model, Target


@dataclass(frozen=True)
class Density:
    """log p(y, w | x) / T of C chains as a function of their weights side by side, (C, P).

    Attributes:
        target: model, size of the data and temperature.
        batch: all the data.
        variables: the chains' variables at any time; names, shapes and buffers are taken from them.
    """

    target: Target
    batch: Batch
    variables: Variables

    @property
    def layout(self) -> Layout:
        """Shapes in the order in which `flat` holds them; the likelihood's own parameters are among them."""
        return {name: ParameterInfo(tuple(t.shape[1:]), 1) for name, t in self.variables.params.items()}

    def flat(self, params: Params) -> Tensor:
        """Weights by name, (C, *shape), as one vector per chain, (C, P)."""
        return ravel(params)

    def named(self, flat: Tensor) -> Variables:
        """The inverse of `flat`, with the buffers."""
        return Variables(unravel(flat, self.layout), self.variables.buffers)

    def __call__(self, flat: Tensor) -> Tensor:
        """The log density of each chain, (C,)."""
        return self.target.log_joint(self.named(flat), self.batch)

    def with_gradient(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """The log density of each chain, (C,), and its gradient, (C, P)."""
        leaf = flat.detach().requires_grad_()
        with torch.enable_grad():
            value = self(leaf)
            (gradient,) = torch.autograd.grad(value.sum(), leaf)
        return value.detach(), gradient


def refuse_running_statistics(model: Model, name: str) -> None:
    """A sampler needs one density for the whole run; batch norm in training has a different one for every batch."""
    layers = [
        type(m).__name__ for m in model.network.module.modules() if isinstance(m, torch.nn.modules.batchnorm._NormBase)
    ]
    tracking = [layer for layer in layers if "Instance" not in layer]
    if tracking:
        raise ValueError(
            f"the network has batch norm ({tracking[0]}), whose running statistics have no place in a posterior over "
            f"weights: {name} needs a network without it; use nn.LayerNorm or nn.GroupNorm instead"
        )
