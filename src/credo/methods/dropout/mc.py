"""Monte Carlo dropout: dropout in training, and again for every drawn function."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from credo.core.trees import Params
from credo.methods.base import State
from credo.methods.checks import check_rate
from credo.methods.point import PointMethod
from credo.model import Model, Target
from credo.nets.dropout import DropoutChange, weight_layers
from credo.posteriors import Dropout, Posterior


@dataclass(frozen=True)
class MCDropout(PointMethod):
    """Train with dropout, predict with dropout: each mask is a draw from an approximate posterior.

    max_w  sum_n log p(y_n | x_n, w * mask_n) + log p(w);   draws are w * mask, one mask for all inputs

    Args:
        rate: None uses the dropout layers of the network as they are, and is refused if there are none. A rate is given
            to the layers that are there; if there are none, dropout is put in front of every linear and convolutional
            layer but the first (in a plain stack: after each hidden layer).

    Reference: Y. Gal, Z. Ghahramani, "Dropout as a Bayesian approximation", 2016, https://arxiv.org/abs/1506.02142
    """

    rate: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate is not None:
            check_rate("rate", self.rate)

    def prepare(self, model: Model, x: Tensor) -> tuple[Model, tuple[str, ...]]:
        network = model.network
        sites = network.trace(network.given().to(x.device), x).sites
        if self.rate is None:
            if not sites:
                raise ValueError(
                    "the network has no dropout layer, so MC dropout would give no uncertainty at all: pass a rate, "
                    "MCDropout(rate=0.1), to put dropout in, or add nn.Dropout to the network"
                )
            return model, (f"dropout: the network's own, at {len(sites)} place(s)",)
        change = DropoutChange(self.rate, inserted=not sites)
        if sites:
            note = f"dropout: the network's own {len(sites)} place(s), set to rate {self.rate}"
        else:
            places = len(list(weight_layers(network.module))) - 1
            if places < 1:
                raise ValueError(
                    "the network has fewer than two linear or convolutional layers, so there is no hidden layer to "
                    "drop: add nn.Dropout where you want it"
                )
            note = f"dropout: the network has none; put in front of its last {places} weight layer(s), rate {self.rate}"
        return model.with_network(network.with_dropout(change)), (note,)

    def regulariser(self, target: Target, params: Params) -> Tensor:
        return target.log_prior(params)

    def posterior(self, target: Target, state: State) -> Posterior:
        return Dropout(target.model, state.variables)
