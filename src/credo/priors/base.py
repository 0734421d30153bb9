"""What is believed about the weights before any data."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Layout, Params, unravel
from credo.priors.entropy import entropy


class Prior(ABC):
    """A distribution over the parameters of a network."""

    @abstractmethod
    def log_prob(self, params: Params, layout: Layout) -> Tensor:
        """Log density of every member's parameters, (M,).

        Args:
            params: tensors (M, *shape).
            layout: shape and fan-in of each parameter.
        """

    @abstractmethod
    def sample(self, layout: Layout, members: int, stream: Stream, dtype: torch.dtype | None = None) -> Params:
        """`members` independent draws, (members, *shape) each, in torch's default type unless told otherwise."""

    def log_prob_each(self, params: Params, layout: Layout) -> Params | None:
        """Log density of every weight on its own, (M, *shape) each; None where weights are not independent."""
        return None

    def precision(self, layout: Layout) -> dict[str, float] | None:
        """1 / variance of every parameter where the prior is independent normals around zero; None otherwise."""
        return None

    def expected_log_prob(self, mean: Params, scale: Params, layout: Layout) -> Tensor | None:
        """E_q[log p(w)] of each member, (M,), for independent normals q; None where it has no closed form.

        Args:
            mean: expectations, (M, *shape) each.
            scale: standard deviations, (M, *shape) each; a parameter that is not among them is a point at its mean.
            layout: shape and fan-in of each parameter.
        """
        return None

    def kl(self, mean: Params, scale: Params, layout: Layout) -> Tensor | None:
        """KL(q || p) of each member in nats, (M,), for independent normals q; None where it has no closed form.

        KL(q || p) = -H(q) - E_q[log p(w)]

        Points have no entropy: they enter by -log p at their place. The arguments are those of `expected_log_prob`.
        """
        expected = self.expected_log_prob(mean, scale, layout)
        return None if expected is None else -entropy(scale) - expected


class ElementwisePrior(Prior):
    """The same density for every weight, zero-centred; `fan_in=True` narrows each weight by the root of its fan-in.

    log p(w) = sum_i log p_0(w_i / s_i) - log s_i,   s_i = 1, or 1 / sqrt(fan-in) of the layer
    """

    fan_in: bool

    @abstractmethod
    def log_density(self, w: Tensor) -> Tensor:
        """log p_0 of each entry."""

    @abstractmethod
    def draw(self, shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype | None = None) -> Tensor:
        """Independent draws from p_0, in torch's default type unless told otherwise."""

    def log_slope(self, w: Tensor) -> Tensor:
        """d log p_0 / dw of each entry, a new tensor without a graph; to be overridden where it is known."""
        with torch.enable_grad():
            place = w.detach().requires_grad_()
            return torch.autograd.grad(self.log_density(place).sum(), place)[0]

    def slope(self, w: Tensor, fan_in: int) -> Tensor:
        """d log p / dw of each entry of a parameter with this fan-in, a new tensor without a graph."""
        root = math.sqrt(fan_in) if self.fan_in else 1.0
        return self.log_slope(w) if root == 1.0 else self.log_slope(w * root).mul_(root)

    def log_prob(self, params: Params, layout: Layout) -> Tensor:
        if not params:
            return torch.zeros(())
        flat = torch.cat([self._standard(w, layout[name].fan_in) for name, w in params.items()], dim=1)
        return self.log_density(flat).sum(1) - self._log_volume(params, layout)

    def log_prob_each(self, params: Params, layout: Layout) -> Params:
        roots = {name: math.sqrt(layout[name].fan_in) if self.fan_in else 1.0 for name in params}
        return {name: self.log_density(w * roots[name]) + math.log(roots[name]) for name, w in params.items()}

    def _standard(self, w: Tensor, fan_in: int) -> Tensor:
        flat = w.unsqueeze(-1).flatten(1)
        return flat * math.sqrt(fan_in) if self.fan_in and fan_in > 1 else flat

    def _log_volume(self, params: Params, layout: Layout) -> float:
        if not self.fan_in:
            return 0.0
        return sum(-0.5 * math.log(layout[name].fan_in) * w[0].numel() for name, w in params.items())

    def sample(self, layout: Layout, members: int, stream: Stream, dtype: torch.dtype | None = None) -> Params:
        total = sum(math.prod(info.shape) for info in layout.values())
        standard = unravel(self.draw((members, total), stream.generator(), dtype), layout)
        if not self.fan_in:
            return standard
        return {name: w / math.sqrt(layout[name].fan_in) for name, w in standard.items()}
