"""Variational dropout: normal noise on the weights, whose size is learned."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar

import torch
from torch import Tensor

from credo.core.checks import check_positive, patterns, unmatched
from credo.core.inputs import Inputs
from credo.core.optimizers import Schedule
from credo.core.rng import Stream
from credo.core.trees import Layout, Params, Variables
from credo.methods.ascent import GradientAscent, Group, leaves_of
from credo.methods.base import Info, Tick
from credo.methods.dropout.noise import AdditiveNoise, CorrelatedNoise, NoiseModel, RelativeNoise, listed
from credo.methods.dropout.objective import elbo, log_prior_of_points
from credo.methods.dropout.placing import PerLayer, PerWeight, Sharing, resolved
from credo.methods.vi.layers import find_layers
from credo.methods.vi.objective import WarmUp
from credo.model import Batch, Model, Target
from credo.posteriors import Posterior

THRESHOLD = 3.0
"""log alpha above which a weight counts as noise. It was chosen by the authors: the noise is then 4.5 times the size of
the weight, as under a dropout rate of 95 %."""

FASTER = 10.0
"""How much larger the steps of the noise are where the caller does not say: logarithms have further to go."""

LARGEST_LOG_NOISE = 0.0
"""`AlphaNoise` and `AdditiveNoise` say why."""


@dataclass(frozen=True)
class VariationalDropoutState:
    """Weights, their noise, and the optimizer's memory of both, (M, ...) each."""

    mean: Variables  # theta of the noisy weights, all other parameters as points, and the buffers
    log_noise: Params  # log alpha, or log sigma^2, of the noisy weights
    optimizer: list[Tensor]  # memory for the weights
    noise_optimizer: list[Tensor]  # memory for the noise


