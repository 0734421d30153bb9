"""The divergence of a factorised normal from the prior: in closed form where there is one, by Monte Carlo otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params
from credo.methods.vi.factors import Drawn, Factors
from credo.model import Target, likelihood_params
from credo.priors.entropy import entropy


@dataclass(frozen=True)
class Divergence:
    """The parts of KL(q || p) = -entropy - expected_log_prior of each member, (M,), on the scale of the full data.

    Attributes:
        entropy: of q; its gradient is no part of a graph.
        expected_log_prior: E_q[log p], with a graph unless the prior is normal.
        precision: of a normal prior, by parameter; empty for others. Its gradient is no part of a graph either.
    """

    entropy: Tensor
    expected_log_prior: Tensor
    precision: Mapping[str, float]

    @property
    def kl(self) -> Tensor:
        return -self.entropy - self.expected_log_prior.detach()


def divergence(target: Target, q: Factors, drawn: Sequence[Drawn], noise: Stream, *, of_points: bool) -> Divergence:
    """Of q from the prior of the weights and of the likelihood's own parameters.

    Args:
        target: whose prior it is.
        q: the leaves of the step.
        drawn: for each draw of the step, what is known of the weights already.
        noise: for those that are not, where a prior has no closed form.
        of_points: whether parameters without a distribution feel their prior.
    """
    prior, layout = target.model.prior, target.layout
    names = [name for name in layout if of_points or name in q.scale]
    mean, scale = ({name: tree[name] for name in names if name in tree} for tree in (q.mean, q.scale))
    every = prior.precision(layout)
    with torch.set_grad_enabled(every is None):
        expected = prior.expected_log_prob(mean, scale, layout)
    own = [name for name in q.mean if name not in layout]
    needed = [name for name in (own if expected is not None else q.mean) if name in q.scale]
    whole = [_completed(q, needed, known, noise.child(s)) for s, known in enumerate(drawn)]
    if expected is None:
        expected = _average([prior.log_prob({name: w[name] for name in names}, layout) for w in whole])
    if own:
        expected = expected + _average([target.model.likelihood.log_prior(likelihood_params(w)) for w in whole])
    precision = {} if every is None else {name: every[name] for name in names}
    with torch.no_grad():
        return Divergence(entropy(q.scale), expected, precision)


def _completed(q: Factors, needed: Sequence[str], known: Drawn, noise: Stream) -> Params:
    """All parameters, with draws of the needed ones."""
    around = {name: q.mean[name] + known.deviations[name] for name in needed if name in known.deviations}
    missing = [name for name in needed if name not in known.whole and name not in around]
    return {**q.mean, **known.whole, **around, **q.draw(missing, noise)}


def _average(values: Sequence[Tensor | float]) -> Tensor:
    return torch.stack([torch.as_tensor(value) for value in values]).mean(0)
