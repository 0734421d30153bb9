"""In what structure a curvature is summed over the data: on the diagonal, as Kronecker products, or in full."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from credo.core.checks import check_options, one_of
from credo.core.matrices import Kronecker
from credo.core.trees import Params
from credo.methods.laplace.curvature import Curvature, Outputs, hessian
from credo.methods.laplace.sharing import WeightSharing
from credo.methods.laplace.whitened import Whitened, WhitenedDense, WhitenedDiagonal, WhitenedProduct
from credo.nets.calls import Captured, ProductCall
from credo.nets.layer import LayerUse
from credo.posteriors.blocks import BlockLayout

GRADIENT_ENTRIES = 2**24
"""Entries of gradients of single examples that are in memory at a time."""
DOUBLE = 8
"""Bytes of a number in the sums, which are in float64."""

Layouts = tuple[BlockLayout, ...]


class Structure(ABC):
    """Sums over the data, (M, ...) each in float64, by the name of the block and of the part."""

    name: ClassVar[str]

    @abstractmethod
    def layouts(self, uses: Sequence[LayerUse], shapes: dict[str, tuple[int, ...]]) -> Layouts:
        """The blocks of a network whose layers do this with its parameters."""

    @abstractmethod
    def zeros(self, layouts: Layouts, members: int, like: Tensor) -> Params:
        """The sums before the first batch."""

    @abstractmethod
    def add(
        self, sums: Params, member: int, layouts: Layouts, captured: Captured, outputs: Outputs, by: Curvature
    ) -> None:
        """Add a batch of one member, in place."""

    @abstractmethod
    def whitened(self, sums: Params, layout: BlockLayout, root: Params) -> Whitened:
        """The curvature of a block in the units of a prior whose standard deviations are `root`, (M, ...) each."""

    @abstractmethod
    def nbytes(self, layouts: Layouts, itemsize: int) -> int:
        """Bytes of one member, for the sums, their eigenvectors and the result."""

    def add_hessian(self, sums: Params, member: int, layouts: Layouts, outputs: Outputs, params: Params) -> None:
        """Add the Hessian of a batch."""
        raise ValueError(f"structure={self.name!r} has no Hessian")


def _key(layout: BlockLayout, part: str) -> str:
    return f"{'+'.join(layout.names)}:{part}"


def _joined(root: Params, layout: BlockLayout) -> Tensor:
    """(M, P) in float64."""
    tree = {n: root[n].double().expand(-1, *s) for n, s in zip(layout.names, layout.shapes, strict=True)}
    return layout.join(tree)


def _per_use(uses: Sequence[LayerUse], shapes: dict[str, tuple[int, ...]], *, products: bool) -> Layouts:
    return tuple(
        BlockLayout(use.names, tuple(shapes[name] for name in use.names), products and use.product)
        for use in uses
        if use.names
    )


def _gradients(captured: Captured, back: Sequence[Tensor], layout: BlockLayout) -> Sequence[tuple[slice, Params]]:
    """Gradients of single examples by the parameters of a block, for some examples at a time."""
    pairs = [(c, g) for c, g in zip(captured.calls, back, strict=True) if set(c.names) & set(layout.names)]
    if not pairs:
        return []
    examples, size = len(captured.outputs), max(1, GRADIENT_ENTRIES // layout.size)
    found = []
    for start in range(0, examples, size):
        rows = slice(start, min(start + size, examples))
        total: Params = {}
        for call, g in pairs:
            for name, each in call.gradients(g[rows], rows).items():
                total[name] = total[name] + each if name in total else each
        found.append((rows, total))
    return found


def _lines(total: Params, layout: BlockLayout) -> Tensor:
    """(b, P), zero for parameters that no call has used."""
    like = next(iter(total.values()))
    tree = {
        name: total[name] if name in total else like.new_zeros(len(like), *shape)
        for name, shape in zip(layout.names, layout.shapes, strict=True)
    }
    return layout.join(tree)


def _calls(captured: Captured, layout: BlockLayout) -> list[ProductCall]:
    """Those of the layer of a product."""
    return [call for call in captured.calls if isinstance(call, ProductCall) and call.names == layout.names]


def _places(layout: BlockLayout, columns: int) -> Callable[[int], list[tuple[slice, slice]]]:
    """Where the columns of an output (the inputs of the weight, and a one for the bias) lie in the block's vector."""

    def of_output(o: int) -> list[tuple[slice, slice]]:
        found, column, start = [], 0, 0
        for shape in layout.shapes:
            width = math.prod(shape[1:])
            found.append((slice(column, column + width), slice(start + o * width, start + (o + 1) * width)))
            column, start = column + width, start + math.prod(shape)
        assert column == columns
        return found

    return of_output


