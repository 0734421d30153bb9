"""The log-uniform prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

import torch
from torch import Tensor

from credo.core.checks import check_options
from credo.core.rng import Stream
from credo.core.trees import Layout, Params
from credo.priors.base import Prior


@dataclass(frozen=True)
class LogUniform(Prior):
    """Weights of every order of magnitude are alike, of either sign: the prior of variational dropout.

    p(w) proportional to 1 / |w|

    It is improper: its density is known up to a constant, has no bound at zero and cannot be drawn from, so it serves
    methods that compare it with noise around a weight, and neither MAP nor a Markov chain.

    Args:
        names: parameters that have it; None for all of them.
        others: prior of the parameters that are not among them; None leaves these without any.

    Examples:
        >>> from credo.core.trees import ParameterInfo
        >>> layout = {"weight": ParameterInfo(shape=(2,), fan_in=1)}
        >>> LogUniform().log_prob({"weight": torch.tensor([[1.0, -2.0]])}, layout)
        tensor([-0.6931])

    Reference: D. P. Kingma, T. Salimans, M. Welling, "Variational dropout and the local reparameterization trick",
        2015, section 3, https://arxiv.org/abs/1506.02557
    """

    proper: ClassVar[bool] = False

    names: tuple[str, ...] | None = None
    others: Prior | None = None

    def __post_init__(self) -> None:
        check_options(self, names="('layers.1.weight',)", others="priors.Normal()")

    def log_prob(self, params: Params, layout: Layout) -> Tensor:
        """-sum_i log |w_i| of each member, (M,), up to a constant, and the density of the others."""
        named = {name: w for name, w in params.items() if self.names is None or name in self.names}
        rest = {name: w for name, w in params.items() if name not in named}
        each = [-w.abs().log().unsqueeze(-1).flatten(1).sum(1) for w in named.values()]
        if self.others is not None and rest:
            each.append(self.others.log_prob(rest, layout))
        return torch.stack(each).sum(0) if each else torch.zeros(())

    def sample(self, layout: Layout, members: int, stream: Stream, dtype: torch.dtype | None = None) -> NoReturn:
        raise ValueError(
            "the log-uniform prior is improper: it has no total, so nothing can be drawn from it; give a prior that "
            "can be drawn from, such as priors.Normal()"
        )
