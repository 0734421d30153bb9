"""Drawn functions of a posterior, by which inputs are compared with each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from credo.core.checks import whole_number
from credo.posteriors import Chains, Draws, Functions, Posterior, Weighted
from credo.predictive import Predictive, predictive


def count_of(posterior: Posterior, draws: int) -> int | None:
    """How many functions to draw; None for all of them, where a posterior holds no more than are wanted.

    To draw 100 of three networks would weigh them 34, 33 and 33.
    """
    few = isinstance(posterior, Draws | Chains | Weighted) and posterior.default_draws <= whole_number("draws", draws)
    return None if few else draws


def drawn_functions(posterior: Posterior, draws: int, seed: int) -> Functions:
    """Functions of all inputs; draws that the posterior holds come with their weights."""
    return posterior.draw(count_of(posterior, draws), seed)


def predict_parts(posterior: Posterior, functions: Functions, parts: Iterable[Any]) -> Predictive:
    """The predictive of all parts of some inputs, which are not in memory together."""
    outputs = torch.cat([functions(posterior.inputs(part)) for part in parts], dim=1)
    return predictive(posterior.model.likelihood, outputs, functions.likelihood_params, functions.log_weights)
