"""Predictions of a network with several heads."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NoReturn

import torch
from torch import Tensor

from credo.core.arrays import tensor
from credo.core.inputs import TensorTree
from credo.core.rng import Stream
from credo.core.trees import Params
from credo.likelihoods import Joint, Likelihood
from credo.likelihoods.base import Elements
from credo.predictive.base import Predictive
from credo.predictive.mixture import mixture


@dataclass(frozen=True, eq=False, repr=False)
class JointPredictive(Predictive):
    """Several targets of different kinds: `prediction["price"]` is the prediction of one head, in its own units.

    Under each draw the heads are independent, and the mixture over draws ties them together: `log_prob(y)` is that of
    all targets of an example at once, and `sample` takes them from the same drawn function.

    Attributes:
        likelihood: `likelihoods.Joint`.
        draws: outputs of all heads side by side, (S, B, E).
        heads: the prediction of each head by its name.
    """

    likelihood: Joint
    heads: dict[str, Predictive] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Predictive:
        if name not in self.heads:
            raise KeyError(f"the prediction has no head {name!r}: it has {self._names}")
        return self.heads[name]

    def __repr__(self) -> str:
        return f"JointPredictive({', '.join(f'{name}={head!r}' for name, head in self.heads.items())})"

    @property
    def _names(self) -> str:
        return ", ".join(map(repr, self.heads))

    def __getattr__(self, name: str) -> NoReturn:
        """For what a prediction of one head has, such as `probs`."""
        if name.startswith("_") or "heads" not in self.__dict__:
            raise AttributeError(name)
        raise AttributeError(self._one(name))

    def _one(self, what: str) -> str:
        return (
            f"there are several heads, {self._names}: ask one of them for its {what}, as in "
            f"prediction[{next(iter(self.heads))!r}].{what}"
        )

    def _targets(self, y: Any) -> TensorTree:  # type: ignore[override]  # y has names
        """Targets by head; NaN or -100 where an example has none."""
        given = y.value if isinstance(y, TensorTree) else y
        if not isinstance(given, dict):
            raise ValueError(f"y has no names, and there are several heads: give a dict with {self._names}")
        tree = TensorTree({name: tensor(values, f"y[{name!r}]") for name, values in given.items()})
        targets: TensorTree = self.likelihood.check_targets(tree, self.draws.shape[-1]).to(self.draws.device)
        for name, values in targets.value.items():
            if len(values) != len(self):
                raise ValueError(f"y[{name!r}] has {len(values)} rows and the prediction {len(self)}")
        return targets

    @abstractmethod
    def with_head(self, name: str, prediction: Predictive) -> JointPredictive:
        """With another prediction of one head, such as a calibrated one."""

    @abstractmethod
    def sample(self, count: int, seed: int = 0) -> dict[str, Tensor]:  # type: ignore[override]  # one for each head
        """`count` targets of each head for each input, (count, B, D) or (count, B) each."""

    @property
    def mean(self) -> NoReturn:
        raise ValueError(self._one("mean"))

    @property
    def epistemic(self) -> NoReturn:
        raise ValueError(self._one("epistemic"))

    @property
    def aleatoric(self) -> NoReturn:
        raise ValueError(self._one("aleatoric"))

    @property
    def entropy(self) -> NoReturn:
        raise ValueError(self._one("entropy"))

    def log_prob_each(self, y: Any) -> NoReturn:
        raise ValueError(self._one("log_prob_each(...)"))

    def elements(self, y: Any) -> NoReturn:
        raise ValueError(self._one("elements(...)"))

    def rows(self) -> NoReturn:
        raise ValueError(self._one("rows()"))

    def _mixture(self, found: Elements) -> NoReturn:
        raise ValueError(self._one("rows()"))


@dataclass(frozen=True, eq=False, repr=False)
class JointMixture(JointPredictive):
    """Several heads of drawn functions."""

    def with_head(self, name: str, prediction: Predictive) -> JointMixture:
        return replace(self, heads={**self.heads, name: prediction})

    def by_draw(self, y: Any) -> Tensor:
        """log p of all targets of an example under each draw, (S, B): the sum of those of the heads."""
        targets, total = self._targets(y), torch.zeros((), device=self.draws.device)
        for head in self.likelihood.heads:
            values, kept = head.filled(targets[head.name])
            total = total + torch.where(kept, self.heads[head.name].by_draw(values), 0.0)
        return total

    @cached_property
    def expected_entropy(self) -> Tensor:
        """Of all targets of an example, (B,): under each draw the heads are independent."""
        each = (head.expected_entropy.reshape(len(self), -1).sum(-1) for head in self.heads.values())
        return torch.stack(list(each)).sum(0)

    def sample(self, count: int, seed: int = 0) -> dict[str, Tensor]:  # type: ignore[override]
        """`count` targets of each head for each input, (count, B, D) or (count, B) each.

        Each sample picks one draw for all inputs and all heads.
        """
        stream = Stream(seed, ("predictive sample",))
        chosen = self._chosen(count, stream)
        return {name: head.sample_of(chosen, stream.child("noise", name)) for name, head in self.heads.items()}


def predictive(likelihood: Likelihood, draws: Tensor, params: Params, log_weights: Tensor) -> Predictive:
    """The predictive that fits the likelihood, of outputs (S, B, E) with log weights (S,) that are normalized here.

    It is in the units of the target, and so are its draws where the likelihood has outputs in them.
    """
    if not isinstance(likelihood, Joint):
        return mixture(likelihood, draws, params, log_weights)
    log_weights = log_weights.to(draws)
    normalized = log_weights - torch.logsumexp(log_weights, 0)
    heads = {
        head.name: mixture(head.likelihood, part, likelihood.params_of(head.name, params), log_weights)
        for head, part in zip(likelihood.heads, likelihood.split(draws).values(), strict=True)
    }
    return JointMixture(likelihood, draws, params, normalized, heads)
