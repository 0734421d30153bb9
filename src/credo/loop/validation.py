"""How well a run does on examples that it does not learn from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from credo.core.inputs import Inputs
from credo.core.rng import Stream
from credo.core.trees import Variables, finite_members
from credo.likelihoods.joint import share_of
from credo.loop.masks import NOTHING_OBSERVED, any_observed
from credo.loop.roles import PAIR, Examples, Given, Roles, checked_targets, examples
from credo.model import Batch, Model, Target, likelihood_params
from credo.posteriors.base import checked_shape
from credo.predictive import ClassPredictive, JointPredictive, Predictive, predictive

ENTRIES = 2**24
"""Entries of the largest activation in one pass, so that a large set does not take all memory."""


HeldOut = Callable[[Target, Variables, Batch, Stream], dict[str, Tensor] | None]
"""What is measured of each held-out example, (M, B); None leaves it to the likelihood."""


def by_likelihood(target: Target, variables: Variables, batch: Batch, rng: Stream) -> None:
    """Leave it to the likelihood."""


class Validation:
    """Held-out examples; called with members' weights it gives 1/N sum_n log 1/M sum_m p(y_n | x_n, w_m).

    Where the targets are classes it also gives the part of them that the mixture over members takes for most probable.
    A method may measure something else, which is averaged over members. All are averages by the weights of the
    examples, where they have some.
    """

    def __init__(self, data: Any, form: HeldOutForm, target: Target, variables: Variables) -> None:
        model = target.model
        self.parts: list[Batch] = []
        for found in _read(data, form, model.data_dtype):
            x, y, weight = found.to(variables.device)
            targets = checked_targets(model.likelihood, _outputs(model, variables, x), y, "validation y")
            rows = ENTRIES // (model.network.trace(variables, x).activations * variables.members)
            self.parts += Batch(x, targets, weight=weight).parts(rows)
        if not any(part.weight is None or bool((part.weight > 0).any()) for part in self.parts):
            raise ValueError("the weights of the validation examples are all zero: there is nothing to judge by")
        if not any(any_observed(model.likelihood.observed(part.y)) for part in self.parts):
            raise ValueError(NOTHING_OBSERVED.format("validation y"))

    @torch.no_grad()
    def __call__(self, target: Target, variables: Variables, measure: HeldOut = by_likelihood) -> dict[str, Tensor]:
        """Metrics of the members whose weights are finite.

        Args:
            target: the density.
            variables: weights of the members.
            measure: what the method measures in place of the log likelihood.
        """
        finite = finite_members(variables.params)
        if not bool(finite.all()) and bool(finite.any()):
            variables = variables.take(finite.nonzero()[:, 0])
        rng = Stream(0, ("validation",))  # the same noise in every epoch, so that they can be compared
        found = [measure(target, variables, part, rng.child(i)) for i, part in enumerate(self.parts)]
        measured = [each for each in found if each is not None]
        if measured:
            names = {name: torch.cat([each[name] for each in measured], dim=1) for name in measured[0]}
            return {f"validation_{name}": self._average(each.mean(0)) for name, each in names.items()}
        return self._by_likelihood(target, variables)

    def _by_likelihood(self, target: Target, variables: Variables) -> dict[str, Tensor]:
        params, likelihood = likelihood_params(variables.params), target.model.likelihood
        log_probs, hits = list[Tensor](), dict[str, list[tuple[Tensor, Tensor]]]()
        for part in self.parts:
            outputs = target.model.network.evaluate(variables, part.x, target.plan)  # (M, B, E)
            log_probs.append(likelihood.log_prob(outputs, part.y, params))  # (M, B)
            mixture = predictive(likelihood, outputs, params, outputs.new_zeros(len(outputs)))
            for name, found in _hits(mixture, part.y).items():
                hits.setdefault(name, []).append(found)
        each = torch.cat(log_probs, dim=1)
        result = {"validation_log_likelihood": self._average(torch.logsumexp(each, 0) - math.log(len(each)))}
        for name, counts in hits.items():
            right, seen = (torch.cat(values) for values in zip(*counts, strict=True))
            if bool(seen.any()):
                result[name] = self._average(right) / self._average(seen)
        return result

    def _average(self, values: Tensor) -> Tensor:
        """Of values (B, ...), by the weights of the examples."""
        if self.parts[0].weight is None:
            return values.mean()
        weights = torch.cat([part.weight for part in self.parts if part.weight is not None]).to(values)
        counts = weights > 0  # what weighs nothing may be as improbable as it likes
        each, weights = values.reshape(len(values), -1).mean(1)[counts], weights[counts]
        return (each * weights).sum() / weights.sum()


def _outputs(model: Model, variables: Variables, x: Inputs) -> int:
    try:
        return model.likelihood.outputs_of(checked_shape(model, variables, x))
    except ValueError as error:
        raise ValueError(f"validation: {error}") from error


@dataclass(frozen=True)
class HeldOutForm:
    """How held-out examples are read.

    Attributes:
        roles: what the parts of the training data are.
        weighted: whether training examples have weights, so that a third part of held-out ones is theirs.
    """

    roles: Roles
    weighted: bool

    def split(self, data: Any, name: str, *, of_loader: bool = False) -> Given:
        """By the roles of the training data, where the data have the same form; otherwise (x, y) or (x, y, weights)."""
        roles, parts = self.roles, data.tensors if isinstance(data, TensorDataset) else data
        if not isinstance(parts, list | tuple):
            return roles.split(data, name)
        named = hasattr(parts, "_asdict")
        if not named and (roles.names or (roles.weights is not None and len(parts) == 2)):
            roles = PAIR
        # the third part of a data set may be anything, such as the number of a row
        said = self.weighted or (isinstance(data, tuple) and not of_loader and not named)
        return (Roles(weights=2) if roles == PAIR and len(parts) == 3 and said else roles).split(parts, name)


def _hits(prediction: Predictive, y: Any) -> dict[str, tuple[Tensor, Tensor]]:
    """How many classes of each example were right, and how many were seen, (B,) each; of every head that has any."""
    if isinstance(prediction, JointPredictive):
        found = dict[str, tuple[Tensor, Tensor]]()
        for head in prediction.likelihood.heads:
            share = share_of(y, head.name)
            for name, counts in _hits_of(prediction[head.name], y[head.name], head.observed(y[head.name])).items():
                found[f"{name}.{head.name}"] = counts if share is None else (counts[0] * share, counts[1] * share)
        return found
    return _hits_of(prediction, y, prediction.likelihood.observed(y))


def _hits_of(prediction: Predictive, y: Any, observed: Tensor | None) -> dict[str, tuple[Tensor, Tensor]]:
    if not isinstance(prediction, ClassPredictive):
        return {}
    right = prediction.label == y
    seen = torch.ones_like(right) if observed is None else observed
    return {"validation_accuracy": (_sums(right & seen), _sums(seen))}


def _sums(values: Tensor) -> Tensor:
    """Of each example, (B,): examples of two batches may have different numbers of positions."""
    return values.double().reshape(len(values), -1).sum(1)


def _read(data: Any, form: HeldOutForm, dtype: torch.dtype) -> list[Examples]:
    """The held-out examples: all at once, or the batches of a DataLoader, which are read once."""
    if not isinstance(data, DataLoader):
        return [examples(form.split(data, "validation"), dtype, prefix="validation ")]
    with Stream(0, ("validation",)).borrowed_global():
        items = [form.split(item, "a batch of the validation loader", of_loader=True) for item in data]
    if not items:
        raise ValueError("the DataLoader of validation gives no batch")
    return [examples(item, dtype, prefix="validation ", of_loader=True) for item in items]
