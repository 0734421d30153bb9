"""The factorised normal q that variational inference fits, as one step sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.methods.vi.rows import Row, runs, standard_normal


@dataclass(frozen=True)
class _Draw:
    """A leaf of the graph, w = mean + scale * noise, or the deviation scale * noise alone."""

    leaf: Row
    noise: Tensor
    around_mean: bool


@dataclass(frozen=True)
class Drawn:
    """What was drawn of the weights for one estimate.

    Attributes:
        whole: weights, (M, *shape) each.
        deviations: of weights from their means, (M, *shape) each.
    """

    whole: Params
    deviations: Params = field(default_factory=dict)


@dataclass(frozen=True)
class Pull:
    """What the prior does to q where no graph is needed for it.

    Attributes:
        precision: of normal priors, by parameter: E_q[log p] = -precision (mean^2 + scale^2) / 2 + constant.
        slope: d log p / dw at drawn weights, for priors without a closed E_q[log p]; None for others.
        share: of each draw in the slope, where there are several.
        points: parameters without a distribution that feel the slope at their place.
    """

    precision: Mapping[str, float] = field(default_factory=dict)
    slope: Callable[[Row], Tensor] | None = None
    share: float = 1.0
    points: tuple[str, ...] = ()


class Factors:
    """q(w) = prod_i N(w_i; mean_i, scale_i^2), scale = softplus(rho), and points where a parameter has no rho.

    What a network is given of q (draws, deviations, variances, or means as they are) are leaves of the step's graph.
    What lies behind them, down to rho, is done by hand, in place and for all layers at once: a graph of it would take
    as long as the network itself.

    Args:
        mean: expectations of all parameters; those that have a rho come first, in its order.
        rho: of the uncertain parameters.
        buffers: of the network, (M, *shape) each.
    """

    def __init__(self, mean: Row, rho: Row, buffers: Params) -> None:
        self._rho, self.buffers = rho, buffers
        self._mean = mean.with_values(mean.values.detach().requires_grad_())
        self._scale = rho.with_values(F.softplus(rho.values).requires_grad_())
        self.mean, self.scale = self._mean.tree(), self._scale.tree()
        self._variance: Row | None = None
        self._variances: Params = {}
        self._draws: list[_Draw] = []

    @staticmethod
    def of(mean: Variables, rho: Params) -> Factors:
        """From trees of tensors, (M, *shape) each."""
        return Factors(Row.of(uncertain_first(mean.params, rho)), Row.of(rho), mean.buffers)

    @property
    def centre(self) -> Variables:
        return Variables(self.mean, self.buffers)

    def variance(self, name: str) -> Tensor:
        """scale^2 of an uncertain parameter, (M, *shape)."""
        if self._variance is None:
            self._variance = self._scale.with_values(self._scale.values.detach().square().requires_grad_())
            self._variances = self._variance.tree()
        return self._variances[name]

    def draw(self, names: Iterable[str], noise: Stream) -> Params:
        """Draws w = mean + scale * noise of these uncertain parameters, (M, *shape) each."""
        return self._drawn(tuple(names), noise, around_mean=True)

    def deviate(self, names: Iterable[str], noise: Stream) -> Params:
        """Draws scale * noise of how far these uncertain parameters are from their mean, (M, *shape) each."""
        return self._drawn(tuple(names), noise, around_mean=False)

    def _drawn(self, names: tuple[str, ...], noise: Stream, *, around_mean: bool) -> Params:
        if not names:
            return {}
        with torch.no_grad():
            scale = self._scale.chosen(names)
            standard = standard_normal(scale.values, noise)
            if around_mean:
                values = torch.addcmul(self._means(names), scale.values, standard)
            else:
                values = scale.values * standard
        leaf = scale.with_values(values.requires_grad_())
        self._draws.append(_Draw(leaf, standard, around_mean))
        return leaf.tree()

    def _means(self, names: tuple[str, ...]) -> Tensor:
        """Of some uncertain parameters."""
        uncertain = Row(self._mean.values.detach()[: len(self._rho.values)], self._rho.shapes)
        return uncertain.chosen(names).values

    def gradients(self, loss: Tensor, pull: Pull, weight: Tensor, temperature: float = 1.0) -> tuple[Row, Row]:
        """By mean and by rho, of  loss - weight (E_q[log p] / temperature + sum_i log scale_i).

        Args:
            loss: differentiated by its graph.
            pull: of the prior p.
            weight: a number, ().
            temperature: a number.
        """
        leaves = [self._mean.values, self._scale.values, *(draw.leaf.values for draw in self._draws)]
        leaves += [] if self._variance is None else [self._variance.values]
        of_mean, of_scale, *others = torch.autograd.grad(loss, leaves, allow_unused=True)
        with torch.no_grad():
            scale, strength = self._scale.values, weight / temperature
            by_scale = torch.div(-weight, scale)
            if of_scale is not None:
                by_scale.add_(of_scale)
            if self._variance is not None and others[-1] is not None:
                by_scale.addcmul_(others[-1], scale, value=2.0)
            by_mean: Tensor | None = of_mean
            for draw, found in zip(self._draws, others, strict=False):
                by_mean = self._chained(draw, found, pull, strength, by_mean, by_scale)
            by_mean = torch.zeros_like(self._mean.values) if by_mean is None else by_mean
            for name in pull.points:
                self._pull_point(by_mean, name, pull, strength)
            _attract(by_mean, self._mean, pull.precision, strength)
            _attract(by_scale, self._scale, pull.precision, strength)
            slope = torch.sigmoid(self._rho.values, out=self._spent())
        return self._mean.with_values(by_mean), self._rho.with_values(by_scale.mul_(slope))

    def _chained(
        self, draw: _Draw, found: Tensor | None, pull: Pull, strength: Tensor, by_mean: Tensor | None, by_scale: Tensor
    ) -> Tensor | None:
        """Add what a draw's gradient, and the prior's slope there, are to the scales; and return the means' with it."""
        names = tuple(name for name, _ in draw.leaf.shapes)
        g, whole = found, self._mean.shapes == draw.leaf.shapes
        if pull.slope is not None:
            place = draw.leaf.values.detach()
            slope = pull.slope(draw.leaf.with_values(place if draw.around_mean else place + self._means(names)))
            felt = slope.mul_(-pull.share * strength)
            if not draw.around_mean:
                by_mean = self._joined(by_mean, felt, draw.leaf)
            g = felt if g is None else g.add_(felt)
        if g is None:
            return by_mean
        for there, here in runs(self._rho.shapes, draw.leaf.shapes):
            by_scale[there].addcmul_(draw.noise[here], g[here])
        if not draw.around_mean:
            return by_mean
        return g if by_mean is None and whole else self._joined(by_mean, g, draw.leaf)

    def _joined(self, by_mean: Tensor | None, g: Tensor, row: Row) -> Tensor:
        """The gradient of all means, with that of some of them added."""
        by_mean = torch.zeros_like(self._mean.values) if by_mean is None else by_mean
        for there, here in runs(self._mean.shapes, row.shapes):
            by_mean[there].add_(g[here])
        return by_mean

    def _pull_point(self, by_mean: Tensor, name: str, pull: Pull, strength: Tensor) -> None:
        assert pull.slope is not None
        place = self._mean.chosen((name,))
        ((there, _),) = runs(self._mean.shapes, place.shapes)
        by_mean[there].sub_(pull.slope(place).mul_(strength))

    def _spent(self) -> Tensor | None:
        """A row of the step that is not needed any more."""
        rows = [*(draw.leaf for draw in self._draws), *([] if self._variance is None else [self._variance])]
        return next((row.values.detach() for row in rows if row.shapes == self._rho.shapes), None)


def _attract(gradient: Tensor, place: Row, precision: Mapping[str, float], strength: Tensor) -> None:
    """Add the gradient of  strength * precision * place^2 / 2, at once for neighbours with the same precision."""
    values = place.values.detach()
    for value in dict.fromkeys(precision.values()):
        alike = tuple((name, shape) for name, shape in place.shapes if precision.get(name) == value)
        for there, _ in runs(place.shapes, alike):
            gradient[there].addcmul_(values[there], strength, value=value)


def uncertain_first(mean: Params, rho: Iterable[str]) -> Params:
    """The order in which `Factors` wants its means."""
    first = {name: mean[name] for name in rho}
    return {**first, **{name: w for name, w in mean.items() if name not in first}}
