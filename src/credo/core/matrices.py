"""Symmetric positive matrices with structure, one for each of M members, and what a normal distribution asks of them.

A vector is a row (M, ..., P): any number of them at once, one set for each member.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor


class Matrix(ABC):
    """A symmetric positive semidefinite matrix A for each of M members, (M, P, P) if it were written out."""

    @property
    @abstractmethod
    def size(self) -> int:
        """P."""

    @abstractmethod
    def power(self, v: Tensor, exponent: float) -> Tensor:
        """A^e v of rows (M, ..., P), for e = 1 and -1; for e = 1/2 and -1/2, R v with R R^T = A^(2 e)."""

    @abstractmethod
    def log_det(self) -> Tensor:
        """log |A|, (M,)."""

    @abstractmethod
    def diagonal(self) -> Tensor:
        """A_ii, (M, P)."""

    @abstractmethod
    def add_diagonal(self, values: Tensor | float) -> Matrix:
        """A + diag(values), for one number, one of each member (M, 1), or one of each entry (M, P)."""

    @abstractmethod
    def scaled(self, factor: float) -> Matrix:
        """factor A, with factor > 0."""

    def matvec(self, v: Tensor) -> Tensor:
        """A v."""
        return self.power(v, 1.0)

    __matmul__ = matvec

    def solve(self, v: Tensor) -> Tensor:
        """A^-1 v."""
        return self.power(v, -1.0)

    def sqrt_matvec(self, v: Tensor) -> Tensor:
        """R v with R R^T = A: of standard normal rows, draws from N(0, A)."""
        return self.power(v, 0.5)

    def inverse_sqrt_matvec(self, v: Tensor) -> Tensor:
        """R v with R R^T = A^-1: of standard normal rows, draws from N(0, A^-1)."""
        return self.power(v, -0.5)

    def to_dense(self) -> Tensor:
        """(M, P, P)."""
        like = self.diagonal()
        return self.matvec(torch.eye(self.size, dtype=like.dtype, device=like.device).expand(len(like), -1, -1))


def _powers(values: Tensor, exponent: float) -> Tensor:
    """values^exponent; where the exponent is negative, a sentence if one of them is not above zero."""
    return values.clamp_min(0.0) ** exponent if exponent > 0.0 else _positive(values) ** exponent


def _positive(values: Tensor) -> Tensor:
    smallest = float(values.min())
    if not smallest > 0.0:
        raise ValueError(
            f"the matrix is singular: its smallest eigenvalue is {smallest:.3g}, so it has no inverse and no log "
            "determinant; add to its diagonal (a prior precision above zero, or damping)"
        )
    return values


def _along(member: Tensor, v: Tensor) -> Tensor:
    """(M, P) with as many axes as the rows (M, ..., P)."""
    return member.reshape(len(member), *(1,) * (v.ndim - 2), -1)


def _times_rows(v: Tensor, matrix: Tensor) -> Tensor:
    """v matrix^T for rows (M, ..., P) and matrices (M, Q, P): (M, ..., Q)."""
    flat = v.reshape(len(v), -1, v.shape[-1])
    return (flat @ matrix.mT).reshape(*v.shape[:-1], matrix.shape[-2])


class _Eigen(Matrix):
    """A = Q diag(eigenvalues) Q^T: what is asked for follows from the turn into the eigenbasis and back."""

    @abstractmethod
    def eigenvalues(self) -> Tensor:
        """(M, P)."""

    def to_basis(self, v: Tensor) -> Tensor:
        """Q^T v of rows (M, ..., P)."""
        return v

    def from_basis(self, v: Tensor) -> Tensor:
        """Q v of rows (M, ..., P)."""
        return v

    def power(self, v: Tensor, exponent: float) -> Tensor:
        return self.from_basis(self.to_basis(v) * _along(_powers(self.eigenvalues(), exponent), v))

    def log_det(self) -> Tensor:
        return _positive(self.eigenvalues()).log().sum(1)


@dataclass(frozen=True, eq=False)
class Diagonal(_Eigen):
    """diag(values), with values (M, P)."""

    values: Tensor

    @staticmethod
    def nbytes(size: int, itemsize: int = 4) -> int:
        """Bytes for one member, known beforehand."""
        return size * itemsize

    @property
    def size(self) -> int:
        return self.values.shape[1]

    def eigenvalues(self) -> Tensor:
        return self.values

    diagonal = eigenvalues

    def add_diagonal(self, values: Tensor | float) -> Diagonal:
        return Diagonal(self.values + values)

    def scaled(self, factor: float) -> Diagonal:
        return Diagonal(self.values * factor)


@dataclass(frozen=True, eq=False)
class Dense(_Eigen):
    """Any matrix, by its eigenvectors in columns (M, P, P), and its eigenvalues (M, P)."""

    vectors: Tensor
    values: Tensor

    @staticmethod
    def of(matrix: Tensor) -> Dense:
        """From (M, P, P); eigenvalues that are negative by rounding become zero."""
        values, vectors = _eigh(matrix)
        return Dense(vectors, values)

    @staticmethod
    def nbytes(size: int, itemsize: int = 4) -> int:
        """Bytes for one member, known beforehand."""
        return (size * size + size) * itemsize

    @property
    def size(self) -> int:
        return self.values.shape[1]

    def eigenvalues(self) -> Tensor:
        return self.values

    def to_basis(self, v: Tensor) -> Tensor:
        return _times_rows(v, self.vectors.mT)

    def from_basis(self, v: Tensor) -> Tensor:
        return _times_rows(v, self.vectors)

    def diagonal(self) -> Tensor:
        return (self.vectors.square() * self.values.unsqueeze(1)).sum(-1)

    def add_diagonal(self, values: Tensor | float) -> Dense:
        if isinstance(values, Tensor) and values.shape[-1:] == (self.size,) != (1,):
            return Dense.of(self.to_dense() + torch.diag_embed(values))
        return replace(self, values=self.values + values)

    def scaled(self, factor: float) -> Dense:
        return replace(self, values=self.values * factor)


@dataclass(frozen=True, eq=False)
class PositiveDense(Matrix):
    """Any positive definite matrix L L^T, by its lower Cholesky factor (M, P, P): a fraction of the work of `Dense`."""

    factor: Tensor

    @staticmethod
    def of(matrix: Tensor) -> PositiveDense:
        """From (M, P, P)."""
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if bool(failed.any()) or not bool(factor.isfinite().all()):
            raise ValueError(
                "the matrix is not positive definite, so it has no Cholesky factor; add to its diagonal (a prior "
                "precision above zero, or damping)"
            )
        return PositiveDense(factor)

    @staticmethod
    def nbytes(size: int, itemsize: int = 4) -> int:
        """Bytes for one member, known beforehand."""
        return size * size * itemsize

    @property
    def size(self) -> int:
        return self.factor.shape[1]

    def power(self, v: Tensor, exponent: float) -> Tensor:
        rows = v.reshape(len(v), -1, self.size)
        if exponent in (1.0, 0.5):
            rows = rows @ self.factor if exponent == 1.0 else rows
            return (rows @ self.factor.mT).reshape(v.shape)
        if exponent == -1.0:
            rows = torch.linalg.solve_triangular(self.factor.mT, rows, upper=True, left=False)
        return torch.linalg.solve_triangular(self.factor, rows, upper=False, left=False).reshape(v.shape)

    def log_det(self) -> Tensor:
        return 2.0 * self.factor.diagonal(dim1=1, dim2=2).log().sum(1)

    def diagonal(self) -> Tensor:
        return self.factor.square().sum(-1)

    def to_dense(self) -> Tensor:
        return self.factor @ self.factor.mT

    def inverse(self) -> Tensor:
        """A^-1 written out, (M, P, P)."""
        return torch.cholesky_inverse(self.factor)

    def add_diagonal(self, values: Tensor | float) -> PositiveDense:
        added = self.diagonal().new_zeros(len(self.factor), self.size) + values
        return PositiveDense.of(self.to_dense() + torch.diag_embed(added))

    def scaled(self, factor: float) -> PositiveDense:
        return PositiveDense(self.factor * math.sqrt(factor))


@dataclass(frozen=True, eq=False)
class Kronecker(_Eigen):
    """left (x) right + shift I, by the eigenvectors (M, a, a), (M, b, b) and eigenvalues (M, a), (M, b) of the factors.

    (left (x) right) vec(V) = vec(left V right^T) for V (a, b), whose rows lie one behind the other; shift is (M, 1).
    """

    left_vectors: Tensor
    left_values: Tensor
    right_vectors: Tensor
    right_values: Tensor
    shift: Tensor

    @staticmethod
    def of(left: Tensor, right: Tensor) -> Kronecker:
        """From the factors (M, a, a) and (M, b, b)."""
        (left_values, left_vectors), (right_values, right_vectors) = _eigh(left), _eigh(right)
        return Kronecker(left_vectors, left_values, right_vectors, right_values, left_values.new_zeros(len(left), 1))

    @staticmethod
    def nbytes(left: int, right: int, itemsize: int = 4) -> int:
        """Bytes for one member, known beforehand, with the eigenvalues of the product."""
        return (left * (left + 1) + right * (right + 1) + left * right) * itemsize

    @property
    def size(self) -> int:
        return self.left_values.shape[1] * self.right_values.shape[1]

    def eigenvalues(self) -> Tensor:
        return (self.left_values.unsqueeze(2) * self.right_values.unsqueeze(1)).flatten(1) + self.shift

    def to_basis(self, v: Tensor) -> Tensor:
        return self._turned(v, self.left_vectors.mT, self.right_vectors.mT)

    def from_basis(self, v: Tensor) -> Tensor:
        return self._turned(v, self.left_vectors, self.right_vectors)

    def _turned(self, v: Tensor, left: Tensor, right: Tensor) -> Tensor:
        grid = v.reshape(len(v), -1, left.shape[1], right.shape[1])
        return (left.unsqueeze(1) @ grid @ right.unsqueeze(1).mT).reshape(v.shape)

    def diagonal(self) -> Tensor:
        left = (self.left_vectors.square() * self.left_values.unsqueeze(1)).sum(-1)
        right = (self.right_vectors.square() * self.right_values.unsqueeze(1)).sum(-1)
        return (left.unsqueeze(2) * right.unsqueeze(1)).flatten(1) + self.shift

    def add_diagonal(self, values: Tensor | float) -> Kronecker:
        if isinstance(values, Tensor) and values.ndim and values.shape[-1] != 1:
            raise ValueError(
                "only one number per member can be added to the diagonal of a Kronecker product: with a number for "
                "each entry it is no longer a product; use the same prior precision for all weights of a layer"
            )
        return replace(self, shift=self.shift + values)

    def scaled(self, factor: float) -> Kronecker:
        return replace(self, left_values=self.left_values * factor, shift=self.shift * factor)


@dataclass(frozen=True, eq=False)
class LowRankPlusDiagonal(Matrix):
    """diag(values) + U U^T, by Woodbury's identity: values (M, P) above zero, columns U (M, P, K), K below P."""

    values: Tensor
    columns: Tensor

    @staticmethod
    def nbytes(size: int, rank: int, itemsize: int = 4) -> int:
        """Bytes for one member, known beforehand."""
        return size * (rank + 1) * itemsize

    @property
    def size(self) -> int:
        return self.values.shape[1]

    def power(self, v: Tensor, exponent: float) -> Tensor:
        """With W = D^-1/2 U = L S Q^T:  A = D^1/2 (I + W W^T) D^1/2,  (I + W W^T)^e = I + L ((1 + S^2)^e - 1) L^T."""
        if exponent == 1.0:
            return v * _along(self.values, v) + _times_rows(_times_rows(v, self.columns.mT), self.columns)
        outer = _along(_positive(self.values).sqrt(), v) ** math.copysign(1.0, exponent)
        left, singular, _ = torch.linalg.svd(self._whitened, full_matrices=False)
        power = (1.0 + singular.square()) ** exponent - 1.0
        start = v * outer if exponent == -1.0 else v
        return outer * (start + _times_rows(_times_rows(start, left.mT) * _along(power, v), left))

    @property
    def _whitened(self) -> Tensor:
        """diag(values)^-1/2 U, (M, P, K)."""
        return self.columns * _positive(self.values).rsqrt().unsqueeze(2)

    def log_det(self) -> Tensor:
        return self.values.log().sum(1) + torch.log1p(torch.linalg.svdvals(self._whitened).square()).sum(1)

    def diagonal(self) -> Tensor:
        return self.values + self.columns.square().sum(-1)

    def add_diagonal(self, values: Tensor | float) -> LowRankPlusDiagonal:
        return replace(self, values=self.values + values)

    def scaled(self, factor: float) -> LowRankPlusDiagonal:
        return LowRankPlusDiagonal(self.values * factor, self.columns * math.sqrt(factor))


def _eigh(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (M, P) and eigenvectors (M, P, P); what is negative by rounding becomes zero."""
    if not bool(matrix.isfinite().all()):
        raise ValueError("the matrix has entries that are not finite, so it has no eigenvalues")
    values, vectors = torch.linalg.eigh(matrix)
    noise = torch.finfo(values.dtype).eps * matrix.shape[-1] * values.abs().amax(1, keepdim=True)
    return torch.where(values < noise, 0.0, values), vectors
