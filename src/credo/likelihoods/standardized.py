"""A likelihood for standardized targets, in the units of the user."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.arrays import constant, shown_by
from credo.core.checks import check_kind, check_positive, finite_numbers
from credo.core.trees import Params
from credo.likelihoods.base import Likelihood, NumericLikelihood
from credo.likelihoods.gaussian import (
    Gaussian,
    HeteroscedasticGaussian,
    LearnedGaussian,
    MarginalGaussian,
    SharedGaussian,
)

ROOM = 1e8
"""How many times larger or smaller than that of the training targets a variance may be before it has no number."""

PIECE = 2**22
"""Numbers that are brought into the units of the target at a time."""


@dataclass(frozen=True)
class Standardized(NumericLikelihood):
    """Another likelihood, of targets that are standardized inside: the network works in numbers of order one.

    p(y | f) = p_base(z | f) / prod_d scale_d,   z_d = (y_d - loc_d) / scale_d

    Log densities, moments, quantiles and samples are those of y. `fit` puts it around the likelihood that it chooses
    itself, with the means and standard deviations of the training targets.

    Args:
        base: the likelihood of z; its own numbers, such as a scale of noise, are those of standardized targets.
        loc: what is subtracted from each of the D targets.
        scale: what each is divided by.

    Examples:
        >>> import torch
        >>> from credo.likelihoods import Gaussian, Standardized
        >>> grams = Standardized(Gaussian(scale=0.1), loc=(70_000.0,), scale=(10_000.0,))
        >>> outputs = torch.tensor([[0.5]])
        >>> float(grams.mean(outputs, {})), round(float(grams.variance(outputs, {}).sqrt()))
        (75000.0, 1000)
    """

    base: NumericLikelihood
    loc: tuple[float, ...]
    scale: tuple[float, ...]

    def __post_init__(self) -> None:
        check_kind("base", self.base, "likelihoods.Gaussian()", NumericLikelihood)
        if self.base.discrete:
            raise ValueError(
                f"counts cannot be standardized: give {self.base} itself in place of Standardized({self.base})"
            )
        for name in ("loc", "scale"):
            object.__setattr__(self, name, finite_numbers(name, getattr(self, name)))
        for each in self.scale:
            check_positive("scale", each)
        if len(self.loc) != len(self.scale):
            raise ValueError(f"loc has {len(self.loc)} number(s) and scale {len(self.scale)}: give one for each target")

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        y = self.base.check_targets(y, outputs)
        if y.shape[-1] != len(self.loc):
            raise ValueError(f"y has {y.shape[-1]} column(s), and {len(self.loc)} are standardized")
        self.base.check_targets(self.standardize(y, y), outputs)
        return y

    def parameters(self, outputs: int) -> Params:
        return self.base.parameters(outputs)

    def log_prior(self, params: Params) -> Tensor | float:
        return self.base.log_prior(params)

    def draw_parameters(self, outputs: int, members: int, generator: torch.Generator) -> Params:
        return self.base.draw_parameters(outputs, members, generator)

    def standardize(self, y: Tensor, outputs: Tensor) -> Tensor:
        """z = (y - loc) / scale by float64, in the precision of the outputs."""
        loc, scale = self._loc_scale(outputs)
        return ((y.double() - loc) / scale).to(outputs.dtype)

    @property
    def log_volume(self) -> float:
        """sum_d log scale_d: by how much log p(z) of an example is larger than log p(y)."""
        return math.fsum(map(math.log, self.scale))

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        # in float64: a sum over many examples would drown their differences in that of the volumes
        return self.base.log_prob(outputs, self.standardize(y, outputs), params).double() - self.log_volume

    def log_prob_each(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        each = self.base.log_prob_each(outputs, self.standardize(y, outputs), params).double()
        return each - self._loc_scale(outputs)[1].log()

    def hessian(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return self.base.hessian(outputs, self.standardize(y, outputs), params)

    def fisher(self, outputs: Tensor, params: Params) -> Tensor:
        return self.base.fisher(outputs, params)

    def mean(self, outputs: Tensor, params: Params) -> Tensor:
        return self._located(self.base.mean(outputs, params))

    def variance(self, outputs: Tensor, params: Params) -> Tensor:
        return self._stretched(self.base.variance(outputs, params), power=2)

    def sample(self, outputs: Tensor, params: Params, generator: torch.Generator) -> Tensor:
        return self._located(self.base.sample(outputs, params, generator))

    def entropy(self, outputs: Tensor, params: Params) -> Tensor:
        entropy = self.base.entropy(outputs, params)
        return entropy + self._loc_scale(outputs)[1].log().to(entropy.dtype)

    def cdf(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return self.base.cdf(outputs, self.standardize(y, outputs), params)

    def survival(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return self.base.survival(outputs, self.standardize(y, outputs), params)

    def spread(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        lower, upper = self.base.spread(outputs, params)
        return self._located(lower), self._located(upper)

    def knots(self, outputs: Tensor, params: Params) -> Tensor | None:
        found = self.base.knots(outputs, params)
        return None if found is None else self._located(found)

    def in_units(self, outputs: Tensor, params: Params) -> tuple[Likelihood, Tensor, Params]:
        """The same distributions by a normal likelihood of y, where the base is one of credo's own normal ones.

        The outputs are then means in the units of y. For another base they stay as they are, and so does the
        likelihood, whose moments and densities are in these units in any case.
        """
        base = self.base
        if type(base) is HeteroscedasticGaussian:
            mean, each = base.location_scale(outputs, params)
            return MarginalGaussian(), self._located(mean), {"scale": self._stretched(each)}
        if type(base) in (LearnedGaussian, SharedGaussian):
            log_scale = params["log_scale"]
        elif type(base) is Gaussian:
            log_scale = outputs.new_full((*outputs.shape[:-2], outputs.shape[-1]), math.log(base.scale))
        else:
            return self, outputs, params
        stretched = log_scale.double() + self._loc_scale(outputs)[1].log()
        return LearnedGaussian(), self._located(outputs), {"log_scale": stretched.to(self._dtype(outputs))}

    def covariance_in_units(self, covariance: Tensor) -> Tensor:
        """Of outputs (..., D, D) whose covariance is given, in the units of y."""
        scale = self._loc_scale(covariance)[1]
        return (covariance.double() * scale * scale.unsqueeze(-1)).to(self._dtype(covariance))

    def held_by(self, dtype: torch.dtype) -> bool:
        """Whether numbers of this precision hold the targets and show the differences between them."""
        return all(shown_by(dtype, loc, scale) for loc, scale in zip(self.loc, self.scale, strict=True))

    def _loc_scale(self, like: Tensor) -> tuple[Tensor, Tensor]:
        return constant(self.loc, like.device), constant(self.scale, like.device)

    def _located(self, values: Tensor) -> Tensor:
        """loc + scale * values, (..., B, D)."""
        loc, scale = self._loc_scale(values)
        if values.numel() <= PIECE:
            return (values.double() * scale + loc).to(self._dtype(values))
        located = torch.empty_like(values, dtype=self._dtype(values))
        for draw in range(len(values)):  # one at a time: float64 takes twice the memory
            located[draw] = values[draw].double() * scale + loc
        return located

    def _stretched(self, values: Tensor, power: int = 1) -> Tensor:
        return (values.double() * self._loc_scale(values)[1].pow(power)).to(self._dtype(values))

    def _dtype(self, like: Tensor) -> torch.dtype:
        """The precision of predictions: that of the network, or float64 where it does not hold the units of y."""
        info = torch.finfo(like.dtype)
        room = all(ROOM * info.tiny <= scale**2 <= info.max / ROOM for scale in self.scale)
        return like.dtype if room and self.held_by(like.dtype) else torch.float64
