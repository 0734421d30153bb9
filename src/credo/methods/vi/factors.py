"""The factorised normal q that variational inference fits, as one step sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params, Variables


@dataclass(frozen=True)
class _Draw:
    """A leaf of the graph, w = mean + scale * noise, or the deviation scale * noise alone."""

    name: str
    leaf: Tensor
    noise: Tensor
    around_mean: bool


@dataclass(frozen=True)
class Drawn:
    """What was drawn of the weights for one estimate.

    Attributes:
        whole: weights, (M, *shape) each.
        deviations: of weights from their means, (M, *shape) each.
    """

    whole: Params
    deviations: Params = field(default_factory=dict)


class Factors:
    """q(w) = prod_i N(w_i; mean_i, scale_i^2), scale = softplus(rho), and points where a parameter has no rho.

    What a network is given of q (draws, deviations, variances, or means as they are) are leaves of the step's graph.
    What lies behind them, down to rho, is done by hand and in place: on large layers a graph of it would take as long
    as the network itself.

    Args:
        mean: expectations of all parameters, and the buffers, (M, *shape) each.
        rho: of the uncertain parameters, (M, *shape) each.
    """

    def __init__(self, mean: Variables, rho: Params) -> None:
        self.mean: Params = {name: w.detach().requires_grad_() for name, w in mean.params.items()}
        self.scale: Params = {name: F.softplus(r).requires_grad_() for name, r in rho.items()}
        self.rho, self.buffers = rho, mean.buffers
        self._variance: Params = {}
        self._draws: list[_Draw] = []

    @property
    def centre(self) -> Variables:
        return Variables(self.mean, self.buffers)

    def variance(self, name: str) -> Tensor:
        """scale^2 of an uncertain parameter, (M, *shape)."""
        if name not in self._variance:
            self._variance[name] = self.scale[name].detach().square().requires_grad_()
        return self._variance[name]

    def draw(self, names: Iterable[str], noise: Stream) -> Params:
        """Draws w = mean + scale * noise of these uncertain parameters, (M, *shape) each."""
        return self._drawn(names, noise, around_mean=True)

    def deviate(self, names: Iterable[str], noise: Stream) -> Params:
        """Draws scale * noise of how far these uncertain parameters are from their mean, (M, *shape) each."""
        return self._drawn(names, noise, around_mean=False)

    @torch.no_grad()
    def _drawn(self, names: Iterable[str], noise: Stream, *, around_mean: bool) -> Params:
        chosen = {name: self.scale[name] for name in names}
        leaves = {}
        for name, standard in noise.normal_like(chosen).items():
            s, mean = chosen[name], self.mean[name]
            leaf = (torch.addcmul(mean, s, standard) if around_mean else s * standard).requires_grad_()
            self._draws.append(_Draw(name, leaf, standard, around_mean))
            leaves[name] = leaf
        return leaves

    def gradients(
        self, loss: Tensor, precision: Mapping[str, float], weight: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        """By mean and by rho, of  loss + weight sum_i (precision_i (mean_i^2 + scale_i^2) / 2 - log scale_i).

        Args:
            loss: differentiated by its graph.
            precision: a number for each parameter that has one; the others have 0.
            weight: a number, ().
        """
        trees = (self.mean, self.scale, self._variance)
        leaves = [t for tree in trees for t in tree.values()] + [draw.leaf for draw in self._draws]
        found = iter(_apart(torch.autograd.grad(loss, leaves, allow_unused=True)))
        of_mean, of_scale, of_variance = (_known({name: next(found) for name in tree}) for tree in trees)
        with torch.no_grad():
            for draw, g in zip(self._draws, found, strict=True):
                if g is not None:
                    _add(of_scale, draw.name, draw.noise.mul_(g))
                    if draw.around_mean:
                        _add(of_mean, draw.name, g)
            for name, g in of_variance.items():
                _add(of_scale, name, g.mul_(self.scale[name]).mul_(2.0))
            mean = [self._pulled(of_mean, name, w, precision.get(name), weight) for name, w in self.mean.items()]
            scale = {
                name: self._pulled(of_scale, name, s, precision.get(name), weight) for name, s in self.scale.items()
            }
            spent = {**{draw.name: draw.leaf for draw in self._draws}, **self._variance}
            for name, g in scale.items():  # the slope of -log scale, and that of softplus, written over a leaf
                slope = torch.sigmoid(self.rho[name], out=spent[name].detach() if name in spent else None)
                g.addcdiv_(weight, self.scale[name], value=-1.0).mul_(slope)
        return mean, list(scale.values())

    def _pulled(self, tree: Params, name: str, place: Tensor, precision: float | None, weight: Tensor) -> Tensor:
        """The gradient by graph, and that of weight * precision * place^2 / 2."""
        gradient = tree[name] if name in tree else torch.zeros_like(place)
        return gradient if precision is None else gradient.addcmul_(place, weight, value=precision)


def _apart(gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Each a tensor of its own, to be written to: a sum gives one and the same gradient to all of its terms."""
    seen: set[int] = set()
    apart: list[Tensor | None] = []
    for g in gradients:
        if g is not None:
            place = g.untyped_storage().data_ptr()
            g = g.clone(memory_format=torch.contiguous_format) if place in seen or not g.is_contiguous() else g
            seen.add(place)
        apart.append(g)
    return apart


def _known(tree: Mapping[str, Tensor | None]) -> Params:
    return {name: g for name, g in tree.items() if g is not None}


def _add(tree: Params, name: str, gradient: Tensor) -> None:
    if name in tree:
        tree[name].add_(gradient)
    else:
        tree[name] = gradient