def _single(captured: Captured, layout: BlockLayout) -> ProductCall | None:
    """The only call of a block where each example has one position, so that its gradients are single products."""
    using = [call for call in captured.calls if set(call.names) & set(layout.names)]
    if len(using) != 1 or not isinstance(using[0], ProductCall):
        return None
    call = using[0]
    return call if call.groups == 1 and call.positions == 1 and call.names == layout.names else None


@dataclass(frozen=True)
class DiagonalCurvature(Structure):
    """Each weight on its own: H_ii alone. The least memory, and no correlations."""

    name: ClassVar[str] = "diagonal"

    def layouts(self, uses: Sequence[LayerUse], shapes: dict[str, tuple[int, ...]]) -> Layouts:
        return _per_use(uses, shapes, products=False)

    def zeros(self, layouts: Layouts, members: int, like: Tensor) -> Params:
        return {_key(each, "values"): like.new_zeros(members, each.size, dtype=torch.float64) for each in layouts}

    def add(
        self, sums: Params, member: int, layouts: Layouts, captured: Captured, outputs: Outputs, by: Curvature
    ) -> None:
        matrices = by.matrices(outputs) if captured.direct and len(layouts) == 1 else None
        call = _single(captured, layouts[0])
        if matrices is not None and call is not None:
            for rows, matrix in matrices:
                squares = matrix.diagonal(dim1=1, dim2=2).mT @ call.columns(rows)[:, 0].square()
                sums[_key(layouts[0], "values")][member] += self._placed(layouts[0], squares)
            return
        for v in by.columns(outputs):
            back = captured.backward(v)
            for layout in layouts:
                self.add_column(sums, member, layout, captured, back)

    def add_column(
        self, sums: Params, member: int, layout: BlockLayout, captured: Captured, back: Sequence[Tensor]
    ) -> None:
        """Add one column of the root of the outputs' curvature."""
        call, into = _single(captured, layout), sums[_key(layout, "values")][member]
        if call is not None:
            g = call.directions(next(b for c, b in zip(captured.calls, back, strict=True) if c is call))[:, 0]
            into += self._placed(layout, g.square().mT @ call.columns()[:, 0].square())
            return
        for _, total in _gradients(captured, back, layout):
            into += _lines(total, layout).square().sum(0)

    @staticmethod
    def _placed(layout: BlockLayout, grid: Tensor) -> Tensor:
        """A matrix (outputs, columns) in the order of the block."""
        as_product = BlockLayout(layout.names, layout.shapes, product=True)
        return layout.join(as_product.split(grid.reshape(1, -1)))[0]

    def add_hessian(self, sums: Params, member: int, layouts: Layouts, outputs: Outputs, params: Params) -> None:
        found = {name: torch.zeros_like(p).flatten() for name, p in params.items()}
        for name, entry, rows in hessian(outputs, params):
            found[name][entry] = rows[name].flatten()[entry]
        for layout in layouts:
            tree = {n: found[n].reshape(1, *s) for n, s in zip(layout.names, layout.shapes, strict=True)}
            sums[_key(layout, "values")][member] += layout.join(tree)[0]

    def whitened(self, sums: Params, layout: BlockLayout, root: Params) -> Whitened:
        return WhitenedDiagonal(layout, sums[_key(layout, "values")] * _joined(root, layout).square())

    def nbytes(self, layouts: Layouts, itemsize: int) -> int:
        return sum(each.size for each in layouts) * (3 * DOUBLE + itemsize)


