"""Monte Carlo dropout: dropout in training, and again for every drawn function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from credo.core.checks import check_at_least, check_positive, check_rate, is_number, one_of
from credo.core.inputs import Inputs
from credo.core.rng import Stream
from credo.core.trees import Variables
from credo.methods.ascent import GradientAscent, Group, leaves_of
from credo.methods.base import Info, Tick
from credo.methods.dropout.placing import DropoutRate, sites_of, with_dropout
from credo.methods.dropout.prior import expected_log_prior, keep_of_weights, with_length_scale
from credo.methods.point import PointState
from credo.model import Batch, Model, Target
from credo.nets.dropout import Drops
from credo.posteriors import Dropout, Posterior


@dataclass(frozen=True)
class MCDropout(GradientAscent[PointState]):
    """Train with dropout, predict with dropout: each mask is a draw from an approximate posterior.

    max_w  sum_n log p(y_n | x_n, w * mask_n) + E_mask[ log p(w * mask) ];   draws are w * mask, one mask for all inputs

    This is the evidence bound of q(w * mask), up to a constant. With a normal prior of length scale l the second part
    is -sum l^2 / (2 keep) |w|^2, or in the weights m = w / keep that stay, per example,

    J = -1/N sum_n log p(y_n | x_n, m) + keep l^2 / (2 N) |m|^2,   keep = 1 - rate

    so the weight decay follows from the prior, the rate of the layer and the number of data. A network without dropout
    (keep = 1) is MAP; the rate tightens the prior of a layer by 1 / keep.

    In training every example has its own mask; of weights (DropConnect) one mask per step serves the whole batch, since
    a mask for each example would be a copy of all weights for each. The expectation of the gradient is the same, its
    variance larger.

    Args:
        rate: None uses the dropout layers of the network as they are, and is refused if there are none. A number is
            given to the layers that are there; if there are none, dropout is put in front of every linear and
            convolutional layer but the first (in a plain stack: after each hidden layer). A mapping gives rates by
            pattern of the layer's name, {"layers.3": 0.1, "head.*": 0.5}: of a dropout layer, or of the layer it drops
            for; where the network has no dropout it is put in front of the layers that a pattern means, and no others.
            The first pattern that means a layer counts, so special ones come first: {"layers.5": 0.4, "*": 0.1}. A rate
            of 0 is the deterministic limit, with no uncertainty at all, and a note says so.
        drops: where dropout is put in: `Drops.CHANNELS` drops whole channels in front of convolutions and units
            elsewhere, `Drops.UNITS` single entries everywhere, `Drops.WEIGHTS` single weights of all layers
            (DropConnect); or their names.
        length_scale: l of the prior N(0, 1 / l^2) of all weights; None for the model's own prior.
        repeats: how often each example comes in a batch, each time with another mask: the gradient has the same mean
            and less noise, for as many times the cost of a step.

    Examples:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> posterior = credo.fit(credo.nets.MLP(1, 1), (x, x.sin()), MCDropout(epochs=5, rate=0.1))
        >>> posterior.predict(x, draws=50).draws.shape, posterior.at_mean().predict(x).draws.shape
        (torch.Size([50, 20, 1]), torch.Size([1, 20, 1]))

    Reference: Y. Gal, Z. Ghahramani, "Dropout as a Bayesian approximation", 2016, https://arxiv.org/abs/1506.02142;
        repeated examples: E. Hoffer et al., "Augment your batch", 2020, https://arxiv.org/abs/1901.09335;
        L. Wan et al., "Regularization of neural networks using DropConnect", 2013,
        https://proceedings.mlr.press/v28/wan13.html
    """

    graph_safe: ClassVar[bool] = True

    rate: DropoutRate | None = None
    drops: Drops = Drops.CHANNELS
    length_scale: float | None = None
    repeats: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "drops", one_of("drops", self.drops, Drops))
        object.__setattr__(self, "rate", _checked(self.rate))
        super().__post_init__()
        if self.length_scale is not None:
            check_positive("length_scale", self.length_scale)
        check_at_least("repeats", self.repeats, 1)
        if self.repeats > 1 and self.drops is Drops.WEIGHTS:
            raise ValueError(
                f"repeats={self.repeats} gives each example several masks, and dropped weights are the same for a "
                "whole batch: use Drops.CHANNELS or Drops.UNITS, or repeats=1"
            )

    def prepare(self, model: Model, x: Inputs) -> tuple[Model, tuple[str, ...]]:
        model = with_length_scale(model, self.length_scale)
        if self.rate is not None:
            model, notes = with_dropout(model, x, self.rate, self.drops)
            return model, (*notes, *_zero_rate_note(model, x), *_prior_note(model, x))
        sites = sites_of(model.network, x)
        if not sites:
            raise ValueError(
                "the network has no dropout layer, so MC dropout would give no uncertainty at all: pass a rate, "
                "MCDropout(rate=0.1), to put dropout in, or add nn.Dropout to the network"
            )
        return model, (f"dropout: the network's own, at {len(sites)} place(s)", *_prior_note(model, x))

    def init(self, target: Target, variables: Variables, rng: Stream) -> PointState:
        return PointState(variables, self.optimizer.init(variables.params))

    def step(self, target: Target, state: PointState, batch: Batch, tick: Tick) -> tuple[PointState, Info]:
        params = leaves_of(state.variables.params)
        variables = Variables(params, state.variables.buffers)
        batch = batch.repeated(self.repeats)
        each = target.training_log_likelihood(variables, batch, tick.rng)
        sites = target.model.network.trace(variables, batch.example).sites
        keeps = keep_of_weights(sites, [1.0 - site.rate for site in sites])
        log_likelihood, log_prior = target.data_term(each, batch), expected_log_prior(target, params, keeps)
        weights = Group(params, state.optimizer, self.learning_rate)
        self.ascend([log_likelihood, log_prior], [weights], target, tick)
        info = {"log_likelihood": log_likelihood.detach(), "log_prior": log_prior.detach()}
        return state, {name: value / target.size for name, value in info.items()}

    def loss(self, target: Target, metrics: Info) -> Tensor:
        return -(metrics["log_likelihood"] + metrics["log_prior"])

    def current(self, state: PointState) -> Variables:
        return state.variables

    def posterior(self, target: Target, state: PointState) -> Posterior:
        return Dropout(target.model, state.variables)


def _checked(rate: DropoutRate | None) -> DropoutRate | None:
    """The rates as Python's own numbers, if that is what they are."""
    if rate is None:
        return None
    if isinstance(rate, Mapping) and not rate:
        raise ValueError(
            "rate={} names no layer, so nothing would be dropped: give patterns, such as {'*': 0.1}, a number for all "
            "layers, or None for the network's own dropout"
        )
    for value in rate.values() if isinstance(rate, Mapping) else (rate,):
        if not is_number(value):
            raise TypeError(
                "rate must be a number or a mapping from names of layers to numbers, such as 0.1 or {'layers.3': 0.1}, "
                f"or None, got {rate!r}"
            )
        check_rate("rate", value)
    return {pattern: float(value) for pattern, value in rate.items()} if isinstance(rate, Mapping) else float(rate)


def _zero_rate_note(model: Model, x: Inputs) -> tuple[str, ...]:
    """A sentence for a network in which nothing is ever dropped."""
    if any(site.rate > 0.0 for site in sites_of(model.network, x)):
        return ()
    return (
        "a rate of 0 drops nothing, so every draw of a network is the same function, with no epistemic uncertainty of "
        "its own: give a rate above 0, such as 0.1, for error bars",
    )


def _prior_note(model: Model, x: Inputs) -> tuple[str, ...]:
    """A sentence about places behind which no weights are found, so that the prior does not know their rate."""
    names = [site.name for site in sites_of(model.network, x) if site.consumer is None or site.alpha]
    if not names:
        return ()
    return (f"the prior is taken as it is behind the dropout at {', '.join(names)}: no single layer takes its units",)
