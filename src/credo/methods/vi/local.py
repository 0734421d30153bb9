"""The local reparameterisation: noise on a layer's outputs instead of its weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.methods.vi.by_layer import Brought, ByLayer
from credo.methods.vi.factors import Factors
from credo.methods.vi.layers import Affine, Layer, Perturbation, find_layers
from credo.methods.vi.rows import Row, sizes, standard_normal
from credo.nets.network import Network
from credo.nets.walk import Passed, Rule, Sink


def _drawn(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    noise: Tensor,
    of_weight: Tensor,
    of_bias: Tensor | None,
    factor: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs of a linear layer, the squares of its inputs, and the standard deviation of its outputs."""
    squares = x * x if factor is None else x * x * factor
    spread = F.linear(squares, of_weight, of_bias)
    spread.clamp_min_(torch.finfo(spread.dtype).tiny).sqrt_()
    return torch.addcmul(F.linear(x, weight, bias), spread, noise), squares, spread  # addcmul_ has no rule for vmap


def _by_input(
    slopes: Tensor, twice: Tensor, x: Tensor, weight: Tensor, of_weight: Tensor, factor: Tensor | None
) -> Tensor:
    """Given slopes by the outputs, and twice those by their variance."""
    of_squares = twice @ of_weight
    return torch.addcmul(slopes @ weight, x, of_squares if factor is None else of_squares * factor)


class _Local(torch.autograd.Function):
    """One node for a linear layer, whose own graph has a dozen and keeps as many copies of its outputs."""

    generate_vmap_rule = True

    forward = staticmethod(_drawn)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        x, weight, bias, noise, of_weight, of_bias, factor = inputs
        ctx.save_for_backward(x, weight, noise, of_weight, factor, *output[1:])
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.biases = (bias is not None, of_bias is not None)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, noise, of_weight, factor, squares, spread = ctx.saved_tensors
        g = gradients[0]
        twice = torch.div(noise, spread).mul_(g)
        of_x = _by_input(g, twice, x, weight, of_weight, factor) if ctx.needs_input_grad[0] else None
        rows, spreads = g.flatten(0, -2), twice.mul_(0.5).flatten(0, -2)
        of_bias, of_spread = (t.sum(0) if b else None for t, b in zip((rows, spreads), ctx.biases, strict=True))
        by_weight, by_spread = rows.mT @ x.flatten(0, -2), spreads.mT @ squares.flatten(0, -2)
        return of_x, by_weight, of_bias, None, by_spread, of_spread, None


# torch asks for it at every call, and to work it out takes as long as a small product of matrices
_Local.forward.__signature__ = signature(_Local.forward)  # type: ignore[attr-defined]


def local_outputs(
    affine: Affine,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    noise: Tensor,
    of_weight: Tensor,
    of_bias: Tensor | None = None,
    factor: Tensor | None = None,
) -> Tensor:
    """affine(x; weight, bias) + sqrt(affine(factor x^2; of_weight, of_bias)) * noise.

    Args:
        affine: the layer's call, with its geometry settled.
        x: its input (B, ...).
        weight: expectation of the weight.
        bias: of the bias.
        noise: standard normal, in the shape of the output.
        of_weight: variance of the weight.
        of_bias: variance of the bias; None for a point, or for no bias.
        factor: of the variances, by input; nothing is differentiated by it. None for 1.
    """
    if isinstance(affine, partial) and affine.func is F.linear and x.ndim > 1:
        outputs: Tensor = _Local.apply(x, weight, bias, noise, of_weight, of_bias, factor)[0]  # type: ignore[no-untyped-call]
        return outputs
    squares = x.square() if factor is None else x.square() * factor
    return torch.addcmul(affine(x, weight, bias), _root(affine(squares, of_weight, of_bias)), noise)


def _root(variance: Tensor) -> Tensor:
    """The standard deviation; where all inputs are zero so is the variance, and the root has no slope there."""
    return variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt()


class OutputNoise(Perturbation, Rule):
    """Draws the outputs of a layer instead of its weights."""

    @abstractmethod
    def given(self, own: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """What was brought: standard noise, variances of weight and bias, and the factor of the variances by input."""

    def __call__(self, affine: Affine, x: Tensor, weight: Tensor, bias: Tensor | None, own: Sequence[Tensor]) -> Tensor:
        return local_outputs(affine, x, weight, bias, *self.given(own))

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None, own: Sequence[Tensor]) -> tuple[Tensor, Any]:
        outputs, *kept = _drawn(x, weight, bias, *self.given(own))
        return outputs, kept

    def backward(self, slopes: Tensor, passed: Passed, by_params: Sink, by_brought: Sink, *, by_input: bool) -> Tensor:
        (noise, of_weight, of_bias, factor), (squares, spread) = self.given(passed.own), passed.kept
        twice, found = torch.div(noise, spread, out=spread).mul_(slopes), slopes  # twice the slopes by variances
        if by_input:
            found = _by_input(slopes, twice, passed.x, passed.weight, of_weight, factor)
        by_params.product(passed.layer.weight, slopes, passed.x)
        by_params.total(passed.layer.bias, slopes)
        by_brought.product(passed.layer.weight, twice, squares, 0.5)
        if of_bias is not None:
            by_brought.total(passed.layer.bias, twice, 0.5)
        return found


@dataclass(frozen=True)
class LocalReparameterization(OutputNoise, ByLayer):
    """Draws the outputs of a layer, which are normal given its inputs, with noise of its own for every example.

    h = affine(x; mean) + sqrt(affine(x^2; scale^2)) * noise

    For a linear layer on one vector per example this is exact, and the gradient has far less variance than one draw of
    the weights for the batch. Where one weight makes several outputs of an example (the positions of a convolution or
    of a sequence), each has the right mean and variance, but the correlation between positions is left out; `Flipout`
    keeps it.

    Reference: D. P. Kingma, T. Salimans, M. Welling, "Variational dropout and the local reparameterization trick",
        2015, https://arxiv.org/abs/1506.02557
    """

    name = "local reparameterisation"

    def bring(self, layers: Sequence[Layer], q: Factors, examples: int, noise: Stream) -> tuple[Brought, Params]:
        shapes = tuple((layer.weight, (q.centre.members, examples, *layer.outputs)) for layer in layers)
        like = next(iter(q.centre.params.values())).new_empty(sum(sizes(shapes)))
        row = Row(standard_normal(like, noise), shapes)
        standard = row.single if q.without_graph else row.tree()
        return [[standard[layer.weight], *map(q.variance, layer.names)] for layer in layers], {}

    def given(self, own: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        noise, of_weight, *of_bias = own
        return noise, of_weight, of_bias[0] if of_bias else None, None

    def notes(self, network: Network, variables: Variables, x: Tensor, uncertain: Collection[str]) -> tuple[str, ...]:
        told = super().notes(network, variables, x, uncertain)
        shared = [
            layer.weight
            for layer in find_layers(network, variables, x)
            if layer.positions > 1 and layer.weight in uncertain
        ]
        if not shared:
            return told
        others = f" (and of {len(shared) - 1} more)" if len(shared) > 1 else ""
        return (
            *told,
            f"local reparameterisation leaves out the correlation between positions that share the weights of "
            f"{shared[0]!r}{others}; estimator=Flipout() keeps it",
        )
