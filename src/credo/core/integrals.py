"""Sums and integrals of a mixture's log density over its support, and the inverse of a distribution function.

A mixture's support is given by the ends of its components, lower and upper, (S, ...): between them lies all but a
negligible part of each component's mass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy
import torch
from torch import Tensor

LogDensityOfTarget = Callable[[Tensor], Tensor]
Point = tuple[Tensor, Tensor]
Rule = tuple[tuple[float, ...], ...]

_SUMMED = 4096
"""Whole numbers below this are summed one by one. Counts above are spread so wide that a sum is an integral."""
_CUTS = (0.0, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0)
"""Where a component's span is cut; the pieces are at most three standard deviations long."""
_POINTS, _FEWEST = 800, 2
"""About how many points an integral over many components takes, and the fewest in a piece between two knots."""
_BEYOND = tuple(k / 16 for k in range(17))
"""Where a span that is wider than the components is cut too."""
_DOUBLINGS, _AGREEMENT = 8, 1e-4
"""How often the points of a sum are doubled at most, and how close in nats two sums over half of them must be."""
_WIDENINGS = 8
"""Doublings of the span in which a quantile is sought: no normal has a representable tail beyond them."""


def _gauss(points: int) -> Rule:
    """Nodes and weights of the rule of Gauss and Legendre on [-1, 1]."""
    return tuple(zip(*(column.tolist() for column in numpy.polynomial.legendre.leggauss(points)), strict=True))


_RULE = _gauss(8)
"""Nodes and weights of Gauss and Legendre, exact to 1e-9 for a normal density on such a piece."""


def entropy_by_sum(log_p: LogDensityOfTarget, lower: Tensor, upper: Tensor) -> Tensor:
    """-sum_k p(k) log p(k) over the whole numbers that the components cover, element by element."""
    first, last = lower.amin(0), upper.amax(0)
    total = torch.zeros_like(first)
    summed = last.clamp_max(_SUMMED - 1.0)
    for offset in range(int((summed - first).nan_to_num(0.0).max()) + 1):
        k = first + offset
        total = total + torch.where(k <= summed, _information(log_p(k)), 0.0)
    if bool((last <= summed).all()):
        return total
    join = torch.full_like(first, _SUMMED - 0.5)
    # Euler and Maclaurin: the sum from the join on is the integral plus a 24th of the slope there
    slope = _information(log_p(join + 0.5)) - _information(log_p(join - 0.5))
    return total + _by_pieces(log_p, lower.maximum(join), upper.maximum(join)) + slope / 24.0


def entropy_by_integral(log_p: LogDensityOfTarget, lower: Tensor, upper: Tensor) -> Tensor:
    """-integral of p log p over what the components cover, element by element.

    The trapezoidal rule converges faster than any power of its step for smooth densities that vanish at both ends, so
    it is used with 32 points to the narrowest component, unless there are fewer pieces than points. A skewed density
    needs more: there are twice as many until every other one of them gives the same.
    """
    first, last = lower.amin(0), upper.amax(0)
    spans = float(((last - first) / (upper - lower).amin(0)).nan_to_num(0.0).max())
    if 32 * spans > len(_RULE) * len(_CUTS) * len(lower):
        return _by_pieces(log_p, lower, upper)
    points = 2 * math.ceil(16 * max(1.0, spans))
    for _ in range(_DOUBLINGS):
        step = (last - first) / points
        halves = [torch.zeros_like(first), torch.zeros_like(first)]
        for k in range(points + 1):
            halves[k % 2] = halves[k % 2] + _information(log_p(first + k * step))
        total = (halves[0] + halves[1]) * step
        if not bool(((halves[0] - halves[1]).abs() * step > _AGREEMENT).any()):
            break
        points *= 2
    return total


def _by_pieces(log_p: LogDensityOfTarget, lower: Tensor, upper: Tensor) -> Tensor:
    """The integral from knot to knot, where every component brings its own knots."""
    knots = torch.cat([lower + cut * (upper - lower) for cut in _CUTS]).sort(0).values
    return integral_by_pieces(lambda y: _information(log_p(y)), knots)