@dataclass(frozen=True)
class KroneckerCurvature(Structure):
    """Each linear or convolutional layer as one Kronecker product, H = G (x) A, of its output gradients and its inputs.

    A = sum_b a_b a_b^T / N with a one for the bias,   G = sum_b J_b^T L_b J_b of the layer's outputs

    Norm layers, embeddings and convolutions in groups, which are no such product, are on the diagonal. It is exact for
    one example, and for a layer whose output curvature is the same for all examples.

    Args:
        sharing: of weights that several positions share: "expand" takes each position for an example of its own,
            "reduce" sums gradients and averages inputs over positions first.

    Reference: J. Martens, R. Grosse, "Optimizing neural networks with Kronecker-factored approximate curvature", 2015,
        https://arxiv.org/abs/1503.05671; for shared weights R. Eschenhagen et al., "Kronecker-factored approximate
        curvature for modern neural network architectures", 2023, https://arxiv.org/abs/2311.00636
    """

    name: ClassVar[str] = "kronecker"

    sharing: str = "expand"

    def __post_init__(self) -> None:
        check_options(self)
        object.__setattr__(self, "sharing", one_of("sharing", self.sharing, WeightSharing))

    def layouts(self, uses: Sequence[LayerUse], shapes: dict[str, tuple[int, ...]]) -> Layouts:
        return _per_use(uses, shapes, products=True)

    def zeros(self, layouts: Layouts, members: int, like: Tensor) -> Params:
        found: Params = {}
        for each in layouts:
            if each.product:
                rows, columns = each.sizes
                found[_key(each, "left")] = like.new_zeros(members, rows, rows, dtype=torch.float64)
                found[_key(each, "right")] = like.new_zeros(members, columns, columns, dtype=torch.float64)
                found[_key(each, "count")] = like.new_zeros(members, dtype=torch.float64)
            else:
                found |= DiagonalCurvature().zeros((each,), members, like)
        return found

    def add(
        self, sums: Params, member: int, layouts: Layouts, captured: Captured, outputs: Outputs, by: Curvature
    ) -> None:
        products = [(layout, _calls(captured, layout)) for layout in layouts if layout.product]
        for layout, calls in products:
            for call in calls:
                self._add_inputs(sums, member, layout, call, outputs.weight)
        total = by.total(outputs) if captured.direct and len(products) == len(layouts) == 1 else None
        if total is not None and _single(captured, layouts[0]) is not None:
            sums[_key(layouts[0], "left")][member] += total
            return
        for v in by.columns(outputs):
            back = captured.backward(v)
            by_call = {id(call): g for call, g in zip(captured.calls, back, strict=True)}
            for layout, calls in products:
                for call in calls:
                    g = self._reduced(call.directions(by_call[id(call)]), mean=False).flatten(0, 1)
                    sums[_key(layout, "left")][member] += g.mT @ g
            for layout in layouts:
                if not layout.product:
                    DiagonalCurvature().add_column(sums, member, layout, captured, back)

    def _add_inputs(self, sums: Params, member: int, layout: BlockLayout, call: ProductCall, weight: Tensor) -> None:
        a = self._reduced(call.columns(), mean=True)
        flat = a.flatten(0, 1)
        sums[_key(layout, "right")][member] += (
            flat * weight.to(flat).repeat_interleave(a.shape[1]).unsqueeze(1)
        ).mT @ flat
        sums[_key(layout, "count")][member] += weight.double().sum() * a.shape[1]

    def _reduced(self, values: Tensor, *, mean: bool) -> Tensor:
        """(b, T, ...) as it is, or with one position."""
        if self.sharing == WeightSharing.EXPAND:
            return values
        return values.mean(1, keepdim=True) if mean else values.sum(1, keepdim=True)

    def whitened(self, sums: Params, layout: BlockLayout, root: Params) -> Whitened:
        if not layout.product:
            return DiagonalCurvature().whitened(sums, layout, root)
        rows, columns = layout.sizes
        scale = _joined(root, layout).reshape(-1, rows, columns)[:, 0]  # the same for all outputs
        count = sums[_key(layout, "count")].clamp_min(torch.finfo(torch.float64).tiny).view(-1, 1, 1)
        right = sums[_key(layout, "right")] / count * scale.unsqueeze(1) * scale.unsqueeze(2)
        return WhitenedProduct(layout, Kronecker.of(sums[_key(layout, "left")], right))

    def nbytes(self, layouts: Layouts, itemsize: int) -> int:
        total = DiagonalCurvature().nbytes(tuple(each for each in layouts if not each.product), itemsize)
        for rows, columns in (each.sizes for each in layouts if each.product):
            total += 3 * (rows**2 + columns**2) * DOUBLE + 3 * rows * columns * DOUBLE
            total += Kronecker.nbytes(rows, columns, itemsize)
        return total