@dataclass(frozen=True)
class VariationalDropoutBase(GradientAscent[VariationalDropoutState]):
    """max  E_q[ sum_n log p(y_n | x_n, w) ] - KL(q || log-uniform),   q(w) = N(theta, alpha theta^2).

    The bound itself is `objective.elbo`. The arguments are those of the two forms below.
    """

    noise_learning_rate: float | None = None
    annealing: Schedule = WarmUp()
    noisy: str | tuple[str, ...] = "*"

    def __post_init__(self) -> None:
        object.__setattr__(self, "noisy", patterns("noisy", self.noisy))
        super().__post_init__()
        if self.noise_learning_rate is not None:
            check_positive("noise_learning_rate", self.noise_learning_rate)

    @property
    @abstractmethod
    def noise_model(self) -> NoiseModel:
        """What q is, with its first values."""

    @abstractmethod
    def noise_metrics(self, log_alphas: Sequence[Tensor]) -> Info:
        """Numbers of each member for the history, (M,), from the log alphas of each parameter."""

    def prepare(self, model: Model, x: Inputs) -> tuple[Model, tuple[str, ...]]:
        network, variables = model.network, model.network.given().to(x.device)
        names = self._noisy_weights(network.layout)
        self._check_patterns(network.layout)
        layers = [layer for layer in find_layers(network, variables, x) if layer.weight in names]
        points = [name for name in network.layout if name not in names]
        whole = [name for name in names if name not in {layer.weight for layer in layers}]
        notes = [f"the log-uniform prior of variational dropout takes the place of {model.prior} for {listed(names)}"]
        if points:
            notes.append(f"points, without noise: {listed(points)}")
        if whole:
            notes.append(f"drawn once for a batch, in weight space: {listed(whole)}")
        if network.trace(variables, x).sites:
            notes.append("the network's own dropout stays on in training, and is off in the draws")
        return model, (*notes, *self.noise_model.notes(layers, network.layout))

    def _noisy_weights(self, layout: Layout) -> list[str]:
        """Names of the parameters that get noise; biases and norms are points."""
        wanted = (self.noisy,) if isinstance(self.noisy, str) else self.noisy
        return [name for name in _with_two_axes(layout) if any(fnmatchcase(name, pattern) for pattern in wanted)]

    def _check_patterns(self, layout: Layout) -> None:
        possible = _with_two_axes(layout)
        idle = unmatched(self.noisy, possible)
        if idle:
            raise ValueError(
                f"noisy has the pattern {idle[0]!r}, which matches no weight of the network: its "
                f"parameters with two axes or more are {', '.join(possible) or 'none'}"
            )

    def init(self, target: Target, variables: Variables, rng: Stream) -> VariationalDropoutState:
        params, model = variables.params, self.noise_model
        log_noise = {name: model.initial_log_noise(params[name]) for name in self._noisy_weights(target.layout)}
        return VariationalDropoutState(
            variables, log_noise, self.optimizer.init(params), self.optimizer.init(log_noise)
        )

    def step(
        self, target: Target, state: VariationalDropoutState, batch: Batch, tick: Tick
    ) -> tuple[VariationalDropoutState, Info]:
        params, log_noise = leaves_of(state.mean.params), leaves_of(state.log_noise)
        mean = Variables(params, state.mean.buffers)
        kl_weight = tick.scheduled(lambda now: self.annealing.factor(now.fraction))
        bound, log_likelihood = elbo(target, self.noise_model, mean, log_noise, batch, tick.rng, kl_weight)
        faster = FASTER * self.learning_rate if self.noise_learning_rate is None else self.noise_learning_rate
        of_mean = Group(params, state.optimizer, self.learning_rate)
        of_noise = Group(log_noise, state.noise_optimizer, faster)
        self.ascend(bound, [of_mean, of_noise], target, tick)
        for values in state.log_noise.values():
            values.clamp_(max=LARGEST_LOG_NOISE)
        return state, {"log_likelihood": log_likelihood.detach() / target.size}

    @torch.no_grad()
    def summary(self, target: Target, state: VariationalDropoutState, rng: Stream) -> Info:
        """KL and log prior of the points per example, and numbers of the noise, at the end of an epoch."""
        model = self.noise_model
        pairs = [(state.mean.params[name], values) for name, values in state.log_noise.items()]
        kl = torch.stack([model.kl(*pair) for pair in pairs]).sum(0) / target.size
        log_prior = kl.new_zeros(()) + log_prior_of_points(target, state.mean.params, state.log_noise) / target.size
        noise = [model.log_alpha(*pair) for pair in pairs]
        return {"kl": kl, "log_prior": log_prior.expand_as(kl), **self.noise_metrics(noise)}

    def loss(self, target: Target, metrics: Info) -> Tensor | None:
        """The negative bound; at another temperature than 1 the KL is not its second part."""
        if target.temperature != 1.0:
            return None
        return metrics["kl"] - metrics["log_likelihood"] - metrics["log_prior"]

    def current(self, state: VariationalDropoutState) -> Variables:
        return state.mean

    def posterior(self, target: Target, state: VariationalDropoutState) -> Posterior:
        return self.noise_model.posterior(target.model, state.mean, state.log_noise)


def _with_two_axes(layout: Layout) -> list[str]:
    """Names of the parameters that could get noise."""
    return [name for name, info in layout.items() if len(info.shape) > 1]


