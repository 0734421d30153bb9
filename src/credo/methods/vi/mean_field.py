"""What the variational methods share: a factorized normal, moved up an objective."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.checks import check_at_least, check_options, check_positive, patterns, unmatched
from credo.core.inputs import Inputs
from credo.core.noise import standard_normal
from credo.core.rng import Stream
from credo.core.threads import keep_memory
from credo.core.trees import Params, Variables
from credo.likelihoods import LearnedGaussian
from credo.methods.ascent import GradientAscent, Group, leaves_of
from credo.methods.base import Info, Tick
from credo.methods.vi.initializers import ConstantInit, Initializer, rho_of
from credo.model import LIKELIHOOD_PREFIX, Batch, Model, Target
from credo.posteriors import DiagonalGaussian, Posterior


@dataclass(frozen=True)
class MeanFieldNormal:
    """q(w) = prod_i N(w_i; mean_i, scale_i^2),   scale = softplus(rho)."""

    mean: Params  # of all parameters, (M, *shape) each
    rho: Params  # of the uncertain ones; a parameter without it is a point at its mean
    buffers: Params = field(default_factory=dict)  # of the network, (M, *shape) each

    @cached_property
    def scale(self) -> Params:
        """Standard deviations of the uncertain parameters, (M, *shape) each."""
        return {name: F.softplus(r) for name, r in self.rho.items()}

    @cached_property
    def variance(self) -> Params:
        """scale^2 of the uncertain parameters, (M, *shape) each."""
        return {name: s.square() for name, s in self.scale.items()}

    @cached_property
    def center(self) -> Variables:
        """The means of all parameters, and the buffers."""
        return Variables(self.mean, self.buffers)

    def noise(self, names: Iterable[str], rng: Stream) -> Params:
        """Standard normal numbers for these uncertain parameters, (M, *shape) each."""
        first = next(iter(self.mean.values()))
        return standard_normal({name: tuple(self.rho[name].shape) for name in names}, first, rng)

    def sample(self, names: Iterable[str], rng: Stream) -> Params:
        """Draws w = mean + scale * noise of these uncertain parameters, (M, *shape) each."""
        return {name: torch.addcmul(self.mean[name], self.scale[name], e) for name, e in self.noise(names, rng).items()}

    def deviations(self, names: Iterable[str], rng: Stream) -> Params:
        """Draws of w - mean = scale * noise of these uncertain parameters, (M, *shape) each."""
        return {name: self.scale[name] * e for name, e in self.noise(names, rng).items()}


@dataclass(frozen=True)
class VariationalState:
    """The parameters of q, and what optimizer and method remember."""

    mean: Variables  # expectations of all parameters, and the buffers
    rho: Params  # of the uncertain parameters, (M, *shape) each
    optimizer: list[Tensor] = field(default_factory=list)  # memory for the means
    rho_optimizer: list[Tensor] = field(default_factory=list)  # memory for rho
    memory: Params = field(default_factory=dict)  # what a method's objective remembers from one step to the next

    def leaves(self) -> MeanFieldNormal:
        """q as something to differentiate by."""
        return MeanFieldNormal(leaves_of(self.mean.params), leaves_of(self.rho), self.mean.buffers)


@dataclass(frozen=True)
class MeanField(GradientAscent[VariationalState]):
    """max_q  E_q[ sum_n log p(y_n | x_n, w) ] - KL(q || prior),   q = prod_i N(w_i; mean_i, softplus(rho_i)^2).

    Args:
        samples: draws per step.
        initial_scale: standard deviation of every weight before the first step.
        initial_mean: None keeps the network's own initial weights, or those that `fit(start=...)` gives.
        initial_rho: instead of `initial_scale`, for a range of initial values.
        bayesian: patterns of the names of the parameters that get a distribution, as in file names ("*weight",
            "layers.4.*"); the others are points.
    """

    samples: int = 1
    initial_scale: float = 0.05
    initial_mean: Initializer | None = None
    initial_rho: Initializer | None = None
    bayesian: str | tuple[str, ...] = "*"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bayesian", patterns("bayesian", self.bayesian))
        check_options(self, initial_mean="ConstantInit(0.0)", initial_rho="ConstantInit(-3.0)")
        super().__post_init__()
        check_at_least("samples", self.samples, 1)
        check_positive("initial_scale", self.initial_scale)

    @abstractmethod
    def objective(
        self, target: Target, q: MeanFieldNormal, batch: Batch, tick: Tick, memory: Params
    ) -> tuple[Tensor, Info, Params]:
        """What a step ascends, on the scale of all the data, (M,); metrics of the step; and the next memory.

        Its gradient by the leaves of q is one estimate of that of the bound.
        """

    def memory(self, variables: Variables) -> Params:
        """What the objective remembers before the first step."""
        return {}

    def uncertain(self, names: Collection[str]) -> list[str]:
        """Those of the names that get a distribution."""
        wanted = (self.bayesian,) if isinstance(self.bayesian, str) else self.bayesian
        return [name for name in names if any(fnmatchcase(name, pattern) for pattern in wanted)]

    def prepare(self, model: Model, x: Inputs) -> tuple[Model, tuple[str, ...]]:
        names = list(model.network.layout)
        uncertain = self.uncertain(names)
        idle = unmatched(self.bayesian, names)
        idle = unmatched(idle, _likelihood_names(model, x)) if idle else []
        if idle or not uncertain:
            shown = idle[0] if idle else self.bayesian
            raise ValueError(
                f"bayesian has the pattern {shown!r}, which matches no parameter of the "
                f"network; its parameters are {', '.join(names)}"
            )
        points = [name for name in names if name not in uncertain]
        return model, (f"points, without a distribution: {', '.join(points)}",) if points else ()

    def init(self, target: Target, variables: Variables, rng: Stream) -> VariationalState:
        mean = variables.params
        if self.initial_mean is not None:
            weights = {name: w for name, w in mean.items() if not name.startswith(LIKELIHOOD_PREFIX)}
            mean = {**mean, **self.initial_mean.fill(weights, rng.child("mean"))}
        initializer = self.initial_rho or ConstantInit(rho_of(self.initial_scale))
        rho = initializer.fill({name: mean[name] for name in self.uncertain(mean)}, rng.child("rho"))
        variables = Variables(mean, variables.buffers)
        keep_memory()
        return VariationalState(
            variables, rho, self.optimizer.init(mean), self.optimizer.init(rho), self.memory(variables)
        )

    def begin_at(self, state: VariationalState, start: Posterior) -> VariationalState:
        """With the scales of a posterior that is a diagonal normal itself, but for those that are zero."""
        if not isinstance(start, DiagonalGaussian) or self.initial_rho is not None:
            return state
        members = torch.arange(state.mean.members) % start.mean.members
        for name, rho in state.rho.items():
            known = start.scale.get(name)
            if known is not None and known.shape[1:] == rho.shape[1:]:
                scale = known[members.to(known.device)].to(rho)
                # log(exp(s) - 1), the inverse of softplus
                rho.copy_(torch.where(scale > 0, scale + torch.log(-torch.expm1(-scale)), rho))
        return state

    def step(self, target: Target, state: VariationalState, batch: Batch, tick: Tick) -> tuple[VariationalState, Info]:
        q = state.leaves()
        objective, info, memory = self.objective(target, q, batch, tick, state.memory)
        means = Group(q.mean, state.optimizer, self.learning_rate)
        rhos = Group(q.rho, state.rho_optimizer, self.learning_rate)
        self.ascend(objective, [means, rhos], target, tick)
        return replace(state, memory=memory), info

    def loss(self, target: Target, metrics: Info) -> Tensor | None:
        """The negative bound; at another temperature than 1 the KL is not its second part."""
        if "kl" not in metrics or target.temperature != 1.0:
            return None
        return metrics["kl"] - metrics["log_likelihood"]

    def current(self, state: VariationalState) -> Variables:
        return state.mean

    def posterior(self, target: Target, state: VariationalState) -> DiagonalGaussian:
        return DiagonalGaussian(target.model, state.mean, {name: F.softplus(r) for name, r in state.rho.items()})


def _likelihood_names(model: Model, x: Inputs) -> list[str]:
    """Names of the likelihood's parameters: of the one that `fit` may choose, where there is none yet."""
    likelihood = model.given_likelihood or LearnedGaussian()
    outputs = model.outputs(model.network.given().to(x.device), x)
    return [LIKELIHOOD_PREFIX + name for name in likelihood.parameters(outputs)]
