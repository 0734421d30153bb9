"""What the network of a table is made of: its noise and how numbers enter, chosen by rows that it has not seen.

A few networks are trained for a short while on a sample of the rows, once for each candidate, and the rows that each of
them has not seen say which candidate predicts best. A gain counts where it is larger than its standard error: without
evidence the noise is normal, and numbers enter as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from credo.core.rng import Stream
from credo.data.scaling import mean_and_scale
from credo.data.splits import Index
from credo.likelihoods import (
    HeteroscedasticGaussian,
    HeteroscedasticStudentT,
    Likelihood,
    LogNormal,
    NegativeBinomial,
    Standardized,
)
from credo.model import Model
from credo.posteriors import Posterior
from credo.priors import Prior
from credo.tabular.recipes import SMALLEST_NOISE, EnsembleRecipe, Recipe, Settings, TableNet, table_model
from credo.tabular.training import ValidationListener, ValidationPoint, out_of_fold_scores

Floats = NDArray[np.float64]

SAMPLE = 2_000
"""Rows on which candidates are compared, at most."""
FEWEST = 100
"""Rows below which nothing is chosen: their answer would be chance."""
NETWORKS = 4
"""Networks for each candidate; each lacks its own part of the rows."""
STEPS = 1_500
"""Steps of a candidate, at most."""
FEWEST_STEPS = 400
"""Steps to which a training may be limited before nothing is chosen: networks that have learned little are alike."""
SKEWED = 1.0
"""Skewness from which the logarithm of a positive target is a candidate."""
EVIDENCE = 2.0
"""Standard errors by which another noise must be better than the normal one."""
EVIDENCE_FOR_PIECES = 1.0
"""Standard errors by which numbers in pieces must be better than numbers as they are."""


class Noise(StrEnum):
    """How targets scatter around what the network says."""

    NORMAL = "normal"
    STUDENT_T = "student-t"
    LOG_NORMAL = "log-normal"
    COUNTS = "counts"

    @property
    def words(self) -> str:
        """For a person."""
        return {
            Noise.NORMAL: "normal, with a standard deviation for each row",
            Noise.STUDENT_T: "Student's t, with a scale for each row and learned degrees of freedom",
            Noise.LOG_NORMAL: "log-normal: the logarithm of the target is normal, so that errors are factors",
            Noise.COUNTS: "negative binomial: whole numbers from 0 on, with a mean and a dispersion for each row",
        }[self]

    def likelihood(self, y: Floats, weights: Floats | None = None) -> Likelihood:
        """In the units of the targets y, (N, D), which weigh (N,)."""
        if self is Noise.COUNTS:
            return NegativeBinomial(offset=math.log(max(float(np.average(y[:, 0], weights=weights)), 1e-3)))
        if self is Noise.LOG_NORMAL:
            center, spread = mean_and_scale(np.log(y), weights)
            return LogNormal(SMALLEST_NOISE, float(center[0]), float(spread[0]))
        normal = self is Noise.NORMAL
        base = HeteroscedasticGaussian(SMALLEST_NOISE) if normal else HeteroscedasticStudentT(SMALLEST_NOISE)
        mean, scale = mean_and_scale(y, weights)
        return Standardized(base, tuple(mean.tolist()), tuple(scale.tolist()))


def candidates(y: Floats) -> tuple[Noise, ...]:
    """The kinds of noise that are compared for targets (N, D), normal noise first.

    Student's t and counts are not among them: calibration widens the tails of normal noise and gives whole targets
    whole intervals, and mixtures of many such distributions take too long to compute, those of counts without end where
    an absurd row is predicted. Whoever knows that the tails are heavy, or that targets are counts, can ask for them.
    """
    found = [Noise.NORMAL]
    if y.shape[1] > 1:
        return tuple(found)
    values = y[:, 0]
    if values.min() > 0.0 and skewness(values) > SKEWED:
        found.append(Noise.LOG_NORMAL)
    return tuple(found)


def skewness(values: Floats) -> float:
    """E[(y - mean)^3] / sd^3; 0 for a constant."""
    centered = values - values.mean()
    spread = float(np.sqrt(np.mean(centered**2)))
    return float(np.mean((centered / spread) ** 3)) if spread > 0.0 else 0.0


@dataclass(frozen=True)
class Design:
    """What was chosen.

    Attributes:
        net: how the network begins and how large it is.
        noise: of numbers; None for classes, or where the caller gave the likelihood.
        notes: what was chosen and by what evidence, in sentences.
    """

    net: TableNet
    noise: Noise | None = None
    notes: tuple[str, ...] = ()

    def noted(self, posterior: Posterior) -> Posterior:
        """The posterior, with what was chosen among its notes."""
        record = posterior.record
        return replace(posterior, record=replace(record, notes=(*self.notes, *record.notes)))


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows to learn from.

    Attributes:
        x: standardized inputs, (N, F).
        y: targets in their own units (N, D), or class numbers (N,).
        weights: how much each row counts, (N,); None for one each.
        groups: number of the group of each row, (N,), of which no part may be in two folds; None for none.
    """

    x: Tensor
    y: Tensor
    weights: Tensor | None = None
    groups: Index | None = None

    def __len__(self) -> int:
        return len(self.x)

    @property
    def counted(self) -> Floats | None:
        """The weights in float64."""
        return None if self.weights is None else self.weights.double().numpy()

    def some(self, rows: Tensor) -> TableRows:
        weights = None if self.weights is None else self.weights[rows]
        groups = None if self.groups is None else np.asarray(self.groups)[rows.numpy()]
        return TableRows(self.x[rows], self.y[rows], weights, groups)

    @property
    def can_choose(self) -> bool:
        """Whether there are rows, and groups, enough for an answer that is more than chance."""
        grouped = self.groups is not None and len(np.unique(self.groups)) < 2 * NETWORKS
        return len(self) >= FEWEST and not grouped