@dataclass(frozen=True)
class DenseCurvature(Structure):
    """All weights together, in full: for small networks, or the last layer of others."""

    name: ClassVar[str] = "dense"

    def layouts(self, uses: Sequence[LayerUse], shapes: dict[str, tuple[int, ...]]) -> Layouts:
        names = tuple(name for use in uses for name in use.names)
        return (BlockLayout(names, tuple(shapes[name] for name in names)),)

    def zeros(self, layouts: Layouts, members: int, like: Tensor) -> Params:
        size = layouts[0].size
        return {_key(layouts[0], "matrix"): like.new_zeros(members, size, size, dtype=torch.float64)}

    def add(
        self, sums: Params, member: int, layouts: Layouts, captured: Captured, outputs: Outputs, by: Curvature
    ) -> None:
        layout, into = layouts[0], sums[_key(layouts[0], "matrix")][member]
        matrices, call = by.matrices(outputs) if captured.direct else None, _single(captured, layout)
        if matrices is not None and call is not None:
            for rows, matrix in matrices:
                self._add_direct(into, layout, call.columns(rows)[:, 0], matrix)
            return
        for v in by.columns(outputs):
            for _, total in _gradients(captured, captured.backward(v), layout):
                lines = _lines(total, layout)
                into += lines.mT @ lines

    @staticmethod
    def _add_direct(into: Tensor, layout: BlockLayout, a: Tensor, matrix: Tensor) -> None:
        """sum_b L_b (x) a_b a_b^T, for each pair of outputs."""
        places = _places(layout, a.shape[1])
        for o in range(matrix.shape[1]):
            for p in range(o + 1):
                found = ((a * matrix[:, o, p].unsqueeze(1)).mT @ a).double()
                for of_row, row in places(o):
                    for of_column, column in places(p):
                        into[row, column] += found[of_row, of_column]
                        if p < o:
                            into[column, row] += found[of_row, of_column].mT

    def add_hessian(self, sums: Params, member: int, layouts: Layouts, outputs: Outputs, params: Params) -> None:
        layout, lines = layouts[0], dict[tuple[str, int], Tensor]()
        for name, entry, rows in hessian(outputs, params):
            tree = {n: rows[n].reshape(1, *s) for n, s in zip(layout.names, layout.shapes, strict=True)}
            lines[name, entry] = layout.join(tree)[0]
        pairs = zip(layout.names, layout.shapes, strict=True)
        found = torch.stack([lines[name, entry] for name, shape in pairs for entry in range(math.prod(shape))])
        sums[_key(layout, "matrix")][member] += 0.5 * (found + found.mT)

    def whitened(self, sums: Params, layout: BlockLayout, root: Params) -> Whitened:
        scale = _joined(root, layout)
        return WhitenedDense(layout, sums[_key(layout, "matrix")] * scale.unsqueeze(1) * scale.unsqueeze(2))

    def nbytes(self, layouts: Layouts, itemsize: int) -> int:
        return layouts[0].size ** 2 * (4 * DOUBLE + 2 * itemsize)


STRUCTURES: dict[str, Structure] = {
    each.name: each for each in (DiagonalCurvature(), KroneckerCurvature(), DenseCurvature())
}
"""The names that `structure=` takes in the place of a value."""
