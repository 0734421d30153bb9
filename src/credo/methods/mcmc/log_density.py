"""The log density of all weights as one vector per chain, with its gradient: what samplers move on."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from credo import kernels
from credo.core.inputs import Inputs
from credo.core.trees import Layout, ParameterInfo, Params, Variables, ravel, unravel
from credo.kernels import ValueAndGradient
from credo.methods.base import Method, StateT
from credo.model import LIKELIHOOD_PREFIX, Batch, Model, Target


class WholeDataMethod(Method[StateT], ABC):
    """A method whose steps see all the data, and the same density for the whole run."""

    batch_size = None
    whole_data: ClassVar[bool] = True
    noise_off: ClassVar[bool] = True

    def prepare(self, model: Model, x: Inputs) -> tuple[Model, tuple[str, ...]]:
        refuse_running_statistics(model, type(self).__name__)
        return model, ()


@dataclass(frozen=True)
class FlatWeights(ABC):
    """What functions of the weights of C chains side by side, (C, P), are made of."""

    target: Target  # model, size of the data and temperature
    batch: Batch  # all the data
    variables: Variables  # the chains' variables at any time; names, shapes and buffers are taken from them

    @cached_property
    def layout(self) -> Layout:
        """Shapes in the order in which `flat` holds them; learned parameters of the likelihood are among them."""
        return {name: ParameterInfo(tuple(t.shape[1:]), 1) for name, t in self.variables.params.items()}

    def flat(self, params: Params) -> Tensor:
        """Weights by name, (C, *shape), as one vector per chain, (C, P)."""
        return ravel(params)

    def named(self, flat: Tensor) -> Variables:
        """The inverse of `flat`, with the buffers."""
        return Variables(unravel(flat, self.layout), self.variables.buffers)


class LogDensity(FlatWeights):
    """log p(y, w | x) / T of C chains, with its gradient."""

    def __call__(self, flat: Tensor) -> Tensor:
        """The log density of each chain, (C,)."""
        return self.target.log_joint(self.named(flat), self.batch)

    def value_and_gradient(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """The log density of each chain, (C,), and its gradient, (C, P)."""
        if self._kernel is not None:
            value, gradient = self._kernel(flat)
            return self.target.temper(value), self.target.temper(gradient)
        leaf = flat.detach().requires_grad_()
        with torch.enable_grad():
            value = self(leaf)
            (gradient,) = torch.autograd.grad(value.sum(), leaf)
        return value.detach(), gradient

    def log_likelihood(self, flat: Tensor, log_density: Tensor) -> Tensor:
        """The mean log likelihood of an example, (C,), for people to read: what is left without the prior."""
        log_prior = self.target.log_prior(unravel(flat, self.layout))
        return (log_density * self.target.temperature - log_prior) / self.target.size

    def of(self, chains: Tensor) -> ValueAndGradient:
        """`value_and_gradient` for positions of these chains alone, with their own data and buffers."""
        if self._kernel is not None:
            return self.value_and_gradient
        batch = self.batch
        if batch.per_member:
            batch = batch.take(chains)
        return LogDensity(self.target, batch, self.variables.take(chains)).value_and_gradient

    @cached_property
    def _kernel(self) -> ValueAndGradient | None:
        """The same without the bookkeeping of autograd, before tempering; None where there is no such kernel."""
        model, batch, weights = self.target.model, self.batch, list(self.target.layout)
        learned = {n.removeprefix(LIKELIHOOD_PREFIX): info for n, info in self.layout.items() if n not in weights}
        if batch.per_member or list(self.layout)[: len(weights)] != weights:
            return None
        factor = float(self.target.factor(batch))
        return kernels.dense_log_density(
            model.network, model.likelihood, model.prior, batch.x, batch.y, learned, factor, batch.weight
        )


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
