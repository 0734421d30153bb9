"""A normal distribution over weights in blocks, each with its own structure, in the units of the prior.

precision = P^1/2 (K + I) P^1/2,   P the diagonal precision of the prior,   K = P^-1/2 H P^-1/2

H is the curvature of the negative log likelihood. In these coordinates the prior is standard normal, so that one matrix
K + I for each block is all there is, whatever the prior's precisions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from credo.core.matrices import Diagonal, Kronecker, Matrix, PositiveDense
from credo.core.trees import Params, map_tensors

PARTS = {"diagonal": ("values",), "dense": ("factor",), "kronecker": tuple(Kronecker.__dataclass_fields__)}
"""The tensors of each kind of block, as they are saved."""


@dataclass(frozen=True)
class BlockLayout:
    """Where parameters lie in the vector of a block.

    Args:
        names: of the parameters.
        shapes: theirs, without a member axis.
        product: whether the vector is a matrix (outputs, columns) row by row, whose columns are those of the weight and
            one for the bias; otherwise the parameters lie one behind the other.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    product: bool = False

    @property
    def size(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes)

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows and columns of a product."""
        rows = self.shapes[0][0]
        return rows, self.size // rows

    def join(self, tree: Mapping[str, Tensor], lead: int = 1) -> Tensor:
        """Parameters (*lead, *shape) as vectors (*lead, P)."""
        parts = [tree[name] for name in self.names]
        if not self.product:
            return torch.cat([t.flatten(lead) if t.ndim > lead else t.unsqueeze(-1) for t in parts], dim=-1)
        return torch.cat([t.flatten(lead + 1) if t.ndim > lead + 1 else t.unsqueeze(-1) for t in parts], -1).flatten(
            lead
        )

    def split(self, vectors: Tensor) -> Params:
        """The inverse of `join`."""
        front, found, start = vectors.shape[:-1], {}, 0
        grid = vectors.reshape(*front, *self.sizes) if self.product else vectors
        for name, shape in zip(self.names, self.shapes, strict=True):
            width = math.prod(shape[1:] if self.product else shape)
            found[name] = grid[..., start : start + width].reshape(*front, *shape)
            start += width
        return found


@dataclass(frozen=True, eq=False)
class WeightBlock:
    """Some parameters, and K + I over them."""

    layout: BlockLayout
    precision: Matrix

    @property
    def kind(self) -> str:
        return next(kind for kind in PARTS if type(self.precision) is _KINDS[kind])

    @property
    def smallest(self) -> Tensor:
        """The smallest eigenvalue, or entry of the root's diagonal, of each member, (M,)."""
        if isinstance(self.precision, PositiveDense):
            return self.precision.factor.diagonal(dim1=1, dim2=2).amin(1)
        assert isinstance(self.precision, Diagonal | Kronecker)
        return self.precision.eigenvalues().amin(1)

    @property
    def effective(self) -> Tensor:
        """tr K (K + I)^-1 of each member, (M,)."""
        if isinstance(self.precision, PositiveDense):
            return self.layout.size - self.precision.inverse().diagonal(dim1=1, dim2=2).sum(1)
        assert isinstance(self.precision, Diagonal | Kronecker)
        return (1.0 - self.precision.eigenvalues().reciprocal()).sum(1)

    @property
    def direct(self) -> Tensor:
        """(K + I)^-1 written out, (M, P, P), where it is dense."""
        assert isinstance(self.precision, PositiveDense)
        return self.precision.inverse()

    def of_member(self, member: int) -> WeightBlock:
        return replace(self, precision=map_tensors(lambda _, t: t[member : member + 1], self.precision))

    def draws(self, noise: Tensor) -> Tensor:
        """Draws from N(0, (K + I)^-1) of standard normal vectors (M, S, P)."""
        return self.precision.inverse_sqrt_matvec(noise)

    def covariance(self, rows: Tensor) -> Tensor:
        """J (K + I)^-1 J^T of rows J (B, E, P) of one member, (B, E, E)."""
        flat = rows.flatten(0, 1).unsqueeze(0)
        if isinstance(self.precision, PositiveDense):
            factor = self.precision.factor[0]
            half = torch.linalg.solve_triangular(factor, flat[0].mT, upper=False).mT
        else:
            assert isinstance(self.precision, Diagonal | Kronecker)
            half = (self.precision.to_basis(flat) * self.precision.eigenvalues().rsqrt().unsqueeze(1))[0]
        half = half.reshape(rows.shape)
        return half @ half.mT

    def rescaled(self, factor: float) -> WeightBlock:
        """With the prior's precision so many times as large: K / factor + I."""
        if isinstance(self.precision, PositiveDense):
            return replace(self, precision=_rescaled_dense(self.precision, factor))
        curvature = self.precision.add_diagonal(-1.0).scaled(1.0 / factor)
        return replace(self, precision=curvature.add_diagonal(1.0))


