"""What the forms of variational dropout share: weights with normal noise, and a log-uniform prior."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_options, check_positive, patterns, unmatched
from credo.core.optimizers import Adam, Constant, Optimizer, Schedule
from credo.core.rng import Stream
from credo.core.trees import Layout, Params, Variables
from credo.methods.base import Info, Method, Tick
from credo.methods.dropout.noise import Noise, listed
from credo.methods.vi.layers import find_layers, perturbed_outputs, walkable
from credo.methods.vi.rows import keep_memory
from credo.methods.vi.weighting import WarmUp
from credo.model import Batch, Model, Target, likelihood_params
from credo.nets.dropout import draw_masks
from credo.nets.walk import Rule, Sink, Walk
from credo.posteriors import Posterior

FASTER = 10.0
"""How much larger the steps of the noise are where the caller does not say: logarithms have further to go."""


@dataclass(frozen=True)
class NoisyState:
    """Weights, their noise, and what the optimiser remembers of both, (M, ...) each.

    Attributes:
        mean: theta of the noisy weights, all other parameters as points, and the buffers.
        level: log alpha, or log sigma^2, of the noisy weights.
        optimizer: memory for the weights.
        level_optimizer: memory for the levels.
    """

    mean: Variables
    level: Params
    optimizer: list[Tensor]
    level_optimizer: list[Tensor]


@dataclass(frozen=True)
class NoisyWeights(Method):
    """max  E_q[ sum_n log p(y_n | x_n, w) ] - KL(q || log-uniform),   q(w) = N(theta, alpha theta^2).

    Args:
        epochs: passes over the data.
        learning_rate: step size for the weights.
        batch_size: examples per step; None for all of them.
        noise_learning_rate: step size for the logarithm of the noise; None is ten times `learning_rate`.
        optimizer: the update rule.
        schedule: how both step sizes change in the course of the run.
        annealing: what the KL is multiplied by in the course of the run.
        noisy: patterns of the names of the weights that get noise, as in file names ("layers.0.*").
    """

    epochs: int = 100
    learning_rate: float = 1e-3
    batch_size: int | None = 128
    noise_learning_rate: float | None = None
    optimizer: Optimizer = Adam()
    schedule: Schedule = Constant()
    annealing: Schedule = WarmUp()
    noisy: str | tuple[str, ...] = "*"

    def __post_init__(self) -> None:
        object.__setattr__(self, "noisy", patterns("noisy", self.noisy))
        check_options(self)
        check_at_least("epochs", self.epochs, 1)
        check_positive("learning_rate", self.learning_rate)
        if self.batch_size is not None:
            check_at_least("batch_size", self.batch_size, 1)
        if self.noise_learning_rate is not None:
            check_positive("noise_learning_rate", self.noise_learning_rate)

    @property
    @abstractmethod
    def noise(self) -> Noise:
        """How the noise is written."""

    @property
    @abstractmethod
    def initial(self) -> float:
        """Where the noise begins: an alpha, or a scale."""

    @abstractmethod
    def told(self, log_alphas: Sequence[Tensor]) -> Info:
        """What the history tells of the noise: numbers of each member, (M,), from the log alphas of each parameter."""

    def steps(self, batches: int) -> int:
        return self.epochs * batches

    def weights(self, layout: Layout) -> list[str]:
        """Names of the parameters that get noise; biases and norms are points."""
        wished = (self.noisy,) if isinstance(self.noisy, str) else self.noisy
        return [name for name in _wide(layout) if any(fnmatchcase(name, pattern) for pattern in wished)]

    def prepare(self, model: Model, x: Tensor) -> tuple[Model, tuple[str, ...]]:
        network = model.network
        names = self.weights(network.layout)
        wide = _wide(network.layout)
        idle = unmatched(self.noisy, wide)
        if idle:
            raise ValueError(
                f"noisy has the pattern {idle[0]!r}, which matches no weight of the network: its "
                f"parameters with two axes or more are {', '.join(wide) or 'none'}"
            )
        layers = [layer for layer in find_layers(network, network.given().to(x.device), x) if layer.weight in names]
        points = [name for name in network.layout if name not in names]
        whole = [name for name in names if name not in {layer.weight for layer in layers}]
        told = [f"the log-uniform prior of variational dropout takes the place of {model.prior} for {listed(names)}"]
        if points:
            told.append(f"points, without noise: {listed(points)}")
        if whole:
            told.append(f"drawn once for a batch, in weight space: {listed(whole)}")
        if network.trace(network.given().to(x.device), x).sites:
            told.append("the network's own dropout stays on in training, and is off in the draws")
        return model, (*told, *self.noise.remarks(layers, network.layout))

    def init(self, target: Target, variables: Variables, noise: Stream) -> NoisyState:
        params = variables.params
        keep_memory()
        level = {name: self.noise.first(params[name], self.initial) for name in self.weights(target.layout)}
        return NoisyState(variables, level, self.optimizer.init(params), self.optimizer.init(level))

    def step(self, target: Target, state: NoisyState, batch: Batch, tick: Tick) -> tuple[NoisyState, Info]:
        by_mean, by_level, info = self._slopes(target, state, batch, tick)
        rate = tick.value(lambda now: self.learning_rate * self.schedule.factor(now.fraction))
        faster = tick.value(lambda now: self._noise_rate * self.schedule.factor(now.fraction))
        with torch.no_grad():
            self.optimizer.update(state.mean.params, by_mean, state.optimizer, rate)
            self.optimizer.update(state.level, by_level, state.level_optimizer, faster)
            for level in state.level.values():
                self.noise.confine(level)
        return state, info

    def _slopes(
        self, target: Target, state: NoisyState, batch: Batch, tick: Tick
    ) -> tuple[list[Tensor], list[Tensor], Info]:
        """Of the negative bound per example, by the means and by the levels; and what to tell."""
        noise, level = self.noise, state.level
        with torch.no_grad():
            spread = {name: noise.spread(state.mean.params[name], values) for name, values in level.items()}
        given = {name: each.values for name, each in spread.items()}
        passage = noisy_pass(target, noise, state.mean, level, given, batch, tick.noise)
        log_likelihood = target.full(
            target.model.likelihood.log_prob(passage.outputs, batch.y, likelihood_params(passage.mean))
        )
        # divided by the number of data, so that a learning rate means the same for any N
        loss = target.temper(log_likelihood + _log_prior(target, passage.mean, level)).sum() / -target.size
        by_mean, by_spread = passage.back(loss)
        weight = tick.value(lambda now: self.annealing.factor(now.fraction) / target.size)
        by_level = []
        with torch.no_grad():
            for name, values in level.items():
                parts = (state.mean.params[name], values, spread[name], by_mean[name], by_spread[name])
                by_mean[name], of_level = noise.slopes(*parts, weight)
                by_level.append(of_level)
        return list(by_mean.values()), by_level, {"log_likelihood": log_likelihood.detach() / target.size}

    @torch.no_grad()
    def summary(self, target: Target, state: NoisyState, noise: Stream) -> Info:
        """The divergence per example, and a number of the noise, at the end of an epoch: no step needs them."""
        pairs = [(state.mean.params[name], level) for name, level in state.level.items()]
        kl = torch.stack([self.noise.kl(*pair) for pair in pairs]).sum(0) / target.size
        return {"kl": kl, **self.told([self.noise.log_alpha(*pair) for pair in pairs])}

    @property
    def _noise_rate(self) -> float:
        return FASTER * self.learning_rate if self.noise_learning_rate is None else self.noise_learning_rate

    def current(self, state: NoisyState) -> Variables:
        return state.mean

    def posterior(self, target: Target, state: NoisyState) -> Posterior:
        return self.noise.posterior(target.model, state.mean, state.level)


@dataclass(frozen=True)
class Passage:
    """A way through the network in training, with noise on its weights.

    Attributes:
        outputs: (M, B, E), with a graph behind them.
        mean: expectations of all parameters, and
        spread: of the noisy weights: leaves of the graph.
        walk: the way back to them, where the graph does not know it, and
        end: the leaf at which it ends then.
    """

    outputs: Tensor
    mean: Params
    spread: Params
    walk: Walk | None = None
    end: Tensor | None = None

    def back(self, loss: Tensor) -> tuple[Params, Params]:
        """Slopes of a loss by the means and by the spreads, (M, ...) each."""
        leaves = [*self.mean.values(), *self.spread.values()]
        if self.walk is None or self.end is None:
            slopes = torch.autograd.grad(loss, leaves, materialize_grads=True)
            by_mean = dict(zip(self.mean, slopes, strict=False))
            return by_mean, dict(zip(self.spread, slopes[len(by_mean) :], strict=True))
        on_the_way = self.walk.stack.names
        rest = {name: w for name, w in self.mean.items() if name not in self.spread}
        by_end, *more = torch.autograd.grad(loss, [self.end, *rest.values()], allow_unused=True)
        by_end = torch.zeros_like(self.end) if by_end is None else by_end
        by_mean = {n: torch.empty_like(w) if n in on_the_way else torch.zeros_like(w) for n, w in self.mean.items()}
        by_spread = {name: torch.empty_like(t) for name, t in self.spread.items()}
        self.walk.back(by_end.squeeze(0), *(Sink({n: t[0] for n, t in to.items()}) for to in (by_mean, by_spread)))
        for name, slope in zip(rest, more, strict=True):
            if slope is not None:
                by_mean[name].add_(slope)
        return by_mean, by_spread


def noisy_pass(
    target: Target, noise: Noise, mean: Variables, level: Params, spread: Params, batch: Batch, stream: Stream
) -> Passage:
    """Through the network in training, with noise on its weights.

    Linear and convolutional layers get noise of their own for every example; a weight that is used in another way is
    drawn once for the batch.

    Args:
        target: whose network it is.
        noise: its kind.
        mean: expectations of all parameters, and the buffers.
        level: of the noise on the noisy weights.
        spread: of the noisy weights.
        batch: examples.
        stream: all the randomness there is.
    """
    network, lanes = target.model.network, (mean.members, batch.examples)
    x = batch.x[0] if batch.own else batch.x
    layers = [layer.without_bias() for layer in find_layers(network, mean, x) if layer.weight in spread]
    standard = stream.child("layers").normal_like(
        {layer.weight: mean.params[layer.weight].new_empty(()).expand(*lanes, *noise.shape(layer)) for layer in layers}
    )
    leaves, spreads = ({n: t.detach().requires_grad_() for n, t in tree.items()} for tree in (mean.params, spread))
    brought = {
        layer.weight: [standard[layer.weight], spreads[layer.weight], *noise.constants(layer, level[layer.weight])]
        for layer in layers
    }
    stack = walkable(network, noise.perturbation, mean, x) if len(brought) == len(spread) else None
    if stack is not None:
        assert isinstance(noise.perturbation, Rule)
        params = {name: w[0] for tree in (mean.params, mean.buffers) for name, w in tree.items()}
        own = {name: [t.detach().squeeze(0) for t in tensors] for name, tensors in brought.items()}
        walk = Walk(stack, noise.perturbation, params, own)
        end = walk.forward(x).unsqueeze(0).requires_grad_()
        return Passage(end.clone(), leaves, spreads, walk, end)  # a likelihood may write to what it is given
    whole = stream.child("weights").normal_like({n: w for n, w in leaves.items() if n in spread.keys() - standard})
    drawn = {n: noise.draw(leaves[n], spreads[n], level[n], e) for n, e in whole.items()}
    sites = network.trace(mean, x).sites
    masks = draw_masks(sites, stream.child("dropout"), *lanes, dtype=network.dtype, device=mean.device)
    variables = Variables({**leaves, **drawn}, mean.buffers)
    tensors = list(brought.values())
    outputs = perturbed_outputs(network, layers, noise.perturbation, tensors, variables, batch, target.plan, masks)
    return Passage(outputs, leaves, spreads)


def _wide(layout: Layout) -> list[str]:
    """Names of the parameters that could get noise: those with two axes or more."""
    return [name for name, info in layout.items() if len(info.shape) > 1]


def _log_prior(target: Target, mean: Params, noisy: Collection[str]) -> Tensor:
    """log p of the points, by the model's own prior, and of the likelihood's parameters, (M,)."""
    points = {name: mean[name] for name in target.layout if name not in noisy}
    of_weights = target.model.prior.log_prob(points, target.layout) if points else 0.0
    first = next(iter(mean.values()))
    return first.new_zeros(len(first)) + of_weights + target.model.likelihood.log_prior(likelihood_params(mean))
