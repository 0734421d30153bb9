"""Curvature in the units of the prior, ready for any multiple of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from credo.core.matrices import Diagonal, Kronecker, PositiveDense
from credo.posteriors.blocks import BlockLayout, WeightBlock


@dataclass(frozen=True, eq=False)
class Whitened(ABC):
    """Curvature of one block in the units of the prior, K = P^-1/2 H P^-1/2, in float64."""

    layout: BlockLayout

    @property
    @abstractmethod
    def eigenvalues(self) -> Tensor:
        """(M, P)."""

    @abstractmethod
    def block(self, scale: Tensor) -> WeightBlock:
        """K scale + I, for a number of each member (M, 1)."""


@dataclass(frozen=True, eq=False)
class WhitenedDiagonal(Whitened):
    """By its entries."""

    values: Tensor

    @property
    def eigenvalues(self) -> Tensor:
        return self.values

    def block(self, scale: Tensor) -> WeightBlock:
        return WeightBlock(self.layout, Diagonal(self.values * scale + 1.0))


@dataclass(frozen=True, eq=False)
class WhitenedProduct(Whitened):
    """By the eigenvectors of its factors."""

    matrix: Kronecker

    @property
    def eigenvalues(self) -> Tensor:
        return self.matrix.eigenvalues()

    def block(self, scale: Tensor) -> WeightBlock:
        left = self.matrix.left_values * scale
        return WeightBlock(self.layout, replace(self.matrix, left_values=left, shift=torch.ones_like(scale)))


@dataclass(frozen=True, eq=False)
class WhitenedDense(Whitened):
    """Written out."""

    matrix: Tensor

    @property
    def eigenvalues(self) -> Tensor:
        return torch.linalg.eigvalsh(self.matrix)

    def block(self, scale: Tensor) -> WeightBlock:
        whole = self.matrix * scale.unsqueeze(2)
        whole.diagonal(dim1=1, dim2=2).add_(1.0)
        return WeightBlock(self.layout, PositiveDense.of(whole))
