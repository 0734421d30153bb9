"""Bayes by Backprop: a factorized normal over the weights, fitted by gradients that pass through its draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from credo.core.inputs import Inputs
from credo.core.optimizers import Constant, Schedule
from credo.core.rng import Stream
from credo.core.trees import Params
from credo.methods.base import Info, Tick
from credo.methods.vi.estimators import Estimator, Reparameterization
from credo.methods.vi.flipout import Flipout
from credo.methods.vi.local import LocalReparameterization
from credo.methods.vi.mean_field import MeanField, MeanFieldNormal, VariationalState
from credo.methods.vi.objective import BatchWeights, EvenWeights, elbo
from credo.model import Batch, Model, Target

ESTIMATORS: dict[str, Estimator] = {
    "reparameterization": Reparameterization(),
    "local": LocalReparameterization(),
    "flipout": Flipout(),
}
"""The names that `estimator=` takes in the place of a value."""


@dataclass(frozen=True)
class BayesByBackprop(MeanField):
    """Mean-field variational inference by gradients through the draws.

    max_q  E_q[ sum_n log p(y_n | x_n, w) ] - KL(q || prior),   q = prod_i N(w_i; mean_i, softplus(rho_i)^2)

    The expectation is estimated with `samples` draws per step; the KL is exact where the prior allows it (`Normal`,
    `Laplace`) and estimated by as many draws where it does not. The number of data comes from the data: there is no KL
    weight to guess. The gradient is that of the bound per example, so a learning rate means the same for any amount of
    data; a rule that was stated for the loss summed over a batch needs its learning rate multiplied by the batch size.

    Args:
        epochs: passes over the data.
        learning_rate: step size of the optimizer.
        batch_size: examples per step; None for all of them.
        samples: draws per step.
        initial_scale: standard deviation of every weight before the first step.
        optimizer: the update rule.
        schedule: how the learning rate changes in the course of the run.
        initial_mean: None keeps the network's own initial weights, or those that `fit(start=...)` gives.
        initial_rho: instead of `initial_scale`, for a range of initial values.
        bayesian: patterns of the names of the parameters that get a distribution, as in file names ("*weight",
            "layers.4.*"); the others are points.
        estimator: of the gradient: `Reparameterization()` for any module, `LocalReparameterization()` or `Flipout()`
            for less variance in linear and convolutional layers; or their names reparameterization, local, flipout.
        prior_of_points: whether the prior acts on points (as in MAP) or not (as in maximum likelihood).
        batch_weights: the share of the KL that each minibatch of an epoch bears.
        annealing: what the KL is multiplied by in the course of the run, for example `WarmUp()`.

    Examples:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> method = BayesByBackprop(epochs=5, estimator="local")
        >>> posterior = credo.fit(credo.nets.MLP(1, 1), (x, x.sin()), method)
        >>> sorted(posterior.history[-1])
        ['epoch', 'kl', 'log_likelihood', 'loss', 'seconds']

    Reference: C. Blundell et al., "Weight uncertainty in neural networks", 2015, https://arxiv.org/abs/1505.05424
    """

    graph_safe: ClassVar[bool] = True

    estimator: Estimator | str = Reparameterization()
    prior_of_points: bool = True
    batch_weights: BatchWeights = EvenWeights()
    annealing: Schedule = Constant()

    def __post_init__(self) -> None:
        object.__setattr__(self, "estimator", _resolved(self.estimator))
        super().__post_init__()

    def prepare(self, model: Model, x: Inputs) -> tuple[Model, tuple[str, ...]]:
        model, notes = super().prepare(model, x)
        network = model.network
        uncertain = self.uncertain(network.layout)
        return model, (*notes, *_resolved(self.estimator).notes(network, network.given().to(x.device), x, uncertain))

    def objective(
        self, target: Target, q: MeanFieldNormal, batch: Batch, tick: Tick, memory: Params
    ) -> tuple[Tensor, Info, Params]:
        bound, log_likelihood = elbo(
            target,
            q,
            _resolved(self.estimator),
            batch,
            tick.rng,
            samples=self.samples,
            kl_weight=tick.scheduled(self._kl_weight),
            prior_of_points=self.prior_of_points,
        )
        return bound, {"log_likelihood": log_likelihood.detach() / target.size}, memory

    def summary(self, target: Target, state: VariationalState, rng: Stream) -> Info:
        """KL(q || prior) per example at the end of an epoch: no step needs its value."""
        posterior = self.posterior(target, state)
        kl = posterior.kl(self.samples, seed=rng.key())
        if not self.prior_of_points:
            points = {
                name: w for name, w in state.mean.params.items() if name in target.layout and name not in state.rho
            }
            kl = kl + target.model.prior.log_prob(points, target.layout) if points else kl
        return {"kl": kl / target.size}

    def _kl_weight(self, tick: Tick) -> float:
        """1 for even shares and no annealing."""
        batches = max(1, tick.total // self.epochs)
        return batches * self.batch_weights.share(tick.step % batches, batches) * self.annealing.factor(tick.fraction)


def _resolved(estimator: Estimator | str) -> Estimator:
    if isinstance(estimator, Estimator):
        return estimator
    if not isinstance(estimator, str) or estimator not in ESTIMATORS:
        raise ValueError(
            f"estimator must be one of {', '.join(ESTIMATORS)}, or a value such as Flipout(); got {estimator!r}"
        )
    return ESTIMATORS[estimator]
