"""Bayes by Backprop: a factorised normal over the weights, fitted by gradients that pass through its draws."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.optimizers import Adam, Constant, Optimizer, Schedule
from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.methods.base import Info, Method, Tick
from credo.methods.checks import check_at_least, check_positive
from credo.methods.vi.divergence import divergence
from credo.methods.vi.estimators import Estimator
from credo.methods.vi.factors import Factors
from credo.methods.vi.flipout import Flipout
from credo.methods.vi.local import LocalReparameterization
from credo.methods.vi.reparameterization import Reparameterization
from credo.methods.vi.starts import At, Start, rho_of
from credo.methods.vi.weighting import BatchWeights, EvenWeights
from credo.model import OWN, Batch, Model, Target
from credo.posteriors import DiagonalGaussian, Posterior

ESTIMATORS: dict[str, Estimator] = {
    "reparameterization": Reparameterization(),
    "local": LocalReparameterization(),
    "flipout": Flipout(),
}
"""The names that `estimator=` takes in the place of a value."""


@dataclass(frozen=True)
class VariationalState:
    """Means of all parameters, rho of the uncertain ones, (M, *shape) each, and the optimiser's memory.

    q(w) = N(mean, softplus(rho)^2)
    """

    mean: Variables
    rho: Params
    optimizer: list[Tensor]


@dataclass(frozen=True)
class BayesByBackprop(Method):
    """Mean-field variational inference.

    max_q  E_q[ sum_n log p(y_n | x_n, w) ] - KL(q || prior),   q = prod_i N(w_i; mean_i, softplus(rho_i)^2)

    The expectation is estimated with `samples` draws per step; the KL is exact where the prior allows it and estimated
    at the same draws where it does not. The number of data comes from the data: there is no KL weight to guess. The
    gradient is that of the bound per example, so a learning rate means the same for any amount of data; a rule that
    was stated for the loss summed over a batch needs its learning rate multiplied by the batch size.

    Args:
        epochs: passes over the data.
        learning_rate: step size of the optimiser.
        batch_size: examples per step; None for all of them.
        samples: draws per step.
        initial_scale: standard deviation of every weight before the first step.
        optimizer: the update rule.
        schedule: how the learning rate changes in the course of the run.
        estimator: of the gradient: `Reparameterization()` for any module, `LocalReparameterization()` or `Flipout()`
            for less variance in linear and convolutional layers; or their names reparameterization, local, flipout.
        initial_mean: None keeps the network's own first weights, or those that `fit(start=...)` gives.
        initial_rho: instead of `initial_scale`, for a range of first values.
        bayesian: patterns of the names of the parameters that get a distribution, as in file names ("*weight",
            "layers.4.*"); the others are points.
        prior_of_points: whether those points feel their prior (as in MAP) or not (as in maximum likelihood).
        batch_weights: the share of the KL that each minibatch of an epoch bears.
        annealing: what the KL is multiplied by in the course of the run, for example `WarmUp()`.

    Example:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> method = BayesByBackprop(epochs=5, estimator="local")
        >>> posterior = credo.fit(credo.nets.MLP(1, 1), (x, x.sin()), method)
        >>> sorted(posterior.history[-1])
        ['epoch', 'kl', 'log_likelihood', 'seconds']

    Reference: C. Blundell et al., "Weight uncertainty in neural networks", 2015, https://arxiv.org/abs/1505.05424
    """

    epochs: int = 100
    learning_rate: float = 1e-3
    batch_size: int | None = 128
    samples: int = 1
    initial_scale: float = 0.05
    optimizer: Optimizer = Adam()
    schedule: Schedule = Constant()
    estimator: Estimator | str = Reparameterization()
    initial_mean: Start | None = None
    initial_rho: Start | None = None
    bayesian: str | tuple[str, ...] = "*"
    prior_of_points: bool = True
    batch_weights: BatchWeights = EvenWeights()
    annealing: Schedule = Constant()

    def __post_init__(self) -> None:
        check_at_least("epochs", self.epochs, 1)
        check_at_least("samples", self.samples, 1)
        check_positive("learning_rate", self.learning_rate)
        check_positive("initial_scale", self.initial_scale)
        if self.batch_size is not None:
            check_at_least("batch_size", self.batch_size, 1)
        object.__setattr__(self, "estimator", _resolved(self.estimator))

    def steps(self, batches: int) -> int:
        return self.epochs * batches

    def prepare(self, model: Model, x: Tensor) -> tuple[Model, tuple[str, ...]]:
        names = list(model.network.layout)
        uncertain = self.uncertain(names)
        if not uncertain:
            raise ValueError(
                f"bayesian={self.bayesian!r} matches no parameter of the network; its parameters are {', '.join(names)}"
            )
        points = [name for name in names if name not in uncertain]
        told = (f"points, without a distribution: {', '.join(points)}",) if points else ()
        variables = model.network.given().to(x.device)
        return model, (*told, *_resolved(self.estimator).notes(model.network, variables, x, uncertain))

    def uncertain(self, names: Collection[str]) -> list[str]:
        """Those of the names that get a distribution."""
        patterns = (self.bayesian,) if isinstance(self.bayesian, str) else self.bayesian
        return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]

    def init(self, target: Target, variables: Variables, noise: Stream) -> VariationalState:
        mean = variables.params
        if self.initial_mean is not None:
            weights = {name: w for name, w in mean.items() if not name.startswith(OWN)}
            mean = {**mean, **self.initial_mean.fill(weights, noise.child("mean"))}
        start = self.initial_rho or At(rho_of(self.initial_scale))
        rho = start.fill({name: mean[name] for name in self.uncertain(mean)}, noise.child("rho"))
        return VariationalState(Variables(mean, variables.buffers), rho, self.optimizer.init(_joined(mean, rho)))

    def step(self, target: Target, state: VariationalState, batch: Batch, tick: Tick) -> tuple[VariationalState, Info]:
        mean = {name: w.detach().requires_grad_() for name, w in state.mean.params.items()}
        scale = {name: F.softplus(r).requires_grad_() for name, r in state.rho.items()}
        q = Factors(mean, scale, state.mean.buffers)
        estimator = _resolved(self.estimator)
        results = [estimator.log_likelihood(target, q, batch, tick.noise.child(s)) for s in range(self.samples)]
        log_likelihood = torch.stack([target.full(each) for each, _ in results]).mean(0)  # (M,)
        drawn = [weights for _, weights in results]
        apart = divergence(target, q, drawn, tick.noise.child("prior"), of_points=self.prior_of_points)
        objective = target.temper(log_likelihood) - self._kl_weight(tick) * apart.tempered(target)
        # divided by the number of data, so that a learning rate means the same for any N
        gradients = torch.autograd.grad(
            -objective.sum() / target.size, [*mean.values(), *scale.values()], materialize_grads=True
        )
        self._update(state, gradients, self.learning_rate * self.schedule.factor(tick.fraction))
        return state, {"log_likelihood": log_likelihood.detach() / target.size, "kl": apart.kl.detach() / target.size}

    def _kl_weight(self, tick: Tick) -> float:
        """1 for even shares and no annealing."""
        batches = tick.total // self.epochs
        return batches * self.batch_weights.share(tick.step % batches, batches) * self.annealing.factor(tick.fraction)

    @torch.no_grad()
    def _update(self, state: VariationalState, gradients: tuple[Tensor, ...], rate: float) -> None:
        """Move mean and rho; d scale / d rho = sigmoid(rho)."""
        of_mean, of_scale = gradients[: len(state.mean.params)], gradients[len(state.mean.params) :]
        of_rho = [g * torch.sigmoid(r) for g, r in zip(of_scale, state.rho.values(), strict=True)]
        self.optimizer.update(_joined(state.mean.params, state.rho), [*of_mean, *of_rho], state.optimizer, rate)

    def current(self, state: VariationalState) -> Variables:
        return state.mean

    def posterior(self, target: Target, state: VariationalState) -> Posterior:
        return DiagonalGaussian(target.model, state.mean, {name: F.softplus(r) for name, r in state.rho.items()})


def _resolved(estimator: Estimator | str) -> Estimator:
    if isinstance(estimator, Estimator):
        return estimator
    if estimator not in ESTIMATORS:
        raise ValueError(
            f"estimator must be one of {', '.join(ESTIMATORS)}, or a value like Flipout(); got {estimator!r}"
        )
    return ESTIMATORS[estimator]


def _joined(mean: Params, rho: Params) -> Params:
    return {**{f"mean/{name}": w for name, w in mean.items()}, **{f"rho/{name}": r for name, r in rho.items()}}
