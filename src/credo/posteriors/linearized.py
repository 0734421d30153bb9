"""A network made linear in its weights: drawn functions by forward derivatives, and the normal of its outputs.

f(x; w) ~ f(x; mean) + J(x) (w - mean),   J = df / dw at the mean

Neither writes a Jacobian of inputs x outputs x weights. Derivatives of the outputs are propagated back to the outputs
of each layer, and meet its inputs there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from credo.core.inputs import Inputs, TensorTree, inputs, rows_at_once
from credo.core.matrices import Diagonal, Kronecker, PositiveDense
from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.likelihoods import ClassLikelihood
from credo.model import Model, likelihood_params
from credo.nets.calls import Call, Captured, ProductCall, capture, differentiable
from credo.nets.plan import Plan
from credo.posteriors.blocks import WeightBlock
from credo.posteriors.functions import CACHE_ENTRIES, ELSEWHERE, MEMORY_ENTRIES, Functions
from credo.predictive import OutputNormal
from credo.predictive.gaussian import contrast_variance

JACOBIAN_ENTRIES = 2**23
"""Entries of derivatives by the weights of one layer that are in memory at a time."""
TOGETHER = 16
"""Functions that are computed together at most."""

Shift = Callable[[int], Params]
"""By how much the weights of the function of this number differ from the mean, (*shape) each."""


@dataclass(frozen=True, eq=False, repr=False)
class LinearizedFunctions(Functions):
    """A network linear in its weights, at S drawn weights: f(x; mean) + J(x) (w_s - mean)."""

    model: Model  # what the functions belong to
    mean: Variables  # of the M members to whom the functions are dealt in turn, (M, *shape)
    log_weights: Tensor  # log weights of the functions, (S,), normalized
    shift: Shift  # the drawn weights less the mean, made when they are needed

    def __repr__(self) -> str:
        return f"LinearizedFunctions({len(self)} of {self.model!r})"

    @property
    def likelihood_params(self) -> Params:
        members = torch.arange(len(self)) % self.mean.members
        return {name: t[members.to(t.device)] for name, t in likelihood_params(self.mean.params).items()}

    @torch.no_grad()
    def __call__(self, x: Any) -> Tensor:
        network, device = self.model.network, self.mean.device
        if not isinstance(x, Tensor | TensorTree):
            x = inputs(x, "x", network.input_dtype).to(device)
        traced = network.trace(self.mean, x)
        outputs = torch.empty((len(self), len(x), *traced.output), dtype=network.dtype, device=device)
        rows = rows_at_once(x, MEMORY_ENTRIES.get(device.type, ELSEWHERE) // (2 * traced.activations))
        fitting = CACHE_ENTRIES.get(device.type, ELSEWHERE) // (traced.activations * rows)
        for member in range(min(self.mean.members, len(self))):
            variables = self.mean.take([member])
            numbers = list(range(member, len(self), self.mean.members))
            size = max(1, min(TOGETHER, fitting)) if network.vectorizes(variables, x) else 1
            for chosen in (numbers[i : i + size] for i in range(0, len(numbers), size)):
                shifts = [self.shift(number) for number in chosen]
                for start in range(0, len(x), rows):
                    part = x[start : start + rows]
                    outputs[chosen, start : start + rows] = self._along(variables, part, shifts)
        return outputs

    def _along(self, variables: Variables, x: Inputs, shifts: Sequence[Params]) -> Tensor:
        """Outputs of some functions of one member, (s, B, ...)."""
        _ready_for_forward_mode()
        with torch.inference_mode(False):
            variables, x, shifts = differentiable(variables), differentiable(x), differentiable(list(shifts))
            center = {name: variables.params[name] for name in shifts[0]}

            def outputs(params: Params) -> Tensor:
                whole = Variables({**variables.params, **params}, variables.buffers)
                return self.model.network.evaluate(whole, x, Plan.ONE_BY_ONE)[0]

            def moved(shift: Params) -> Tensor:
                value, change = torch.func.jvp(outputs, (center,), (shift,))[:2]
                return value + change

            if len(shifts) == 1:
                one = {name: t.unsqueeze(0) for name, t in shifts[0].items()}
                return _forward_mode(moved, one, lambda: outputs(center)).unsqueeze(0)
            stacked = {name: torch.stack([each[name] for each in shifts]).unsqueeze(1) for name in shifts[0]}
            return torch.func.vmap(moved)(stacked)


def _forward_mode(moved: Callable[[Params], Tensor], shift: Params, plain: Callable[[], Tensor]) -> Tensor:
    """The outputs at a shift, or a sentence where the network has a part that forward derivatives do not know."""
    try:
        return moved(shift)
    except (RuntimeError, NotImplementedError) as error:
        plain()  # which says itself what is wrong, if it is something else
        raise ValueError(
            f"a part of the network has no forward derivative, which drawn linear functions need ({error}): predict "
            "without draws, posterior.predict(x), or by drawn weights, posterior.with_prediction('weights')"
        ) from error


@cache
def _ready_for_forward_mode() -> None:
    """Let torch load what its first forward derivative needs, which warns of parts of torch's own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.func.jvp(torch.sin, (torch.zeros(1),), (torch.ones(1),))