@dataclass(frozen=True, eq=False)
class DesignSearch:
    """The rows of a table, and how candidates are compared on them.

    Attributes:
        rows: of the table.
        settings: of the user.
        seed: of the choice.
        folder: where it is saved as it goes.
        listener: called at every validation.
        prior: of the weights; None for the recipe's.
    """

    rows: TableRows
    settings: Settings
    seed: int = 0
    folder: Path | None = None
    listener: ValidationListener | None = None
    prior: Prior | None = None

    def choose(self, net: TableNet, likelihood: Likelihood | None = None) -> Design:
        """The best design.

        Args:
            net: the network without pieces.
            likelihood: of the targets; None for numbers whose noise is to be chosen.
        """
        settings, count = self.settings, len(self.rows)
        steps = settings.limit(count) * math.ceil(count / settings.batch(count))
        if not self.rows.can_choose or steps < FEWEST_STEPS:
            return Design(net, Noise.NORMAL if likelihood is None else None)
        search = self._sampled()
        plain = Noise.NORMAL if likelihood is None else None
        first = search._scored(net, plain, likelihood)
        net, best, notes = search._with_pieces(net, plain, likelihood, first)
        if likelihood is not None:
            return Design(net, None, notes)
        return search._with_noise(net, best, notes)

    def _sampled(self) -> DesignSearch:
        """With as many rows as a choice needs."""
        if len(self.rows) <= SAMPLE:
            return self
        order = torch.randperm(len(self.rows), generator=Stream(self.seed, ("sample",)).generator())[:SAMPLE]
        return replace(self, rows=self.rows.some(order.sort().values))

    def _with_pieces(
        self, net: TableNet, noise: Noise | None, likelihood: Likelihood | None, plain: Tensor
    ) -> tuple[TableNet, Tensor, tuple[str, ...]]:
        """The network, its scores and a note, with pieces where they are better."""
        cut = replace(net, in_pieces=True)
        if not cut.columns(self.rows.x).pieces:
            return net, plain, ()
        scores = self._scored(cut, noise, likelihood)
        gain, error = _gain(scores, plain, self.rows.weights)
        said = f"by {gain:.3f} in validation log likelihood per row (standard error {error:.3f}, {len(plain):,} rows)"
        if gain > EVIDENCE_FOR_PIECES * error:
            return cut, scores, (f"numbers enter in pieces between quantiles, which is better {said}",)
        return net, plain, (f"numbers enter as they are: pieces between quantiles change the result {said}",)

    def _with_noise(self, net: TableNet, normal: Tensor, notes: tuple[str, ...]) -> Design:
        """The noise that is better than the normal one by most, where there is evidence."""
        y = self.rows.y.double().numpy()
        if len(candidates(y)) == 1:
            return Design(net, Noise.NORMAL, notes)
        chosen, most, said = Noise.NORMAL, 0.0, ""
        for noise in candidates(y)[1:]:
            gain, error = _gain(self._scored(net, noise, None), normal, self.rows.weights)
            if gain > max(most, EVIDENCE * error):
                chosen, most = noise, gain
                said = f", better than normal noise by {gain:.3f} in validation log likelihood per row ({error:.3f})"
        tried = ", ".join(candidates(y))
        return Design(net, chosen, (*notes, f"noise: {chosen.words}{said} (compared: {tried})"))

    def _scored(self, net: TableNet, noise: Noise | None, likelihood: Likelihood | None) -> Tensor:
        """Validation log likelihood of each row, (N,), by networks that were trained without it."""
        if noise is not None:
            likelihood = noise.likelihood(self.rows.y.double().numpy(), self.rows.counted)
        assert likelihood is not None
        count = len(self.rows)
        most = math.ceil(STEPS / math.ceil(count / self.settings.batch(count)))
        epochs = min(self.settings.limit(count), most)
        recipe: Recipe = EnsembleRecipe(replace(self.settings, epochs=epochs, members=NETWORKS))
        name = f"choice-{'pieces' if net.in_pieces else 'plain'}-{noise or 'given'}"
        return out_of_fold_scores(
            self.model(net, likelihood, recipe),
            self.rows.x,
            self.rows.y,
            recipe,
            weights=self.rows.weights,
            groups=self.rows.groups,
            seed=self.seed,
            listener=self._listener(name),
            folder=None if self.folder is None else self.folder / name,
        )

    def model(self, net: TableNet, likelihood: Likelihood, recipe: Recipe) -> Model:
        columns = net.columns(self.rows.x, self.rows.weights)
        return table_model(
            self.rows.x.shape[1], net.outputs, likelihood, recipe, net.hidden, net.activation, self.prior, columns
        )

    def _listener(self, name: str) -> ValidationListener | None:
        if self.listener is None:
            return None
        listener, what = self.listener, name.removeprefix("choice-").replace("-", ", ", 1)

        def listen(point: ValidationPoint) -> None:
            listener(replace(point, candidate=what))

        return listen


def _gain(scores: Tensor, others: Tensor, weights: Tensor | None) -> tuple[float, float]:
    """Weighted mean of the differences between the scores of rows, and its standard error."""
    known = ~(scores.isnan() | others.isnan())
    difference = (scores - others).double()[known]
    if bool(difference.isneginf().any()):
        return -math.inf, 0.0
    share = torch.ones_like(difference) if weights is None else weights.double()[known]
    share = share / share.sum()
    mean = (share * difference).sum()
    return float(mean), float((share.square() * (difference - mean).square()).sum().sqrt())
