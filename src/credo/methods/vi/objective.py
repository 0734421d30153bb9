"""The evidence lower bound, and how much of its KL divergence counts at each step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.checks import check_options
from credo.core.optimizers import Schedule
from credo.core.rng import Stream
from credo.core.trees import Params
from credo.methods.vi.estimators import Estimator
from credo.methods.vi.mean_field import MeanFieldNormal
from credo.model import Batch, Target, likelihood_params
from credo.priors.base import entropy


def elbo(
    target: Target,
    q: MeanFieldNormal,
    estimator: Estimator,
    batch: Batch,
    rng: Stream,
    *,
    samples: int = 1,
    kl_weight: float | Tensor = 1.0,
    prior_of_points: bool = True,
) -> tuple[Tensor, Tensor]:
    """An estimate of the evidence lower bound on the scale of all the data, and of its first term, (M,) each.

    elbo = E_q[ N/B sum_b log p(y_b | x_b, w) ] / T + kl_weight ( E_q[ log p(w) ] / T + H(q) )

    At a temperature T and a weight of 1 that is the expected log likelihood less KL(q || prior).

    Args:
        target: the density p, N and T.
        q: differentiable in its means and rho.
        estimator: of the expected log likelihood.
        batch: B examples.
        rng: all the randomness there is.
        samples: how many draws the expectations are averaged over.
        kl_weight: what the KL divergence is multiplied by: the share of this batch, and annealing.
        prior_of_points: whether parameters without a distribution count in E_q[log p(w)].

    Examples:
        >>> import credo
        >>> from credo.methods import vi
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> target = credo.Target(credo.Model(credo.nets.MLP(1, 1), credo.likelihoods.Gaussian()), size=20)
        >>> mean = target.model.network.given().params
        >>> q = MeanFieldNormal(mean, {name: torch.full_like(w, -3.0) for name, w in mean.items()})
        >>> bound, log_likelihood = elbo(target, q, vi.Reparameterization(), credo.Batch(x, x.sin()), credo.Stream(0))
        >>> bool(bound < log_likelihood)
        True

    Reference: C. Blundell et al., "Weight uncertainty in neural networks", 2015, eq. 1-2,
        https://arxiv.org/abs/1505.05424
    """
    drawn = [estimator.log_likelihood(target, q, batch, rng.child(s)) for s in range(samples)]
    log_likelihood = torch.stack([target.data_term(each, batch) for each, _ in drawn]).mean(0)
    names = [name for name in target.layout if prior_of_points or name in q.rho]
    log_prior = expected_log_prior(target, q, names, [weights for _, weights in drawn], rng.child("prior"))
    bound = target.temper(log_likelihood) + kl_weight * (target.temper(log_prior) + entropy(q.scale))
    return bound, log_likelihood


def expected_log_prior(
    target: Target, q: MeanFieldNormal, names: Sequence[str], drawn: Sequence[Params], rng: Stream
) -> Tensor:
    """E_q[log p(w)] of the named weights and the likelihood's parameters, (M,): exact, or else averaged over draws.

    Args:
        target: whose priors they are.
        q: where the expectation is taken.
        names: of the weights.
        drawn: weights drawn so far, for each draw of the step; what is missing is drawn here.
        rng: for what is missing.
    """
    prior, likelihood, layout = target.model.prior, target.model.likelihood, target.layout
    mean, scale = ({name: tree[name] for name in names if name in tree} for tree in (q.mean, q.scale))
    of_weights = prior.expected_log_prob(mean, scale, layout)
    if of_weights is None:
        missing = [[name for name in scale if name not in known] for known in drawn]
        whole = [{**mean, **known, **q.sample(missing[s], rng.child(s))} for s, known in enumerate(drawn)]
        of_weights = torch.stack([prior.log_prob({n: w[n] for n in names}, layout) for w in whole]).mean(0)
    of_likelihood = [likelihood.log_prior(likelihood_params({**q.mean, **known})) for known in drawn]
    return of_weights + sum(of_likelihood) / len(drawn)


class BatchWeights(ABC):
    """The share of the KL that each of the M minibatches of an epoch bears; the shares of an epoch sum to one."""

    @abstractmethod
    def share(self, index: int, batches: int) -> float:
        """Of batch `index` (0 .. batches - 1)."""


@dataclass(frozen=True)
class EvenWeights(BatchWeights):
    """The same share, 1 / M, for every batch: each batch estimates the same bound."""

    def share(self, index: int, batches: int) -> float:
        return 1.0 / batches


@dataclass(frozen=True)
class GeometricWeights(BatchWeights):
    """Blundell's shares 2^(M - i) / (2^M - 1), i = 1 .. M: the first batches of an epoch are ruled by the prior.

    Reference: C. Blundell et al., "Weight uncertainty in neural networks", 2015, section 3.4,
        https://arxiv.org/abs/1505.05424
    """

    def share(self, index: int, batches: int) -> float:
        return 2.0 ** -(index + 1) / (1.0 - 2.0**-batches)


@dataclass(frozen=True)
class WarmUp(Schedule):
    """From `initial` up to 1 in a straight line, reached when the fraction `until` of the run is over.

    For a KL divergence that should not crush the weights before the likelihood has had an effect.
    """

    until: float = 0.2
    initial: float = 0.0

    def __post_init__(self) -> None:
        check_options(self)
        if not 0.0 < self.until <= 1.0:
            raise ValueError(f"until must be a fraction of the run, above 0 and up to 1, got {self.until}")
        if not 0.0 <= self.initial <= 1.0:
            raise ValueError(f"initial must lie between 0 and 1, got {self.initial}")

    def factor(self, fraction: float) -> float:
        return self.initial + (1.0 - self.initial) * min(1.0, fraction / self.until)