_KINDS: dict[str, type] = {"diagonal": Diagonal, "dense": PositiveDense, "kronecker": Kronecker}


def _rescaled_dense(precision: PositiveDense, factor: float) -> PositiveDense:
    whole = precision.to_dense() / factor
    whole.diagonal(dim1=1, dim2=2).add_(1.0 - 1.0 / factor)
    return PositiveDense.of(whole)


def packed(blocks: Sequence[WeightBlock]) -> Params:
    """The tensors of blocks by names that say what they are."""
    found = {}
    for block in blocks:
        for part in PARTS[block.kind]:
            # in the order of rows, as they are read back: products of other orders round differently
            t = getattr(block.precision, part).contiguous()
            found[f"{block.kind}:{'+'.join(block.layout.names)}:{part}"] = t
    return found


def unpacked(tensors: Mapping[str, Tensor], params: Mapping[str, Tensor]) -> tuple[WeightBlock, ...]:
    """The inverse of `packed`, with parameters (M, *shape)."""
    groups: dict[tuple[str, str], Params] = {}
    for key, t in tensors.items():
        kind, names, part = _parsed(key)
        groups.setdefault((kind, names), {})[part] = t
    return tuple(_block(kind, tuple(names.split("+")), parts, params) for (kind, names), parts in groups.items())


def _parsed(key: str) -> tuple[str, str, str]:
    kind, _, rest = key.partition(":")
    names, _, part = rest.rpartition(":")
    if kind not in PARTS or part not in PARTS[kind]:
        raise ValueError(f"the curvature holds {key!r}, which is no part of a block")
    return kind, names, part


def _block(kind: str, names: tuple[str, ...], parts: Params, params: Mapping[str, Tensor]) -> WeightBlock:
    if missing := [name for name in names if name not in params] or [p for p in PARTS[kind] if p not in parts]:
        raise ValueError(f"a block of the curvature lacks {missing[0]!r}")
    layout = BlockLayout(names, tuple(tuple(params[name].shape[1:]) for name in names), kind == "kronecker")
    members = len(params[names[0]])
    for part, t in parts.items():
        if tuple(t.shape) != (members, *_shape(layout, part)):
            raise ValueError(f"{part} of the block of {', '.join(names)} has shape {tuple(t.shape)}")
    block = WeightBlock(layout, _KINDS[kind](**parts))
    if not bool((block.smallest > 0).all()):
        raise ValueError(f"the precision of {', '.join(names)} is not positive")
    return block


def _shape(layout: BlockLayout, part: str) -> tuple[int, ...]:
    if part in ("values", "factor"):
        return (layout.size,) * (1 if part == "values" else 2)
    rows, columns = layout.sizes
    sizes = {"left": rows, "right": columns}
    if part == "shift":
        return (1,)
    side, _, what = part.partition("_")
    return (sizes[side],) * (2 if what == "vectors" else 1)
