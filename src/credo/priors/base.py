"""What is believed about the weights before any data."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from credo.core.config import Registry
from credo.core.rng import Stream
from credo.core.trees import Layout, ParameterInfo, Params, unravel

HALF_LOG_2PI_E = 0.5 * math.log(2.0 * math.pi * math.e)


def entropy(scale: Params) -> Tensor:
    """Entropy of each member of q = prod_i N(., scale_i^2) in nats, (M,).

    H(q) = sum_i log scale_i + 1/2 log(2 pi e)
    """
    if not scale:
        return torch.zeros(())
    # a logarithm of each: products of small scales are no longer numbers
    logs = torch.stack([t.unsqueeze(-1).flatten(1).log().sum(1) for t in scale.values()]).sum(0)
    return logs + HALF_LOG_2PI_E * sum(t[0].numel() for t in scale.values())


def _forget(cls: type, base: type, *names: str) -> None:
    """Give a class the methods of its base that it does not define itself."""
    for name in names:
        if name not in vars(cls):
            setattr(cls, name, getattr(base, name))


def _forget_draws(cls: type[Prior]) -> None:
    """Draws of a parent are no draws from a density of one's own; what is abstract stays so."""
    if "sample" in vars(cls) or getattr(cls.sample, "__isabstractmethod__", False):
        return
    if getattr(getattr(cls, "draw", None), "__isabstractmethod__", False):
        return

    def sample(self: Prior, *given: Any, **named: Any) -> Params:
        raise ValueError(
            f"{type(self).__name__} has a density of its own and inherits the draws of {cls.__bases__[0].__name__}, "
            "which are not draws from it: give it a method sample(layout, members, stream, dtype)"
        )

    cls.sample = sample  # type: ignore[method-assign]


class Prior(ABC):
    """A distribution over the parameters of a network.

    Subclasses are registered by their names, so that `credo.load` can make them from their numbers.
    """

    registry: ClassVar = Registry("prior")
    proper: ClassVar[bool] = True
    """Whether it has a total, so that densities and divergences are more than known up to a constant."""

    def __init_subclass__(cls, **options: Any) -> None:
        """A density of one's own makes the closed forms and the draws of a parent wrong: they are not inherited."""
        super().__init_subclass__(**options)
        cls.registry.add(cls)
        defined = vars(cls)
        if "log_prob" in defined or "log_density" in defined:
            _forget(cls, Prior, "expected_log_prob", "precision")
            if "draw" not in defined:
                _forget_draws(cls)
        if "log_prob" in defined and "log_density" not in defined:
            _forget(cls, Prior, "log_prob_each", "curvature")

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

    def curvature(self, params: Params, layout: Layout) -> Params:
        """-d^2 log p / dw^2 of every weight at its place, (M, *shape) each; it may be negative in the tails.

        Raises:
            ValueError: where weights are not independent, or the density has a kink or no scale.
        """
        raise ValueError(
            f"{self} has no curvature, which a normal approximation at the mode needs: use priors.Normal()"
        )

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
    """The same density for every weight, zero-centered; `fan_in=True` narrows each weight by the root of its fan-in.

    log p(w) = sum_i log p_0(w_i / s_i) - log s_i,   s_i = 1, or 1 / sqrt(fan-in) of the layer
    """

    fan_in: bool

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "log_density" in vars(cls):
            _forget(cls, ElementwisePrior, "log_prob", "curvature")
        if "draw" in vars(cls):
            _forget(cls, ElementwisePrior, "sample")

    @abstractmethod
    def log_density(self, w: Tensor) -> Tensor:
        """log p_0 of each entry."""

    @abstractmethod
    def draw(self, shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype | None = None) -> Tensor:
        """Independent draws from p_0, in torch's default type unless told otherwise."""

    def curvature(self, params: Params, layout: Layout) -> Params:
        """By differentiating `log_density` twice; a prior with a kink overrides this."""
        found = {}
        for name, w in params.items():
            root = self._root(layout[name])
            with torch.enable_grad():
                leaf = (w.detach() * root).requires_grad_()
                (gradient,) = torch.autograd.grad(self.log_density(leaf).sum(), leaf, create_graph=True)
                found[name] = -torch.autograd.grad(gradient.sum(), leaf)[0] * root**2
        return found

    def log_prob(self, params: Params, layout: Layout) -> Tensor:
        if not params:
            return torch.zeros(())
        each = {name: w.unsqueeze(-1).flatten(1) for name, w in params.items()}
        if not self.fan_in:
            return self.log_density(torch.cat(list(each.values()), dim=1)).sum(1)
        roots = {name: self._root(layout[name]) for name in params}
        flat = torch.cat([w if roots[name] == 1.0 else w * roots[name] for name, w in each.items()], dim=1)
        return self.log_density(flat).sum(1) + sum(math.log(roots[name]) * w[0].numel() for name, w in each.items())

    def log_prob_each(self, params: Params, layout: Layout) -> Params:
        roots = {name: self._root(layout[name]) for name in params}
        return {name: self.log_density(w * roots[name]) + math.log(roots[name]) for name, w in params.items()}

    def _root(self, info: ParameterInfo) -> float:
        """1 / s_i."""
        return math.sqrt(info.fan_in) if self.fan_in else 1.0

    def sample(self, layout: Layout, members: int, stream: Stream, dtype: torch.dtype | None = None) -> Params:
        total = sum(math.prod(info.shape) for info in layout.values())
        standard = unravel(self.draw((members, total), stream.generator(), dtype), layout)
        return {name: w / self._root(layout[name]) for name, w in standard.items()} if self.fan_in else standard
