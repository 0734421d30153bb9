"""Whether data are of the size that a given likelihood and prior expect."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from credo.core.inputs import Inputs, few, leaves_of, rows_at_once
from credo.core.rng import Stream
from credo.core.trees import Variables
from credo.likelihoods import Gaussian, HeteroscedasticGaussian, Joint, LearnedGaussian, Likelihood, SharedGaussian
from credo.loop.standardizing import named, named_target, parts_of
from credo.model import Model, likelihood_params
from credo.nets.plan import Plan
from credo.nets.uses import uses

FAR = 30.0
"""How many times larger than expected data may be, or smaller than a fixed noise, before there is a word about it."""
DRAWS, ROWS = 8, 16
"""Networks that are drawn from the prior, and examples at which they are looked at."""
LOOKED_AT = 4096
"""Examples whose size is looked at."""

_NORMAL = (Gaussian, LearnedGaussian, SharedGaussian, HeteroscedasticGaussian)
REMEDY = (
    "give fit the network alone, credo.fit(net, data, method), which standardizes inside and predicts in your units, "
    "or divide by a typical size first"
)


def scale_warnings(model: Model, variables: Variables, x: Inputs, y: Any) -> tuple[str, ...]:
    """Sentences about inputs and targets that a model of given parts, with fresh weights, will hardly fit."""
    return (*_inputs(model, variables, x), *_targets(model, variables, x, y))


def _inputs(model: Model, variables: Variables, x: Inputs) -> tuple[str, ...]:
    if model.network.scaling is not None:
        return ()
    size, name = max(((_size(t), path) for path, t in leaves_of(x).items() if t.is_floating_point()), default=(0.0, ""))
    if size <= FAR or name in uses(model.network, variables, x).inputs:
        return ()
    return (f"{named(name)} is of size {size:.3g}, and the prior and first weights are for order one: {REMEDY}",)


def _size(t: Tensor) -> float:
    """The root mean square of the largest feature."""
    part = t[:LOOKED_AT].detach().double()
    rows = part if part.ndim == 2 else part.reshape(-1, 1)
    return float(rows.square().mean(0).sqrt().max())


def _targets(model: Model, variables: Variables, x: Inputs, y: Any) -> tuple[str, ...]:
    said = list[str]()
    for name, likelihood in parts_of(model.likelihood):
        values = y[name] if name else y
        if type(likelihood) in _NORMAL and isinstance(values, Tensor):
            known = values[:LOOKED_AT].double()
            if name:  # an example may lack the target of a head
                known = known[~known.isnan().reshape(len(known), -1).any(1)]
            said += _target(model, variables, x, known, (name, likelihood)) if len(known) else []
    return tuple(said)


def _target(model: Model, variables: Variables, x: Inputs, targets: Tensor, of: tuple[str, Likelihood]) -> list[str]:
    """A sentence about the targets of one head, or of the only one."""
    name, likelihood = of
    y = named_target(name)
    size, spread = float(targets.square().mean().sqrt()), float(targets.std(0, correction=0).max())
    if isinstance(likelihood, Gaussian) and len(targets) > 1 and 0.0 < spread * FAR < likelihood.scale:
        return [
            f"{y} varies by {spread:.2g}, and {likelihood} takes {likelihood.scale:.3g} of it for noise: {REMEDY}, or "
            "give a smaller scale",
        ]
    if size <= FAR:  # smaller than any prior's spread that is worth the look
        return []
    expected = _expected(model, variables, few(x, ROWS) if rows_at_once(x, ROWS) < len(x) else x, of)
    if expected is None or size <= FAR * expected:
        return []
    return [f"{y} is of size {size:.3g}, and prior and likelihood expect numbers up to about {expected:.2g}: {REMEDY}"]


@torch.no_grad()
def _expected(model: Model, variables: Variables, x: Inputs, of: tuple[str, Likelihood]) -> float | None:
    """The standard deviation of y around zero before any data; None for a prior without draws."""
    stream = Stream(0, ("expected scale",))
    try:
        drawn = model.prior.sample(model.network.layout, DRAWS, stream, model.network.dtype)
    except ValueError:
        return None
    squares = list[float]()
    for member in range(DRAWS):
        params = {name: t[member : member + 1].to(variables.device) for name, t in drawn.items()}
        one = variables.take([0])
        one = Variables({**one.params, **params}, one.buffers)
        outputs = model.network.evaluate(one, x, Plan.ONE_BY_ONE)
        learned = likelihood_params(model.complete(one, outputs.shape[-1]).params)
        name, likelihood = of
        if isinstance(model.likelihood, Joint):
            outputs, learned = model.likelihood.split(outputs)[name], model.likelihood.params_of(name, learned)
        mean, noise = likelihood.mean(outputs, learned), likelihood.variance(outputs, learned)
        squares.append(float((mean.double().square() + noise.double()).mean()))
    found = math.sqrt(sum(squares) / DRAWS)
    return found if math.isfinite(found) else None