def entropy_by_knots(log_p: LogDensityOfTarget, knots: Tensor) -> Tensor:
    """-integral of p log p, element by element, of components with heavy tails, which say where to cut it.

    Args:
        log_p: log density of the mixture.
        knots: of each component, (K, S, ...).
    """
    return integral_by_pieces(lambda y: _information(log_p(y)), knots.flatten(0, 1).sort(0).values)


def integral_by_pieces(function: Callable[[Tensor], Tensor], knots: Tensor) -> Tensor:
    """The integral of a function from knot to knot, (K, ...), element by element, which rise; by Gauss and Legendre.

    The more knots there are, the fewer points lie between two of them.
    """
    total = torch.zeros_like(knots[0])
    for point, weight in _gauss_nodes(knots, _gauss(_enough(len(knots)))):
        total = total + weight * function(point)
    return total


def nodes(lower: Tensor, upper: Tensor, first: Tensor, last: Tensor, knots: Tensor | None = None) -> Iterator[Point]:
    """Points and their weights, (...) each, for integrals over a mixture's density times something smooth.

    The trapezoidal rule with 32 points to the narrowest component, or piece by piece where that takes fewer. Between
    the many knots of many components a rule of few points is enough. The rule of an element is its own: where others
    need more points, it has none there but those of weight zero.

    Args:
        lower: where each component begins, (S, ...).
        upper: where it ends, likewise.
        first: where the integral begins, (...); beyond the components too.
        last: where it ends.
        knots: where components with heavy tails want it cut, (K, S, ...); None where even pieces do.
    """
    if knots is not None:
        places = knots.flatten(0, 1).clamp(first, last)
        outer = [(first + cut * (last - first)).unsqueeze(0) for cut in _BEYOND]
        yield from _gauss_nodes(torch.cat([places, *outer]).sort(0).values, _gauss(_enough(len(places))))
        return
    points = even_points(lower, upper, first, last)
    pieces = len(_CUTS) * len(lower) + len(_BEYOND) - 1
    rule = _gauss(_enough(pieces))
    few = points <= len(rule) * pieces
    for count in sorted({int(each) for each in points[few].flatten().tolist()}):
        step = torch.where(points == count, (last - first) / count, 0.0)
        yield from ((first + k * step, step) for k in range(count + 1))
    if bool(few.all()):
        return
    inner = [lower + cut * (upper - lower) for cut in _CUTS]
    outer = [(first + cut * (last - first)).unsqueeze(0) for cut in _BEYOND]
    for place, weight in _gauss_nodes(torch.cat([*inner, *outer]).sort(0).values, rule):
        yield place, torch.where(few, 0.0, weight)


