"""The factorised normal q that variational inference fits, as one step sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.methods.vi.rows import Leaves, Row, Shapes, runs, spans, standard_normal
from credo.model import OWN
from credo.nets.dense import DenseStack
from credo.nets.walk import Rule, Sink, Walk


@dataclass(frozen=True)
class _Draw:
    """A leaf of the graph, w = mean + scale * noise, or the deviation scale * noise alone."""

    leaves: Leaves
    noise: Tensor
    around_mean: bool

    @property
    def row(self) -> Row:
        return self.leaves.row


@dataclass(frozen=True)
class _Walked:
    """A way through the network without a graph.

    Attributes:
        outputs: a leaf of the graph.
        walk: from there back to the weights.
        names: of the parameters on the way.
        draw: number of the draw whose deviations the walk was brought; None for variances.
    """

    outputs: Tensor
    walk: Walk
    names: frozenset[str]
    draw: int | None


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

    What a network is given of q (draws, deviations, variances, or means as they are) are leaves of the step's graph; of
    a network that is walked through, its outputs are. What lies behind them, down to rho, is done by hand, in place and
    for all layers at once: a graph of it would take as long as the network itself.

    Args:
        mean: expectations of all parameters; those that have a rho come first, in its order.
        rho: of the uncertain parameters.
        buffers: of the network, (M, *shape) each.
    """

    def __init__(self, mean: Row, rho: Row, buffers: Params) -> None:
        self._rho, self.buffers = rho, buffers
        self._slope_known = softplus(rho.values.detach(), rho.spare("scale").values, rho.spare("slope").values)
        self._means, self._scales = Leaves(mean), Leaves(rho.spare("scale"))
        self._variances: Leaves | None = None
        self._draws: list[_Draw] = []
        self._walks: list[_Walked] = []
        self.without_graph = False
        """Whether the only member walks: variances are then no leaves of the graph, and have no axis for members."""

    @property
    def mean(self) -> Params:
        """Expectations of all parameters, (M, *shape) each."""
        return self._means.tree

    @cached_property
    def uncertain(self) -> tuple[str, ...]:
        """Names of the parameters that have a distribution."""
        return tuple(name for name, _ in self._rho.shapes)

    @property
    def scale(self) -> Params:
        """Standard deviations of the uncertain parameters, (M, *shape) each."""
        return self._scales.tree

    @staticmethod
    def of(mean: Variables, rho: Params) -> Factors:
        """From trees of tensors, (M, *shape) each."""
        return Factors(Row.of(uncertain_first(mean.params, rho)), Row.of(rho), mean.buffers)

    @property
    def own(self) -> Params:
        """Those of `mean` that belong to the likelihood."""
        return {name: self.mean[name] for name in self.names if name.startswith(OWN)}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of all parameters."""
        return tuple(name for name, _ in self._means.row.shapes)

    @cached_property
    def centre(self) -> Variables:
        """Expectations of all parameters and the buffers, for a look at the network: no leaves of the graph."""
        return Variables(self._means.row.views, self.buffers)

    def variance(self, name: str) -> Tensor:
        """scale^2 of an uncertain parameter, (M, *shape), or its own shape where there is no graph."""
        if self._variances is None:
            self._variances = Leaves(self._rho.with_values(self._scales.row.values.square()))
        return (self._variances.row.single if self.without_graph else self._variances.tree)[name]

    def draw(self, names: Iterable[str], noise: Stream) -> Params:
        """Draws w = mean + scale * noise of these uncertain parameters, (M, *shape) each."""
        return self._drawn(tuple(names), noise, around_mean=True)

    def deviate(self, names: Iterable[str], noise: Stream) -> Params:
        """Draws scale * noise of how far these uncertain parameters are from their mean, (M, *shape) each."""
        return self._drawn(tuple(names), noise, around_mean=False)

    def walked(
        self, stack: DenseStack, rule: Rule, brought: Mapping[str, Sequence[Tensor]], x: Tensor, *, deviates: bool
    ) -> Tensor:
        """Outputs (1, B, E) of a single member at its means and what was brought: a leaf, with no graph behind it.

        Args:
            stack: the network's layers.
            rule: of the layers for which something was brought.
            brought: by the name of the weight, without an axis for members.
            x: inputs (B, ...).
            deviates: what was brought are the deviations that were drawn last, not variances.
        """
        with torch.no_grad():
            frozen = {name: t.squeeze(0) for name, t in self.buffers.items()}
            walk = Walk(stack, rule, {**self._means.row.single, **frozen}, brought)
            outputs = walk.forward(x).unsqueeze(0)
        draw = len(self._draws) - 1 if deviates else None
        self._walks.append(_Walked(outputs.requires_grad_(), walk, stack.names, draw))
        return outputs.clone()  # a likelihood may write to what it is given

    @torch.no_grad()
    def _drawn(self, names: tuple[str, ...], noise: Stream, *, around_mean: bool) -> Params:
        if not names:
            return {}
        scale = self._scales.row.chosen(names)
        standard = standard_normal(scale.values, noise)
        centre = self._centres(names) if around_mean else None
        values = scale.values * standard if centre is None else torch.addcmul(centre, scale.values, standard)
        leaves = Leaves(scale.with_values(values))
        self._draws.append(_Draw(leaves, standard, around_mean))
        with torch.enable_grad():
            return leaves.tree

    def _centres(self, names: tuple[str, ...]) -> Tensor:
        """The means of some uncertain parameters, side by side."""
        uncertain = Row(self._means.row.values[: len(self._rho.values)], self._rho.shapes)
        return uncertain.chosen(names).values

    def gradients(self, loss: Tensor, pull: Pull, weight: Tensor, temperature: float = 1.0) -> tuple[Row, Row]:
        """By mean and by rho, of  loss - weight (E_q[log p] / temperature + sum_i log scale_i).

        What was given out of q is overwritten, here or by the next q of the same rows.

        Args:
            loss: differentiated by its graph.
            pull: of the prior p.
            weight: a number, ().
            temperature: a number.
        """
        variances = () if self._variances is None else (self._variances,)
        groups = (self._means, self._scales, *variances, *(draw.leaves for draw in self._draws))
        ends = [walked.outputs for walked in self._walks]
        leaves = [*ends, *(leaf for group in groups for leaf in group)]
        found = iter(torch.autograd.grad(loss, leaves, allow_unused=True))
        by_outputs = [_zero_if_none(next(found), end) for end in ends]
        of_mean, of_scale = self._means.gradients(found), self._scales.gradients(found)
        of_variance = [pair for group in variances for pair in group.gradients(found)]
        of_draws = [draw.leaves.gradients(found) for draw in self._draws]
        with torch.no_grad():
            scale, strength = self._scales.row.values, weight / temperature
            felt = [self._felt(draw, pull, strength) for draw in self._draws]
            by_mean, by_variance = self._back(by_outputs, of_draws) if ends else (None, None)
            if by_variance is None:
                by_scale = torch.div(-weight, scale, out=self._spent())
            else:
                by_scale = by_variance.mul_(scale).addcdiv_(weight, scale, value=-1.0)
            for there, g in of_scale:
                by_scale[there].add_(g)
            for there, g in of_variance:
                by_scale[there].addcmul_(scale[there], g, value=2.0)
            for draw, slope, pairs in zip(self._draws, felt, of_draws, strict=True):
                whole = slice(0, len(draw.noise))
                for here, g in (*pairs, *([] if slope is None else [(whole, slope)])):
                    passed = self._chain(draw, here, g, by_scale)
                    of_mean += passed if draw.around_mean or g is slope else []
            of_mean += [self._pull_on_point(name, pull, strength) for name in pull.points]
            by_mean = _gathered(of_mean, self._means.row, pull.precision, strength, by_mean)
            _attract(by_scale, self._scales.row, pull.precision, strength)
            slope = self._rho.spare("slope").values
            by_scale.mul_(slope if self._slope_known else torch.sigmoid(self._rho.values, out=slope))
        return self._means.row.with_values(by_mean), self._rho.with_values(by_scale)

    def _back(
        self, by_outputs: Sequence[Tensor], of_draws: Sequence[list[tuple[slice, Tensor]]]
    ) -> tuple[Tensor, Tensor | None]:
        """What all walks lead back to: slopes by the means, and twice those by the variances.

        Those by deviations join what is known of their draws.
        """
        names = self._walks[0].names
        by_mean, by_variance, twice = _blank(self._means.row, names), None, Sink({})
        if self._variances is not None:
            # nobody reads variances after the only way back, and a step is faster the less memory it walks over
            by_variance = _blank(self._variances.row, names, spent=len(by_outputs) == 1)
            twice = Sink(by_variance.single, times=2.0)
        means = Sink(by_mean.single)
        for walked, slopes in zip(self._walks, by_outputs, strict=True):
            if walked.draw is None:
                walked.walk.back(slopes.squeeze(0), means, twice)
            else:
                row = _blank(self._draws[walked.draw].row, names)
                walked.walk.back(slopes.squeeze(0), means, Sink(row.single))
                of_draws[walked.draw].append((slice(0, len(row.values)), row.values))
        return by_mean.values, None if by_variance is None else by_variance.values

    def _felt(self, draw: _Draw, pull: Pull, strength: Tensor) -> Tensor | None:
        """The gradient by a drawn weight of what the prior thinks of it."""
        if pull.slope is None:
            return None
        names, values = tuple(name for name, _ in draw.row.shapes), draw.row.values
        place = values if draw.around_mean else values + self._centres(names)
        return pull.slope(draw.row.with_values(place)).mul_(-pull.share * strength)

    def _chain(self, draw: _Draw, part: slice, g: Tensor, by_scale: Tensor) -> list[tuple[slice, Tensor]]:
        """Pass a gradient by a part of a draw on to the scales behind it; and where in the row it lies."""
        passed = []
        for there, here in runs(self._rho.shapes, draw.row.shapes):
            start, stop = max(here.start, part.start), min(here.stop, part.stop)
            if start >= stop:
                continue
            place, own = slice(there.start + start - here.start, there.start + stop - here.start), slice(start, stop)
            inside = g[start - part.start : stop - part.start]
            by_scale[place].addcmul_(draw.noise[own], inside)
            passed.append((place, inside))
        return passed

    def _pull_on_point(self, name: str, pull: Pull, strength: Tensor) -> tuple[slice, Tensor]:
        assert pull.slope is not None
        place = self._means.row.chosen((name,))
        ((there, _),) = runs(self._means.row.shapes, place.shapes)
        return there, pull.slope(place).mul_(-strength)

    def _spent(self) -> Tensor | None:
        """Memory of the step that is not needed any more: new memory costs more than what is written to it."""
        rows = [*(draw.row for draw in self._draws), *([] if self._variances is None else [self._variances.row])]
        return next((row.values for row in rows if row.shapes == self._rho.shapes), None)


def softplus(rho: Tensor, scale: Tensor, slope: Tensor) -> bool:
    """Write scale = log(1 + exp(rho)) and, on a CPU, its slope sigmoid(rho); whether the latter was done.

    There -log(1 - sigmoid(rho)) takes less time than torch's softplus, and leaves the slope over. It is as exact (to
    4e-7 in single precision) as long as no rho is large.
    """
    if rho.device.type != "cpu" or float(rho.amax()) > 2.0:
        torch.ops.aten.softplus.out(rho, 1.0, 20.0, out=scale)
        return False
    torch.neg(torch.sigmoid(rho, out=slope), out=scale).log1p_().neg_()
    return True


def _attract(gradient: Tensor, place: Row, precision: Mapping[str, float], strength: Tensor) -> None:
    """Add the gradient of  strength * precision * place^2 / 2, at once for neighbours with the same precision."""
    for there, value in _alike(place.shapes, tuple(precision.get(name, 0.0) for name, _ in place.shapes)):
        if value:
            gradient[there].addcmul_(place.values[there], strength, value=value)


def _zero_if_none(slopes: Tensor | None, of: Tensor) -> Tensor:
    return torch.zeros_like(of) if slopes is None else slopes


def _blank(like: Row, written: Collection[str], *, spent: bool = False) -> Row:
    """A row to write to, zero where nothing will be written; the same row, where its values are not needed."""
    row = like if spent else like.with_values(torch.empty_like(like.values))
    for name, part in row.single.items():
        if name not in written:
            part.zero_()
    return row


def _gathered(
    parts: Sequence[tuple[slice, Tensor]],
    place: Row,
    precision: Mapping[str, float],
    strength: Tensor,
    begun: Tensor | None = None,
) -> Tensor:
    """The sum of gradients that each belong to a part of a row, and of what `_attract` adds; to one that is begun."""
    if begun is not None:
        for there, g in parts:
            begun[there].add_(g)
        _attract(begun, place, precision, strength)
        return begun
    total, written = torch.empty_like(place.values), 0
    alike = _alike(place.shapes, tuple(precision.get(name, 0.0) for name, _ in place.shapes))

    def write(start: int, stop: int, g: Tensor | None) -> None:
        for span, value in alike:
            first, last = max(start, span.start), min(stop, span.stop)
            if first >= last:
                continue
            here = place.values[first:last]
            if g is None:
                torch.mul(here, strength * value, out=total[first:last])
            else:
                torch.addcmul(g[first - start : last - start], here, strength, value=value, out=total[first:last])

    more = []
    for there, g in parts:
        if there.start < written:
            more.append((there, g))
            continue
        write(written, there.start, None)
        write(there.start, there.stop, g)
        written = there.stop
    write(written, len(total), None)
    for there, g in more:
        total[there].add_(g)
    return total


@lru_cache(maxsize=64)
def _alike(shapes: Shapes, values: tuple[float, ...]) -> list[tuple[slice, float]]:
    """Where neighbours in a row have the same value, and that value."""
    found: list[tuple[slice, float]] = []
    for span, value in zip(spans(shapes), values, strict=True):
        start = found.pop()[0].start if found and found[-1][1] == value else span.start
        found.append((slice(start, span.stop), value))
    return found


def uncertain_first(mean: Params, rho: Iterable[str]) -> Params:
    """The order in which `Factors` wants its means."""
    first = {name: mean[name] for name in rho}
    return {**first, **{name: w for name, w in mean.items() if name not in first}}