@dataclass(frozen=True)
class VariationalDropout(VariationalDropoutBase):
    """Gaussian dropout with noise that is learned: for a layer, for each input unit, or for each weight.

    max  E_q[ sum_n log p(y_n | x_n, w) ] - KL(alpha),   w = theta (1 + sqrt(alpha) noise),   alpha <= 1

    The prior of the noisy weights is log-uniform, p(log |w|) = constant, whatever prior the model has; the KL depends
    on alpha alone. Noise of size alpha acts like a dropout rate of alpha / (1 + alpha). Biases and norms are points
    under the model's prior. A temperature tempers the likelihood, not the KL.

    Args:
        epochs: passes over the data.
        learning_rate: step size for the weights.
        batch_size: examples per step; None for all of them.
        noise_learning_rate: step size for log alpha; None is ten times `learning_rate`.
        optimizer: the update rule.
        schedule: how both step sizes change in the course of the run.
        annealing: what the KL is multiplied by in the course of the run.
        noisy: patterns of the names of the weights that get noise, as in file names ("layers.0.*").
        sharing: which weights have one alpha in common: layer, unit or weight, or a value such as `PerUnit()`.
        correlated: one noise for all weights that leave an input unit, w_oi = theta_oi (1 + sqrt(alpha) noise_i): the
            paper's type B, a single product for each layer, with the log-uniform prior on the noise of the units.
        initial_alpha: of every weight before the first step, at most 1.

    Examples:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> posterior = credo.fit(credo.nets.MLP(1, 1), (x, x.sin()), VariationalDropout(epochs=5, sharing="unit"))
        >>> sorted(posterior.history[-1])
        ['alpha', 'epoch', 'kl', 'log_likelihood', 'log_prior', 'loss', 'seconds']

    Reference: D. P. Kingma, T. Salimans, M. Welling, "Variational dropout and the local reparameterization trick",
        2015, https://arxiv.org/abs/1506.02557
    """

    graph_safe: ClassVar[bool] = True

    sharing: Sharing | str = PerLayer()
    correlated: bool = False
    initial_alpha: float = 0.25

    def __post_init__(self) -> None:
        object.__setattr__(self, "sharing", resolved(self.sharing))
        super().__post_init__()
        if self.correlated and isinstance(self.sharing, PerWeight):
            raise ValueError(
                "correlated=True gives all weights of an input unit the same noise, so they cannot have an alpha each: "
                "use sharing='unit' or sharing='layer', or correlated=False"
            )
        check_positive("initial_alpha", self.initial_alpha)
        if self.initial_alpha > 1.0:
            raise ValueError(
                f"initial_alpha must be at most 1, got {self.initial_alpha}: beyond, the KL is not known; "
                "SparseVariationalDropout has no such bound"
            )

    @property
    def noise_model(self) -> NoiseModel:
        kind = CorrelatedNoise if self.correlated else RelativeNoise
        return kind(resolved(self.sharing), self.initial_alpha)

    def noise_metrics(self, log_alphas: Sequence[Tensor]) -> Info:
        """The mean alpha."""
        return {"alpha": torch.stack([each.exp().flatten(1).mean(1) for each in log_alphas]).mean(0)}


@dataclass(frozen=True)
class SparseVariationalDropout(VariationalDropoutBase):
    """Variational dropout with an alpha for each weight and no bound on it: most weights turn out to be noise.

    max  E_q[ sum_n log p(y_n | x_n, w) ] - KL(alpha),   w = theta + sigma noise,   alpha = sigma^2 / theta^2

    The log-uniform prior, which takes the place of the model's, drives weights that the data do not need to alpha of
    infinity. Those with log alpha above 3 can be removed: `credo.decide.prune_noise(posterior)`.

    Args:
        epochs: passes over the data.
        learning_rate: step size for the weights.
        batch_size: examples per step; None for all of them.
        noise_learning_rate: step size for log sigma^2; None is ten times `learning_rate`.
        optimizer: the update rule.
        schedule: how both step sizes change in the course of the run.
        annealing: what the KL is multiplied by in the course of the run. Without a warm-up, or a trained net to start
            from, all weights of a large net may be taken for noise before they have learned anything.
        noisy: patterns of the names of the weights that get noise, as in file names ("layers.0.*").
        initial_scale: sigma of every weight before the first step.

    Examples:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> posterior = credo.fit(credo.nets.MLP(1, 1), (x, x.sin()), SparseVariationalDropout(epochs=5))
        >>> sorted(posterior.history[-1])
        ['epoch', 'kl', 'log_likelihood', 'log_prior', 'loss', 'removable', 'seconds']

    Reference: D. Molchanov, A. Ashukha, D. Vetrov, "Variational dropout sparsifies deep neural networks", 2017,
        https://arxiv.org/abs/1701.05369
    """

    graph_safe: ClassVar[bool] = True

    initial_scale: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("initial_scale", self.initial_scale)

    @property
    def noise_model(self) -> NoiseModel:
        return AdditiveNoise(self.initial_scale)

    def noise_metrics(self, log_alphas: Sequence[Tensor]) -> Info:
        """The part of the weights that could be removed."""
        noise = torch.stack([(each > THRESHOLD).flatten(1).sum(1) for each in log_alphas]).sum(0)
        return {"removable": noise / sum(each[0].numel() for each in log_alphas)}