def even_points(lower: Tensor, upper: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """How many even steps from the first to the last place give every component 32 or more: powers of two, (...)."""
    spans = ((last - first) / (upper - lower).amin(0)).nan_to_num(1.0).clamp(1.0, 2.0**30)
    return torch.exp2((32.0 * spans).log2().ceil())


def _enough(pieces: int) -> int:
    """Points in a piece, for so many pieces."""
    return max(_FEWEST, min(len(_RULE), _POINTS // pieces))


def _gauss_nodes(knots: Tensor, rule: Rule) -> Iterator[Point]:
    for start, end in pairwise(knots):
        center, half = 0.5 * (start + end), 0.5 * (end - start)
        yield from ((center + node * half, weight * half) for node, weight in rule)


def _information(log_p: Tensor) -> Tensor:
    """-p log p, and 0 where p is 0."""
    return -log_p.exp() * log_p.clamp_min(-1e4)


def smallest_where(enough: Callable[[Tensor], Tensor], lower: Tensor, upper: Tensor, *, discrete: bool) -> Tensor:
    """The smallest y, or whole number if discrete, from which on `enough` holds, by bisection, element by element."""
    widest = float((upper - lower).nan_to_num(0.0).max())
    # every element halves its own interval; twelve more than the digits it has find a narrow peak in a wide one
    fine = 2.0**12 / torch.finfo(lower.dtype).eps
    for _ in range(math.ceil(math.log2(2.0 * max(widest, 1.0) if discrete else fine))):
        middle = 0.5 * (lower + upper)
        if discrete:
            middle = middle.floor()
        found = enough(middle)
        upper = torch.where(found, middle, upper)
        lower = torch.where(found, lower, middle + (1.0 if discrete else 0.0)).minimum(upper)
    return upper


def widened(enough: Callable[[Tensor], Tensor], lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """Ends, moved apart where needed, between which the smallest whole number lies from which on `enough` holds."""
    for _ in range(_WIDENINGS):
        low, high = enough(lower - 1.0), ~enough(upper)
        if not bool((low | high).any()):
            break
        span = upper - lower + 1.0
        lower, upper = torch.where(low, lower - span, lower), torch.where(high, upper + span, upper)
    return lower, upper


def crossing(excess: Callable[[Tensor], Tensor], lower: Tensor, upper: Tensor) -> Tensor:
    """The smallest y from which on a rising function is not negative, element by element, to the last digits.

    Between `lower` and `upper`, or beyond them where the answer does not lie between. Inverse quadratic interpolation
    where three points make it safe, else bisection: a smooth function is asked for some eight times, and none more
    often than twice as often as by bisection alone. An element that is done stays as it is, whatever the others do.

    Reference: T. R. Chandrupatla, "A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear
        function without using derivatives", 1997, https://doi.org/10.1016/s0965-9978(96)00051-8
    """
    info = torch.finfo(lower.dtype)
    lower, upper, below, above = _straddled(excess, lower, upper)
    floor = 0.0625 * info.eps * (upper - lower)
    # a: the last point; b: the end on the other side; c: the point before, beside a or b
    a, b, c, fa, fb, fc = lower, upper, lower, below, above, below
    t = (fa / (fa - fb)).nan_to_num(0.5).clamp(0.01, 0.99)
    done = torch.zeros_like(lower, dtype=torch.bool)
    for _ in range(2 * math.ceil(math.log2(16.0 / info.eps))):
        x = torch.where(done, a, a + t * (b - a))
        fx = excess(x)
        same = (fx >= 0.0) == (fa >= 0.0)
        c, fc = _where(done, (c, fc), _where(same, (a, fa), (b, fb)))
        b, fb = _where(done | same, (b, fb), (a, fa))
        a, fa = _where(done, (a, fa), (x, fx))
        limit = (2.0 * info.eps * torch.where(fa.abs() < fb.abs(), a, b).abs() + floor) / (b - a).abs()
        done = done | ~(limit < 0.5)
        if bool(done.all()):
            break
        t = _step(a, b, c, fa, fb, fc).maximum(limit).minimum(1.0 - limit)
    return torch.where(fa >= 0.0, a, b)


def _where(condition: Tensor, here: Point, there: Point) -> Point:
    return torch.where(condition, here[0], there[0]), torch.where(condition, here[1], there[1])


def _step(a: Tensor, b: Tensor, c: Tensor, fa: Tensor, fb: Tensor, fc: Tensor) -> Tensor:
    """How far to go from a to b: by the parabola through all three points where that is safe, else halfway."""
    place, value = (a - b) / (c - b), (fa - fb) / (fc - fb)
    safe = (value.square() < place) & ((1.0 - value).square() < 1.0 - place)
    parabola = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    return torch.where(safe, parabola, 0.5)


def _straddled(
    excess: Callable[[Tensor], Tensor], lower: Tensor, upper: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ends between which the answer lies, for levels that are rarer than the span allows for, and the values there."""
    below, above = excess(lower), excess(upper)
    for _ in range(_WIDENINGS):
        low, high = below >= 0.0, above < 0.0
        if not bool((low | high).any()):
            break
        span = upper - lower
        lower, upper = torch.where(low, lower - span, lower), torch.where(high, upper + span, upper)
        below, above = torch.where(low, excess(lower), below), torch.where(high, excess(upper), above)
    return lower, upper, below, above
