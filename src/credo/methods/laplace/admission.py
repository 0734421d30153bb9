"""Which models and parameters Laplace's method takes."""

from __future__ import annotations

from fnmatch import fnmatchcase

import torch

from credo.core.checks import unmatched
from credo.core.inputs import Inputs
from credo.core.trees import Variables
from credo.likelihoods import Joint
from credo.likelihoods.positions import AtPositions
from credo.methods.laplace.structures import KroneckerCurvature, Structure
from credo.model import Model
from credo.nets.calls import last_layer
from credo.posteriors import PredictionFrom
from credo.posteriors.laplace import check_prediction


def check_model(model: Model, structure: Structure, prediction: PredictionFrom, *, by_evidence: bool) -> None:
    """Refuse models that have no curvature in this structure, in sentences."""
    likelihood, prior = model.likelihood, model.prior
    check_prediction(prediction, likelihood)
    if model.network.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"the network computes in {str(model.network.dtype).removeprefix('torch.')}, in which no matrix can be "
            "factored: give net.float()"
        )
    for each in [head.likelihood for head in likelihood.heads] if isinstance(likelihood, Joint) else [likelihood]:
        if each.event_axes > 1 and not isinstance(each, AtPositions):
            raise ValueError(
                f"Laplace knows the curvature of outputs (B, E) and of those at positions, and {each} takes others: "
                "use SWAG or an ensemble"
            )
    normal = prior.precision(model.network.layout) is not None
    if by_evidence and not normal:
        raise ValueError(
            f"precision='evidence' chooses the scale of a normal prior, and the model has {prior}: give "
            "priors.Normal(), or keep its prior by precision='model' and structure='diagonal' or 'dense'"
        )
    if not normal:
        prior.curvature(model.network.given().params, model.network.layout)  # which refuses a prior that has none
        if isinstance(structure, KroneckerCurvature):
            raise ValueError(
                f"{prior} has another curvature at each weight, and a Kronecker product takes one for each layer: "
                "use priors.Normal(), or structure='diagonal' or 'dense'"
            )


def subset_names(subset: str | tuple[str, ...], model: Model, variables: Variables, x: Inputs) -> tuple[str, ...]:
    """The parameters that get a distribution."""
    layout = model.network.layout
    if subset == "all":
        return tuple(layout)
    if subset == "last":
        return last_layer(model.network, variables, x)
    listed = (subset,) if isinstance(subset, str) else subset
    if lost := unmatched(listed, list(layout)):
        raise ValueError(
            f"subset={lost[0]!r} matches no parameter of the net, which has {', '.join(list(layout)[:6])}, ...: "
            "'all' and 'last' are words for all of them and for the last linear layer"
        )
    return tuple(name for name in layout if any(fnmatchcase(name, pattern) for pattern in listed))
