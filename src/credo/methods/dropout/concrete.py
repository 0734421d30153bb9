"""Concrete dropout: the rates are learned with the weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from credo.core.checks import check_positive, one_of
from credo.core.inputs import Inputs
from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.methods.ascent import GradientAscent, Group, leaves_of
from credo.methods.base import Info, Tick
from credo.methods.dropout.placing import PerLayer, PerWeight, Sharing, resolved, sites_of, with_dropout
from credo.methods.dropout.prior import expected_log_prior, keep_of_weights, with_length_scale
from credo.model import Batch, Model, Target, likelihood_params
from credo.nets.concrete import bernoulli_entropy, concrete_masks
from credo.nets.dropout import Drops, Site
from credo.posteriors import Dropout, Posterior


@dataclass(frozen=True)
class ConcreteState:
    """Weights, rates and the optimizer's memory, with a leading axis of M each."""

    variables: Variables  # weights at their expectation, and buffers
    logits: Params  # log(keep / (1 - keep)) by place, (M, *mask of one example) or (M, 1, ..., 1)
    optimizer: list[Tensor]  # its memory of the weights
    logits_optimizer: list[Tensor]  # its memory of the logits


@dataclass(frozen=True)
class ConcreteDropout(GradientAscent[ConcreteState]):
    """Dropout whose rates are learned: MC dropout without the grid search.

    max_{w, keep}  sum_n log p(y_n | x_n, w * mask_n / keep) + E_mask[ log p(w * mask / keep) ] + sum_units H(keep)

    with H the entropy of a Bernoulli variable. Training divides by the number of data, so with a normal prior of length
    scale l, in the weights m = w / keep that stay, it minimizes

    -1/B sum_b log p(y_b | x_b) + 1/N sum_q keep_q l^2 / 2 |m_q|^2 - 1/N sum_q H(keep_q)

    The prior and the entropy fade as data grow, and rates with them where the data leave no doubt. The masks of
    training are relaxed, mask = sigmoid((logit(keep) + logit(u)) / t), so that the likelihood has a gradient by the
    rate; drawn functions have hard masks of 0 and 1 / keep: these are what q is, and the relaxation is a device of
    training. A temperature of `fit` tempers likelihood and prior, not the entropy.

    Args:
        sharing: `PerLayer()`, one rate for each place, or `PerUnit()`, one for each unit or channel; or their names
            layer and unit.
        temperature: t of the relaxation. Smaller is closer to hard masks and has noisier gradients: Gal's code has 0.1,
            which is the default, Lee's tutorial 0.01.
        initial_rate: of all places before the first step.
        rate_learning_rate: step size for the logit of the rates; None is ten times `learning_rate`.
        drops: what is dropped where the network has no dropout of its own: `Drops.CHANNELS` or `Drops.UNITS`.
        length_scale: l of the prior N(0, 1 / l^2) of all weights; None for the model's own prior.

    Examples:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> posterior = credo.fit(credo.nets.MLP(1, 1), (x, x.sin()), ConcreteDropout(epochs=5))
        >>> [tuple(rate.shape) for rate in posterior.rates.values()]
        [(1, 1, 1), (1, 1, 1)]

    Reference: Y. Gal, J. Hron, A. Kendall, "Concrete dropout", 2017, https://arxiv.org/abs/1705.07832;
        Hae Beom Lee, "Implementation tutorial: Bayesian deep learning", KAIST, 2019, part III
    """

    graph_safe: ClassVar[bool] = True

    sharing: Sharing | str = PerLayer()
    temperature: float = 0.1
    initial_rate: float = 0.1
    rate_learning_rate: float | None = None
    drops: Drops = Drops.CHANNELS
    length_scale: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sharing", resolved(self.sharing))
        object.__setattr__(self, "drops", one_of("drops", self.drops, Drops))
        super().__post_init__()
        check_positive("temperature", self.temperature)
        if not 0.0 < self.initial_rate < 1.0:
            raise ValueError(f"initial_rate must lie between 0 and 1, both excluded, got {self.initial_rate!r}")
        for name in ("length_scale", "rate_learning_rate"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        if isinstance(self.sharing, PerWeight) or self.drops is Drops.WEIGHTS:
            raise ValueError(
                "concrete dropout learns rates of layers or units, not of weights: use PerLayer() or PerUnit(), and "
                "drops channels or units"
            )

    def prepare(self, model: Model, x: Inputs) -> tuple[Model, tuple[str, ...]]:
        model, notes = with_dropout(with_length_scale(model, self.length_scale), x, self.initial_rate, self.drops)
        sites = sites_of(model.network, x)
        if any(site.alpha for site in sites):
            raise ValueError("the network has alpha dropout, whose rate cannot be learned here: use nn.Dropout instead")
        others = [site.name for site in sites if site.has_own_meaning]
        if others:
            raise ValueError(
                f"the network fills a mask of its own at {', '.join(others)}, in which ones are the exception (drop "
                "block): its rate is no rate of dropout, and cannot be learned here"
            )
        unconsumed = [site.name for site in sites if site.consumer is None]
        if unconsumed:
            notes = (
                *notes,
                f"rates learned by likelihood and entropy alone, as no single layer takes the units: {unconsumed}",
            )
        return model, (
            *notes,
            f"rates are learned, {type(self.sharing).__name__}, beginning with {self.initial_rate:g}",
        )

    def init(self, target: Target, variables: Variables, rng: Stream) -> ConcreteState:
        first = math.log(1.0 / self.initial_rate - 1.0)
        like = next(iter(variables.params.values()))
        shapes = {site.name: self._shape(site) for site in target.model.network.sites}
        logits = {name: like.new_full((len(like), *shape), first) for name, shape in shapes.items()}
        return ConcreteState(variables, logits, self.optimizer.init(variables.params), self.optimizer.init(logits))

    def _shape(self, site: Site) -> tuple[int, ...]:
        mask = site.mask_shape(None)
        each = math.prod(resolved(self.sharing).shape((1, math.prod(mask))))
        return mask if each == math.prod(mask) else (1,) * len(mask)

    def step(self, target: Target, state: ConcreteState, batch: Batch, tick: Tick) -> tuple[ConcreteState, Info]:
        network = target.model.network
        params, named = leaves_of(state.variables.params), leaves_of(state.logits)
        logits = list(named.values())
        variables = Variables(params, state.variables.buffers)
        sites = network.trace(variables, batch.example).sites
        masks = concrete_masks(sites, logits, tick.rng.child("dropout"), batch.examples, self.temperature)
        own, per_member = tick.rng.child("own"), batch.per_member
        outputs = network.train(variables, batch.x, masks, target.plan, rng=own, x_per_member=per_member)
        each = target.model.likelihood.log_prob(outputs, batch.y, likelihood_params(params))
        keeps = [torch.sigmoid(logit) for logit in logits]
        parts = {
            "log_likelihood": target.data_term(each, batch),
            "log_prior": expected_log_prior(target, params, keep_of_weights(sites, keeps)),
            "entropy": entropy(sites, logits),
        }
        faster = 10.0 * self.learning_rate if self.rate_learning_rate is None else self.rate_learning_rate
        groups = [Group(params, state.optimizer, self.learning_rate), Group(named, state.logits_optimizer, faster)]
        bound = target.temper(parts["log_likelihood"] + parts["log_prior"]) + parts["entropy"]
        self.ascend(bound, groups, target, tick)
        with torch.no_grad():
            rates = torch.stack([torch.sigmoid(-logit).flatten(1).mean(1) for logit in logits]).mean(0)
        return state, {**{name: part.detach() / target.size for name, part in parts.items()}, "rate": rates}

    def loss(self, target: Target, metrics: Info) -> Tensor:
        return -(target.temper(metrics["log_likelihood"] + metrics["log_prior"]) + metrics["entropy"])

    def current(self, state: ConcreteState) -> Variables:
        return state.variables

    def posterior(self, target: Target, state: ConcreteState) -> Posterior:
        rates = {name: torch.sigmoid(-logit) for name, logit in state.logits.items()}
        return Dropout(target.model, state.variables, rates)


def entropy(sites: Sequence[Site], logits: Sequence[Tensor]) -> Tensor:
    """Entropy of one mask of all units in nats, (M,): a rate that units share counts once for each of them."""
    each = [
        bernoulli_entropy(logit).flatten(1).sum(1) * (math.prod(site.mask_shape(None)) / logit[0].numel())
        for site, logit in zip(sites, logits, strict=True)
    ]
    return torch.stack(each).sum(0)
