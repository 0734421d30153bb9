"""What the prior adds to the gradient: in closed form where there is one, by Monte Carlo otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Layout, Params
from credo.methods.vi.factors import Drawn, Factors, Pull
from credo.methods.vi.rows import Row, runs
from credo.model import Target, likelihood_params
from credo.priors import ElementwisePrior


@dataclass(frozen=True)
class Attraction:
    """E_q[log p] by its gradient alone.

    Attributes:
        pull: the part that needs no graph.
        expected_log_prior: the other part, (M,) with a graph; None where there is none.
    """

    pull: Pull
    expected_log_prior: Tensor | None


def attraction(target: Target, q: Factors, drawn: Sequence[Drawn], noise: Stream, *, of_points: bool) -> Attraction:
    """Of q to the prior of the weights and of the likelihood's own parameters.

    Args:
        target: whose prior it is.
        q: the leaves of the step.
        drawn: for each draw of the step, what is known of the weights already.
        noise: for those that are not, where a prior has no closed form.
        of_points: whether parameters without a distribution feel their prior.
    """
    layout, likelihood = target.layout, target.model.likelihood
    pull, expected = _of_weights(target, q, drawn, noise, [name for name in layout if of_points or name in q.uncertain])
    own = [name for name in q.names if name not in layout]
    if own:
        needed = [name for name in own if name in q.uncertain]
        whole = [_completed(q, needed, known, noise.child("own", s)) for s, known in enumerate(drawn)]
        of_own = _average([likelihood.log_prior(likelihood_params(w)) for w in whole])
        expected = of_own if expected is None else expected + of_own
    return Attraction(pull, expected if expected is not None and expected.requires_grad else None)


def _of_weights(
    target: Target, q: Factors, drawn: Sequence[Drawn], noise: Stream, names: Sequence[str]
) -> tuple[Pull, Tensor | None]:
    prior, layout = target.model.prior, target.layout
    precision = prior.precision(layout)
    if precision is not None:
        return Pull({name: precision[name] for name in names}), None
    mean, scale = ({name: tree[name] for name in names if name in tree} for tree in (q.mean, q.scale))
    expected = prior.expected_log_prob(mean, scale, layout)
    if expected is not None:
        return Pull(), expected
    if isinstance(prior, ElementwisePrior):
        for s, known in enumerate(drawn):
            q.draw((n for n in scale if n not in known.whole and n not in known.deviations), noise.child(s))
        points = tuple(name for name in names if name not in scale)
        return Pull(slope=partial(_slopes, prior, layout), share=1.0 / len(drawn), points=points), None
    whole = [_completed(q, list(scale), known, noise.child(s)) for s, known in enumerate(drawn)]
    return Pull(), _average([prior.log_prob({name: w[name] for name in names}, layout) for w in whole])


def _slopes(prior: ElementwisePrior, layout: Layout, row: Row) -> Tensor:
    """d log p / dw of all entries of a row, at once for neighbours with the same density; 0 for what has no prior."""
    fan_ins = {name: layout[name].fan_in if prior.fan_in else 1 for name, _ in row.shapes if name in layout}
    total = torch.zeros_like(row.values)
    for fan_in in dict.fromkeys(fan_ins.values()):
        alike = tuple((name, shape) for name, shape in row.shapes if fan_ins.get(name) == fan_in)
        if alike == row.shapes:
            return prior.slope(row.values, fan_in)
        for there, _ in runs(row.shapes, alike):
            total[there] = prior.slope(row.values[there], fan_in)
    return total


def _completed(q: Factors, needed: Sequence[str], known: Drawn, noise: Stream) -> Params:
    """All parameters, with draws of the needed ones."""
    around = {name: q.mean[name] + known.deviations[name] for name in needed if name in known.deviations}
    missing = [name for name in needed if name not in known.whole and name not in around]
    return {**q.mean, **known.whole, **around, **q.draw(missing, noise)}


def _average(values: Sequence[Tensor | float]) -> Tensor:
    return torch.stack([torch.as_tensor(value) for value in values]).mean(0)