def weight_noise(blocks: Sequence[WeightBlock], stream: Stream, like: Tensor) -> Params:
    """A draw of the weights of one member less their mean, in the units of the prior, (*shape) each.

    The noise is drawn on the CPU, so that it is the same wherever the tensors are.
    """
    found: Params = {}
    generator = stream.generator()
    for block in blocks:
        noise = torch.randn((1, 1, block.layout.size), generator=generator, dtype=like.dtype)
        drawn = block.draws(noise.to(like.device))
        found.update({name: t[0, 0] for name, t in block.layout.split(drawn).items()})
    return found


@dataclass(frozen=True, eq=False)
class OutputDoubt:
    """How the outputs of one member vary with its weights: J Sigma J^T at inputs, in slices that fit into memory."""

    model: Model
    variables: Variables  # of one member
    blocks: tuple[WeightBlock, ...]
    root: Params  # of the prior's variances, P^-1/2, broadcastable to (1, *shape) each
    variance: float = 1.0  # what the covariance is multiplied by: the temperature

    def normal(self, x: Inputs, *, independent: bool = False) -> OutputNormal:
        """Mean (1, B, E) and covariance (1, B, E, E); or variances alone, (1, B, E), of classes by contrast."""
        parts = [self._part(x[rows], independent) for rows in self._rows(x)]
        return OutputNormal(*(torch.cat(each).unsqueeze(0) for each in zip(*parts, strict=True)))

    def _rows(self, x: Inputs) -> Iterator[slice]:
        """Slices of inputs for which all derivatives by the outputs of layers are in memory together."""
        traced = self.model.network.trace(self.variables, x)
        per_row = traced.activations * max(traced.output[0], 4)
        size = rows_at_once(x, max(1, 2 * JACOBIAN_ENTRIES // per_row))
        return (slice(start, start + size) for start in range(0, len(x), size))

    def _part(self, x: Inputs, independent: bool) -> tuple[Tensor, Tensor]:
        names = [name for block in self.blocks for name in block.layout.names]
        captured = capture(self.model.network, self.variables, x, names)
        outputs = captured.outputs.detach()
        back = None if captured.direct else _backward(captured)
        total: Tensor | float = 0.0
        for block in self.blocks:
            chosen = [i for i, call in enumerate(captured.calls) if set(call.names) & set(block.layout.names)]
            calls = [captured.calls[i] for i in chosen]
            if not calls:
                continue
            if back is None:
                found = self._direct(block, calls[0], outputs, independent)
            else:
                found = self._covariance(block, calls, [back[i] for i in chosen])
            if independent and found.ndim == 3:
                found = contrast_variance(found) if self._exclusive else found.diagonal(dim1=1, dim2=2)
            total = total + found
        shape = (*outputs.shape, *([] if independent else outputs.shape[1:]))
        return outputs, total * self.variance + outputs.new_zeros(shape)

    def _direct(self, block: WeightBlock, call: Call, outputs: Tensor, independent: bool) -> Tensor:
        """Of a last layer whose outputs are those of the network: the derivatives by them are unit vectors."""
        examples, size = outputs.shape
        if not isinstance(call, ProductCall) or not _is_single(call):
            pass
        elif isinstance(block.precision, Kronecker):
            vectors, each = block.precision.left_vectors[0], self._by_output(block, call)
            if independent:
                return each @ self._contrasts(vectors).square().mT
            return (vectors * each.unsqueeze(1)) @ vectors.mT
        elif isinstance(block.precision, Diagonal) and block.layout.names == call.names:
            each = self._by_output(block, call)
            return self._of_contrasts(each) if independent else torch.diag_embed(each)
        elif isinstance(block.precision, PositiveDense) and block.layout.names == call.names:
            return self._by_blocks(block, call)
        unit = torch.eye(size, dtype=outputs.dtype, device=outputs.device)
        return self._covariance(block, [call], [unit.unsqueeze(1).expand(size, examples, size)])

    @property
    def _exclusive(self) -> bool:
        """Whether outputs are logits of one of several classes, to whose average the probabilities are blind."""
        likelihood = self.model.likelihood
        return isinstance(likelihood, ClassLikelihood) and likelihood.exclusive

    def _contrasts(self, vectors: Tensor) -> Tensor:
        """Directions of outputs in columns (E, E), around their average where these are classes."""
        if not self._exclusive:
            return vectors
        size = len(vectors)
        return (vectors - vectors.mean(0)) * (size / max(size - 1, 1)) ** 0.5

    def _of_contrasts(self, variance: Tensor) -> Tensor:
        """Variances of independent outputs (B, E), likewise."""
        if not self._exclusive:
            return variance
        size = variance.shape[1]
        projected = variance * (1.0 - 2.0 / size) + variance.sum(1, keepdim=True) / size**2
        return projected * (size / max(size - 1, 1))

    def _covariance(self, block: WeightBlock, calls: Sequence[Call], back: Sequence[Tensor]) -> Tensor:
        """J Sigma J^T of one block, (B, E, E), by derivatives by the outputs of its calls, (E, B, ...) each."""
        call = calls[0]
        alone = len(calls) == 1 and call.names == block.layout.names and not isinstance(block.precision, PositiveDense)
        if alone and isinstance(call, ProductCall) and _is_single(call):
            g = call.directions(back[0].flatten(0, 1))[:, 0].reshape(*back[0].shape[:2], -1).transpose(0, 1)
            if isinstance(block.precision, Kronecker):
                g = g @ block.precision.left_vectors[0]
            return (g * self._by_output(block, call).unsqueeze(1)) @ g.mT
        return self._by_jacobian(block, calls, back)

    def _by_output(self, block: WeightBlock, call: ProductCall) -> Tensor:
        """sum_i a_i^2 / (precision of output o and input i), (B, outputs), in the basis of the block."""
        columns = call.columns()[:, 0]
        if isinstance(block.precision, Kronecker):
            columns = (columns * self._roots(call, columns)) @ block.precision.right_vectors[0]
            return columns.square() @ block.precision.eigenvalues()[0].reshape(call.sizes).reciprocal().mT
        assert isinstance(block.precision, Diagonal)
        variance = block.layout.split(block.precision.values.reciprocal() * self._joined_root(block).square())
        grid = torch.cat([variance[name].reshape(call.sizes[0], -1) for name in call.names], dim=1)
        return columns.square() @ grid.mT

    def _roots(self, call: ProductCall, like: Tensor) -> Tensor:
        """Those of each column of a layer, whose weights have one precision in the prior."""
        widths = {call.weight: like.shape[-1] - (call.bias is not None), call.bias: 1}
        return torch.cat([self.root[name].reshape(1).expand(width) for name, width in widths.items() if name])

    def _joined_root(self, block: WeightBlock) -> Tensor:
        """(1, P)."""
        return block.layout.join({name: self.root[name].expand(1, *shape) for name, shape in _shapes(block)})

    def _by_blocks(self, block: WeightBlock, call: ProductCall) -> Tensor:
        """Sum over inputs i, j of a_i a_j Sigma_(oi)(pj), (B, outputs, outputs), of a dense covariance."""
        rows = call.sizes[0]
        a = call.columns()[:, 0]
        sigma = self._written(block)
        order = torch.arange(block.layout.size, device=a.device)
        parts = block.layout.split(order.unsqueeze(0))
        at = torch.cat([parts[name].reshape(rows, -1) for name in call.names], dim=1)  # where (o, i) lies in the vector
        found = a.new_empty(len(a), rows, rows)
        for o in range(rows):
            for p in range(o + 1):
                each = ((a @ sigma[at[o]][:, at[p]]) * a).sum(-1)
                found[:, o, p] = found[:, p, o] = each
        return found

    def _written(self, block: WeightBlock) -> Tensor:
        """The covariance of a dense block, (P, P)."""
        root = self._joined_root(block)[0]
        return block.direct[0] * root * root.unsqueeze(1)

    def _by_jacobian(self, block: WeightBlock, calls: Sequence[Call], back: Sequence[Tensor]) -> Tensor:
        """By the derivatives of each output by the weights of the block, for a few examples at a time."""
        outputs, examples = back[0].shape[:2]
        size = max(1, JACOBIAN_ENTRIES // (outputs * block.layout.size))
        found = []
        for start in range(0, examples, size):
            rows = slice(start, min(start + size, examples))
            lines = [self._gradients(block, calls, [g[e, rows] for g in back], rows) for e in range(outputs)]
            found.append(block.covariance(torch.stack(lines, dim=1)))
        return torch.cat(found)

    def _gradients(self, block: WeightBlock, calls: Sequence[Call], back: Sequence[Tensor], rows: slice) -> Tensor:
        """Derivatives of one output by the weights of the block, in the units of the prior, (b, P)."""
        total: Params = {}
        for call, g in zip(calls, back, strict=True):
            for name, each in call.gradients(g, rows).items():
                total[name] = total[name] + each if name in total else each
        like, count = next(iter(total.values())), len(back[0])
        tree = {
            name: total[name] * self.root[name] if name in total else like.new_zeros(count, *shape)
            for name, shape in _shapes(block)
        }
        return block.layout.join(tree)


def _is_single(call: ProductCall) -> bool:
    """Whether the gradient of each example is a single product."""
    return call.positions == 1 and call.groups == 1


def _shapes(block: WeightBlock) -> list[tuple[str, tuple[int, ...]]]:
    return list(zip(block.layout.names, block.layout.shapes, strict=True))


def _backward(captured: Captured) -> list[Tensor]:
    """Derivatives of each output by the outputs of the calls, (E, B, ...) each."""
    each = []
    for e in range(captured.outputs.shape[1]):
        unit = torch.zeros_like(captured.outputs)
        unit[:, e] = 1.0
        each.append(captured.backward(unit))
    return [torch.stack(list(of_call)) for of_call in zip(*each, strict=True)]
