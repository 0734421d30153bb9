"""Noise with heavy tails."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.checks import check_options, check_positive
from credo.core.special import incomplete_beta, log_beta
from credo.core.trees import Params
from credo.likelihoods.base import NumericLikelihood, as_columns, check_finite

PRIOR_SCALE = 2.0
"""Standard deviation of the prior of log_excess."""
TAIL = 7.3
"""Standard deviations of a normal beyond which less than 1e-12 lies, with room for Wallace's formula."""
LARGE = 16
"""Numbers for each value of df from which the table is used: it is made once, and integrals ask for many more."""
STEP, FARTHEST = 0.005, 16.0
"""Of the table, in asinh(z): up to z = 4e6."""
KNOTS = 14
"""Places on either side of the center at which integrals are cut."""


@dataclass(frozen=True)
class HeteroscedasticStudentT(NumericLikelihood):
    """Student's t noise whose scale depends on the input: the network has two outputs for each target.

    p(y | f, r) = t_df((y - f) / s) / s,   s = softplus(r) + floor,   outputs = (f_1 .. f_D, r_1 .. r_D),
    df = least_df + exp(log_excess),   log_excess ~ N(log(initial_df - least_df), 2^2)

    The degrees of freedom are learned with the weights, one number for each target: few of them make outliers
    ordinary, many make the noise normal. The variance of a target is s^2 df / (df - 2).

    Args:
        floor: smallest scale, in the units of y; keeps the density bounded.
        initial_df: where the degrees of freedom start, and the center of their (wide) prior.
        least_df: what they stay above: at 2 there would be no variance any more.

    Examples:
        >>> outputs = torch.tensor([[0.0, 0.5413]])  # softplus(0.5413) = 1
        >>> likelihood = HeteroscedasticStudentT(initial_df=4.0)
        >>> own = {name: value.unsqueeze(0) for name, value in likelihood.parameters(2).items()}
        >>> round(float(likelihood.log_prob(outputs.unsqueeze(0), torch.tensor([[5.0]]), own)), 2)  # a normal's: -13.42
        -5.93

    Reference: K. L. Lange, R. J. A. Little, J. M. G. Taylor, "Robust statistical modeling using the t distribution",
        1989, https://doi.org/10.1080/01621459.1989.10478852
    """

    outputs_per_target: ClassVar[int] = 2

    floor: float = 1e-3
    initial_df: float = 10.0
    least_df: float = 2.5

    def __post_init__(self) -> None:
        check_options(self)
        check_positive("floor", self.floor)
        if not 2.0 < self.initial_df < math.inf:
            raise ValueError(f"initial_df must lie above 2 and be finite, got {self.initial_df}")
        if not 2.0 < self.least_df < self.initial_df:
            raise ValueError(f"least_df must lie between 2 and initial_df = {self.initial_df}, got {self.least_df}")

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        y = as_columns(y, outputs, type(self).__name__, self.outputs_per_target)
        check_finite(y)
        return y

    def parameters(self, outputs: int) -> Params:
        return {"log_excess": torch.full((outputs // 2,), self._center)}

    @property
    def _center(self) -> float:
        return math.log(self.initial_df - self.least_df)

    def log_prior(self, params: Params) -> Tensor:
        z = (params["log_excess"] - self._center) / PRIOR_SCALE
        return (-0.5 * z.square() - math.log(PRIOR_SCALE * math.sqrt(2.0 * math.pi))).sum(-1)

    def draw_parameters(self, outputs: int, members: int, generator: torch.Generator) -> Params:
        noise = torch.randn(members, outputs // 2, generator=generator, device=generator.device)
        return {"log_excess": self._center + PRIOR_SCALE * noise}

    def location_scale_df(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor, Tensor]:
        """Center, scale and degrees of freedom, broadcastable to (..., B, D)."""
        location, raw = outputs.chunk(2, dim=-1)
        return location, F.softplus(raw) + self.floor, self.least_df + params["log_excess"].exp().unsqueeze(-2)

    def log_prob_each(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        location, scale, df = self.location_scale_df(outputs, params)
        z = (y - location) / scale
        return _log_norm(df) - 0.5 * (df + 1.0) * torch.log1p(z.square() / df) - scale.log()

    def mean(self, outputs: Tensor, params: Params) -> Tensor:
        return self.location_scale_df(outputs, params)[0]

    def variance(self, outputs: Tensor, params: Params) -> Tensor:
        _, scale, df = self.location_scale_df(outputs, params)
        return scale.square() * df / (df - 2.0)

    def sample(self, outputs: Tensor, params: Params, generator: torch.Generator) -> Tensor:
        location, scale, df = self.location_scale_df(outputs, params)
        half = (0.5 * df).expand_as(location).contiguous()
        chi = 2.0 * torch._standard_gamma(half, generator=generator)
        noise = torch.randn(location.shape, generator=generator, dtype=location.dtype, device=location.device)
        return location + scale * noise * (df / chi).sqrt()

    def entropy(self, outputs: Tensor, params: Params) -> Tensor:
        _, scale, df = self.location_scale_df(outputs, params)
        half = 0.5 * (df + 1.0)
        return half * (torch.digamma(half) - torch.digamma(0.5 * df)) - _log_norm(df) + scale.log()

    def cdf(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return self._tails(outputs, y, params)[0]

    def survival(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return self._tails(outputs, y, params)[1]

    def _tails(self, outputs: Tensor, y: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        """P(target <= y) and P(target > y): 1/2 I_x(df / 2, 1/2) with x = df / (df + z^2) on the nearer side."""
        location, scale, df = self.location_scale_df(outputs.double(), {n: t.double() for n, t in params.items()})
        z = (y.double() - location) / scale
        tail = torch.where(z.isinf(), 0.0, student_tail(z.abs(), df))
        below, above = torch.where(z < 0, tail, 1.0 - tail), torch.where(z < 0, 1.0 - tail, tail)
        return below.to(outputs.dtype), above.to(outputs.dtype)

    def fisher(self, outputs: Tensor, params: Params) -> Tensor:
        """(df + 1) / (df + 3) / s^2 for the centers and 2 df / (df + 3) (ds/dr)^2 / s^2 for r, on the diagonal."""
        _, scale, df = self.location_scale_df(outputs, params)
        precision = scale.square().reciprocal() / (df + 3.0)
        slope = outputs.chunk(2, dim=-1)[1].sigmoid()
        return torch.diag_embed(torch.cat([(df + 1.0) * precision, 2.0 * df * slope.square() * precision], dim=-1))

    def spread(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        location, scale, df = self.location_scale_df(outputs, params)
        reach = _reach(df) * scale
        return location - reach, location + reach

    def knots(self, outputs: Tensor, params: Params) -> Tensor:
        """Even steps of asinh(z), which are even in the middle and geometric in the tails."""
        location, scale, df = self.location_scale_df(outputs, params)
        grid = torch.linspace(-1.0, 1.0, 2 * KNOTS + 1, dtype=outputs.dtype, device=outputs.device)
        steps = grid.view(-1, *[1] * location.ndim) * torch.asinh(_reach(df))
        return location + scale * torch.sinh(steps)


def student_tail(z: Tensor, df: Tensor) -> Tensor:
    """P(t > z) for z from 0 on: 1/2 I_x(df / 2, 1/2) with x = df / (df + z^2), in float64.

    For many z and few df by cubic interpolation of its logarithm over asinh(z), with the exact values and slopes at the
    nodes, which keeps ten digits of the tail.

    Args:
        z: in float64.
        df: degrees of freedom, broadcastable to z.
    """
    if z.numel() < LARGE * df.numel() or not bool(z.isfinite().any()):
        return _exact_tail(z, df)
    u = torch.asinh(z).clamp_max(FARTHEST)
    place = u / STEP
    node = place.floor().long().clamp_max(int(FARTHEST / STEP) - 1)
    share = place - node
    value, slope = _tail_table(tuple(df.reshape(-1).tolist()), df.device)  # (E, G)
    each = torch.arange(df.numel(), device=df.device).view(df.shape).expand_as(z)
    left, right, rise, fall = (t[each, node + k] for t in (value, slope) for k in (0, 1))
    # the cubic polynomial of Hermite
    bend = share * (1.0 - share)
    line = left + share * (right - left)
    curve = bend * ((1.0 - share) * (STEP * rise - (right - left)) - share * (STEP * fall - (right - left)))
    return (line + curve).exp()


def _exact_tail(z: Tensor, df: Tensor) -> Tensor:
    total = df + z.square()
    return 0.5 * incomplete_beta(df / total, z.square() / total, 0.5 * df, torch.full_like(df, 0.5))[0]


@lru_cache(maxsize=64)
def _tail_table(df: tuple[float, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """log P(t > sinh(u)) and its slope in u at even steps, (E, G) each."""
    u = STEP * torch.arange(int(FARTHEST / STEP) + 1, dtype=torch.float64, device=device)
    z, each = torch.sinh(u), torch.tensor(df, dtype=torch.float64, device=device).unsqueeze(1)
    tail = _exact_tail(z, each).clamp_min(torch.finfo(z.dtype).tiny)
    log_density = _log_norm(each) - 0.5 * (each + 1.0) * torch.log1p(z.square() / each)
    return tail.log(), -(log_density - tail.log()).exp() * torch.cosh(u)


def _log_norm(df: Tensor) -> Tensor:
    """log density of the standard t distribution at its center, by float64: its terms cancel where df is large."""
    exact = df.double()
    return (-0.5 * exact.log() - log_beta(0.5 * exact, torch.full_like(exact, 0.5))).to(df.dtype)


def _reach(df: Tensor) -> Tensor:
    """Scales that leave less than 1e-12 outside: the normal's, by Wallace's formula z^2 = c df log(1 + t^2 / df).

    Reference: D. L. Wallace, "Bounds on normal approximations to Student's and the chi-square distributions", 1959.
    """
    z = TAIL * (8.0 * df + 3.0) / (8.0 * df + 1.0)
    return (df * torch.expm1(z.square() / df)).sqrt()
