"""Bayes the hacker's way: everything on a grid, sums instead of integrals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from credo.core.checks import check_at_least
from credo.exact.inputs import vector


def midpoints(lower: float, upper: float, points: int) -> Tensor:
    """The midpoints of `points` equal cells between lower and upper, (points,).

    Examples:
        >>> midpoints(0.0, 1.0, 4).tolist()
        [0.125, 0.375, 0.625, 0.875]
    """
    check_at_least("points", points, 2)
    if not lower < upper:
        raise ValueError(f"lower must be below upper, got {lower} and {upper}")
    return lower + (torch.arange(points, dtype=torch.float64) + 0.5) * ((upper - lower) / points)


@dataclass(frozen=True, eq=False)
class Grid:
    """Bayes' rule on a grid of parameters.

    p(w_k | data) = p(data | w_k) p(w_k) / sum_j p(data | w_j) p(w_j)

    The work grows as points to the power of the number of parameters: two are fine, ten are not.

    Attributes:
        axes: evenly spaced midpoints along each of P parameters, (n_1,) .. (n_P,).
        log_prior: log p(w) at the grid's points, up to a constant, (n_1, .., n_P).
        log_likelihood: log p(data | w) at the same points.
    """

    axes: tuple[Tensor, ...]
    log_prior: Tensor
    log_likelihood: Tensor

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", tuple(_axis(axis, k) for k, axis in enumerate(self.axes)))
        shape = tuple(len(axis) for axis in self.axes)
        for name in ("log_prior", "log_likelihood"):
            given = tuple(getattr(self, name).shape)
            if given != shape:
                raise ValueError(f"{name} has shape {given}, and the axes make a grid of shape {shape}")
        if not bool(torch.isfinite(self.log_prior + self.log_likelihood).any()):
            raise ValueError("prior times likelihood is zero at every point of the grid: move the axes to the data")

    def with_flat_prior(self) -> Grid:
        """The same grid with every point equally probable before the data."""
        return replace(self, log_prior=torch.zeros_like(self.log_prior))

    @property
    def cell(self) -> float:
        """Volume of one cell."""
        return float(torch.stack([axis[1] - axis[0] for axis in self.axes]).prod())

    @cached_property
    def points(self) -> Tensor:  # (n_1, .., n_P, P)
        """The parameters at each point."""
        return torch.stack(torch.meshgrid(*self.axes, indexing="ij"), dim=-1)

    @cached_property
    def prior(self) -> Tensor:
        """Prior density at each point; its sum times the cell is one."""
        return _softmax(self.log_prior) / self.cell

    @property
    def likelihood(self) -> Tensor:
        """p(data | w) at each point, divided by its largest value: only ratios matter."""
        return (self.log_likelihood - self.log_likelihood.max()).exp()

    @cached_property
    def weights(self) -> Tensor:
        """Posterior probability of each cell; they sum to one."""
        return _softmax(self.log_prior + self.log_likelihood)

    @property
    def posterior(self) -> Tensor:
        """Posterior density at each point; its sum times the cell is one."""
        return self.weights / self.cell

    @property
    def log_evidence(self) -> float:
        """log p(data) = log sum_k p(data | w_k) p(w_k), the prior normalized on the grid."""
        flat_prior, flat_likelihood = self.log_prior.flatten(), self.log_likelihood.flatten()
        return float(torch.logsumexp(flat_prior + flat_likelihood, 0) - torch.logsumexp(flat_prior, 0))

    def expect(self, values: Tensor) -> Tensor:
        """sum_k p(w_k | data) values_k: values (n_1, .., n_P, ...) to (...)."""
        return torch.tensordot(self.weights, values.double(), dims=len(self.axes))

    @cached_property
    def mean(self) -> Tensor:
        """Posterior mean, (P,)."""
        return self.expect(self.points)

    @cached_property
    def covariance(self) -> Tensor:
        """Posterior covariance, (P, P)."""
        centered = self.points - self.mean
        return self.expect(centered.unsqueeze(-1) * centered.unsqueeze(-2))

    def marginal(self, axis: int) -> Tensor:
        """Posterior density of one parameter along its axis, (n_axis,)."""
        others = [k for k in range(len(self.axes)) if k != axis % len(self.axes)]
        mass = self.weights.sum(others) if others else self.weights
        return mass / (self.axes[axis][1] - self.axes[axis][0])

    @property
    def edge_mass(self) -> float:
        """Posterior probability in the outermost cells: when it is not tiny, the grid cuts the posterior off."""
        inner = self.weights
        for k in range(len(self.axes)):
            inner = inner.narrow(k, 1, inner.shape[k] - 2)
        return float(1 - inner.sum())


def _softmax(logs: Tensor) -> Tensor:
    return torch.softmax(logs.flatten(), 0).reshape(logs.shape)


def _axis(values: Tensor, number: int) -> Tensor:
    axis = vector(values, f"axis {number}")
    steps = axis.diff()
    if len(axis) < 2 or not bool((steps > 0).all()) or float(steps.max() - steps.min()) > 1e-6 * float(steps.mean()):
        raise ValueError(f"axis {number} must be evenly spaced and increasing, for example exact.midpoints(-1, 1, 200)")
    return axis
