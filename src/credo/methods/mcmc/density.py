"""The log density of all weights as one vector per chain, with its gradient: what samplers move on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from credo.core.trees import Layout, ParameterInfo, Params, Variables, ravel, unravel
from credo.methods.mcmc.dense import DenseSlopes, dense_slopes
from credo.methods.mcmc.leapfrog import WithGradient
from credo.methods.mcmc.slopes import PriorSlopes, output_slopes, own_prior_slopes, prior_slopes
from credo.model import OWN, Batch, Model, Target, likelihood_params
from credo.nets.dense import dense_stack


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

    @cached_property
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
        """The log density of each chain, (C,), and its gradient, (C, P).

        By hand for plain dense stacks, by autograd for all other networks.
        """
        if self._dense is not None:
            with torch.no_grad():
                return self._by_hand(self._dense, flat)
        leaf = flat.detach().requires_grad_()
        with torch.enable_grad():
            value = self(leaf)
            (gradient,) = torch.autograd.grad(value.sum(), leaf)
        return value.detach(), gradient

    def log_likelihood(self, flat: Tensor, log_density: Tensor) -> Tensor:
        """The mean log likelihood of an example, (C,), for people to read: what is left without the prior."""
        log_prior = self.target.log_prior(unravel(flat, self.layout))
        return (log_density * self.target.temperature - log_prior) / self.target.size

    def of(self, chains: Tensor) -> WithGradient:
        """`with_gradient` for positions of these chains alone: what belongs to single chains is taken along."""
        if self._dense is not None:
            return self.with_gradient
        batch = self.batch
        if batch.own:
            batch = Batch(batch.x[chains], batch.y[chains], own=True)
        return Density(self.target, batch, self.variables.take(chains)).with_gradient

    @cached_property
    def _dense(self) -> DenseSlopes | None:
        network = self.target.model.network
        if self.batch.own or network.frozen or network.dropout is not None:
            return None
        return dense_slopes(dense_stack(network.module), self.batch.x)

    @cached_property
    def _prior(self) -> PriorSlopes:
        return prior_slopes(self.target.model.prior, self.target.layout, next(iter(self.variables.params.values())))

    def _by_hand(self, dense: DenseSlopes, flat: Tensor) -> tuple[Tensor, Tensor]:
        params, weights = unravel(flat, self.layout), self._weights
        own, likelihood = likelihood_params(params), self.target.model.likelihood
        outputs, trail = dense.forward(params)
        data = output_slopes(likelihood, outputs, self.batch.y, own)
        slopes = dense.backward(params, trail, data.outputs)
        log_prior, gradient = self._prior(flat[:, :weights])
        # log_likelihood counts N / B fold, and everything is divided by the temperature at the end
        fold = self.target.size / self.batch.examples
        gradient.add_(torch.cat([slopes[name].flatten(1) for name in self.target.layout], dim=1), alpha=fold)
        value = torch.add(log_prior, data.log_likelihood, alpha=fold)
        if own:
            of_own, own_slopes = own_prior_slopes(likelihood, own)
            value = value + of_own
            tail = [torch.add(own_slopes[name], data.own[name], alpha=fold).flatten(1) for name in own]
            gradient = torch.cat([gradient, *tail], dim=1)
        return self.target.temper(value), self.target.temper(gradient)

    @cached_property
    def _weights(self) -> int:
        """How many of the P numbers are weights of the network: the likelihood's own come after them."""
        return sum(t[0].numel() for name, t in self.variables.params.items() if not name.startswith(OWN))


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
