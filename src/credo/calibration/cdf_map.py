"""One smooth map of the distribution function that calibrates all of a prediction of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from credo.calibration.base import CalibrationRows, Calibrator, Predictions, parts
from credo.calibration.intervals import numbers
from credo.calibration.mapped import DEEPEST, MappedPredictive
from credo.calibration.scores import ScoreMap
from credo.core.rng import Stream
from credo.likelihoods.gaussian import normal_cdf
from credo.predictive import Predictive

SPREAD = (1.0, 0.5, 0.5, 0.5)
"""Standard deviations of the density around the identity: of loc, log scale, skew and log tail."""
BEYOND = 0.1
"""Part of the targets that may lie where the predictions have no numbers any more."""
STEPS = 200
"""Steps of the optimizer at most; it stops much earlier."""


@dataclass(frozen=True, eq=False)
class CdfMap(Calibrator):
    """A monotone map g of the predictive distribution function: widths, tails, skewness and offset at once.

    F_calibrated(y) = g(F(y)),   log p_calibrated(y) = log p(y) + log g'(F(y)),   g = Phi h Phi^-1,
    h(z) = loc + scale sinh(tail asinh(z) - skew)

    h turns the normal scores z_i = Phi^-1(F_i(y_i)) of examples that were not learned from into standard normal ones. A
    scale below one widens all intervals, a tail below one makes both tails heavier. F is the posterior's own, so what
    is wide stays wide: far from the data the calibrated prediction opens as the posterior does. Quantiles, densities,
    moments and samples all follow; the variance is still epistemic + aleatoric, those of the calibrated draws.

    The four numbers of a target maximize the likelihood of the examples, with a normal density around the identity that
    is worth about one example.

    Attributes:
        loc: of each target, (D,); 0 for no change.
        scale: likewise; 1 for no change.
        skew: likewise; 0 for no change.
        tail: likewise; 1 for no change.

    Reference: V. Kuleshov, N. Fenner, S. Ermon, "Accurate uncertainties for deep learning using calibrated
        regression", 2018, https://arxiv.org/abs/1807.00263; the shape of h is that of M. C. Jones, A. Pewsey,
        "Sinh-arcsinh distributions", 2009, https://doi.org/10.1093/biomet/asp053
    """

    loc: Tensor
    scale: Tensor
    skew: Tensor
    tail: Tensor

    def __post_init__(self) -> None:
        values = torch.stack([self.loc, self.scale, self.skew, self.tail])
        if values.ndim != 2 or not bool(values.isfinite().all()) or not bool((values[[1, 3]] > 0).all()):
            raise ValueError("loc, scale, skew and tail must be (D,), finite, and scale and tail positive")

    @staticmethod
    def of(predictions: Predictions, y: Any, *, weights: Any = None) -> CdfMap:
        """From predictions for examples that were not learned from.

        Args:
            predictions: of the posterior; or a list of those of several folds, for the rows that each has not seen.
            y: what was observed, (B,) or (B, D), or at positions; of several predictions a list.
            weights: how much each example counts, (B,), likewise; None for one each.

        Examples:
            >>> import torch, credo
            >>> from credo import likelihoods
            >>> x, y = torch.zeros(2000, 1), 3.0 * credo.Stream(0).normal(2000, 1)  # three times the stated noise
            >>> model = credo.Model(credo.nets.MLP(1, 1), likelihoods.Gaussian(scale=1.0))
            >>> posterior = credo.fit(model, (x[:1000], y[:1000]), credo.MAP(epochs=50))
            >>> calibrator = CdfMap.of(posterior.predict(x[1000:]), y[1000:])
            >>> abs(credo.Calibrated.of(posterior, calibrator).predict(x[:1]).stddev.item() - 3.0) < 0.2
            True
        """
        given = parts(predictions, y, weights)
        scores = torch.cat([_scores(part, number) for number, part in enumerate(given)])
        if not bool(scores.isfinite().all()):
            raise ValueError("the predictions hold NaN: there is no saying how wrong they were")
        weights = torch.cat([part.weights for part in given])
        _check_reached(scores, weights)
        best = _best(scores, weights)
        return CdfMap(best.loc, best.scale, best.skew, best.tail)

    def extrapolated(self, before: CdfMap, steps: float) -> CdfMap:
        """The map that comes `steps` of the way from `before` to this one further on; all four numbers go straight on.

        An average of m networks errs less than one of them, and doubts itself more: what it needs of a map goes with
        1/m, so that the map for many networks follows from those for one and for two.

        Args:
            before: another map, of the same targets.
            steps: in units of the way from `before` to this map; 0 for this map.

        Examples:
            >>> import torch
            >>> none, some = torch.zeros(1), torch.ones(1)
            >>> one, two = (CdfMap(none, scale * some, none, some) for scale in (0.5, 0.75))
            >>> two.extrapolated(one, 1.0).scale
            tensor([1.1250])
        """
        mine, other = self._theta(), before._theta()
        best = map_of(mine + steps * (mine - other))
        return CdfMap(best.loc, best.scale, best.skew, best.tail)

    def _theta(self) -> Tensor:
        """loc, log scale, skew and log tail, (4, D)."""
        return torch.stack([self.loc, self.scale.log(), self.skew, self.tail.log()])

    @property
    def score_map(self) -> ScoreMap:
        """h."""
        return ScoreMap(self.loc, self.scale, self.skew, self.tail)

    def apply(self, prediction: Predictive) -> Predictive:
        base = numbers(prediction, "CdfMap")
        if base.conformal is not None:
            raise ValueError("a map of the distribution function comes before conformal intervals, not after them")
        device = base.draws.device
        score_map = ScoreMap(*(base.by_target(t.to(device)) for t in (self.loc, self.scale, self.skew, self.tail)))
        return MappedPredictive(base.likelihood, base.draws, base.params, base.log_weights, base, score_map)


def _scores(part: CalibrationRows, number: int) -> Tensor:
    """Normal scores of the targets; of counts at random between F(y - 1) and F(y), as they are for normal numbers."""
    prediction = numbers(part.prediction, "CdfMap")
    at = prediction.normal_score(part.y)
    if not prediction.likelihood.discrete:
        return at
    lower, upper = (normal_cdf(z) for z in (prediction.normal_score(part.y - 1.0), at))
    generator = Stream(number, ("calibration", "counts")).generator()
    u = torch.rand(at.shape, generator=generator, dtype=torch.float64).to(at.device)
    between = lower + u * (upper - lower)
    return torch.special.ndtri(between.clamp(torch.finfo(between.dtype).tiny, 1.0 - torch.finfo(between.dtype).eps))


def _check_reached(scores: Tensor, weights: Tensor) -> None:
    """Refuse predictions that give most targets no probability at all: no map of it has anything to go by."""
    beyond = float((weights.unsqueeze(1) * (scores.abs() > DEEPEST)).sum(0).max() / weights.sum())
    if beyond > BEYOND:
        raise ValueError(
            f"{beyond:.0%} of the targets lie more than {DEEPEST:.0f} standard deviations from their predictions, "
            "where no map of the distribution function reaches. Is the noise of the likelihood far too small, or were "
            "the rows mixed up?"
        )


def _best(scores: Tensor, weights: Tensor) -> ScoreMap:
    """The map under which the scores (n, D) are most likely."""
    theta = torch.zeros(4, scores.shape[1], dtype=torch.float64, device=scores.device).requires_grad_()
    spread = torch.tensor(SPREAD, dtype=torch.float64, device=scores.device).unsqueeze(1)
    optimizer = torch.optim.LBFGS([theta], max_iter=STEPS, line_search_fn="strong_wolfe", tolerance_grad=1e-9)

    def cost() -> Tensor:
        optimizer.zero_grad()
        fit = -(weights.unsqueeze(1) * map_of(theta).log_density(scores)).sum()
        total = (fit + 0.5 * (theta / spread).square().sum()) / weights.sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    with torch.enable_grad():
        optimizer.step(cost)  # type: ignore[no-untyped-call]
    if not bool(theta.isfinite().all()):
        raise ValueError(
            "no map of the distribution function fits these predictions: they lie too far off what was seen"
        )
    return map_of(theta.detach())


def map_of(theta: Tensor) -> ScoreMap:
    """From loc, log scale, skew and log tail, (4, D)."""
    return ScoreMap(theta[0], theta[1].exp(), theta[2], theta[3].exp())
