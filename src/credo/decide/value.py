"""The value of information: which row, or which feature, would reduce the doubt most if it were measured?

Only the epistemic part counts: noise that stays however much is known is no reason to measure.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from credo.core.arrays import tensor
from credo.core.checks import whole_number
from credo.core.rng import Stream
from credo.decide.drawn import drawn_functions, predict_parts
from credo.posteriors import Posterior
from credo.predictive import ClassPredictive, Predictive

ENTRIES = 2**22
"""Entries of a joint distribution that are held at a time."""
VALUES = 32
"""Values of a feature that are tried."""


def value_of_rows(posterior: Posterior, candidates: Any, interest: Any, draws: int = 100, seed: int = 0) -> Tensor:
    """By how much the label of each candidate would reduce the doubt about the inputs of interest, (N,).

    For classes, in nats, the mutual information of the two labels (expected predictive information gain),

    value_n = mean_b I(y_b; y_n) = mean_b [ H(y_b) - E[H(y_b | y_n)] ]

    For numbers, in variances of their targets, what conditioning a normal on the label takes from the epistemic part,

    value_n = mean_b sum_d  c^T (C + N)^-1 c,   c = Cov_s(f_d(x_b), f(x_n)),   C = Cov_s(f(x_n)),   N its noise

    A label about which there is much doubt is worth nothing where it says nothing about what is of interest.

    Args:
        posterior: what is believed now.
        candidates: inputs (N, ...) that could be labeled.
        interest: inputs (B, ...) about which one wants to know.
        draws: of the posterior; all of them where it holds no more.
        seed: of the draws.

    Reference: F. Bickford Smith et al., "Prediction-oriented Bayesian active learning", 2023,
        https://arxiv.org/abs/2304.08151
    """
    functions = drawn_functions(posterior, draws, seed)
    one, other = (predict_parts(posterior, functions, [x]) for x in (candidates, interest))
    if isinstance(one, ClassPredictive) and isinstance(other, ClassPredictive):
        return _shared_information(one, other)
    return _explained_variance(one, other)


def _shared_information(candidates: ClassPredictive, interest: ClassPredictive) -> Tensor:
    """Mean over the inputs of interest of I(y_b; y_n), (N,)."""
    if not candidates.likelihood.exclusive or candidates.likelihood.event_axes > 1:
        raise ValueError("value_of_rows needs one of K classes for each input, and these have several labels")
    here, there = (p.likelihood.mean(p.draws, p.params).double() for p in (candidates, interest))
    weighted = (there * candidates.weights.double().view(-1, 1, 1)).flatten(1)  # (S, B K)
    classes, found = here.shape[2], []
    alone = torch.special.entr(interest.probs.double()).sum(-1).mean()
    for part in torch.split(here, max(1, ENTRIES // (weighted.shape[1] * classes)), dim=1):
        joint = torch.einsum("snk,sm->nkm", part, weighted)  # p(y_n, y_b), (n, K, B K)
        total = torch.special.entr(joint).sum((1, 2)) / there.shape[1]
        own = torch.special.entr(candidates.average(part)).sum(-1)
        found.append((own + alone - total).clamp_min(0.0))
    return torch.cat(found)


def _explained_variance(candidates: Predictive, interest: Predictive) -> Tensor:
    """Mean over the inputs of interest of the variance that conditioning on y_n explains, (N,)."""
    if candidates.likelihood.event_axes > 1:
        raise ValueError("value_of_rows needs one row of targets for each input, and these have one at each position")
    here, there = (_centered(prediction) for prediction in (candidates, interest))  # (S, N, E), (S, B, D)
    covariance = torch.einsum("sne,snf->nef", here, here)
    least = 1e-12 * covariance.diagonal(dim1=1, dim2=2) + torch.finfo(torch.float64).tiny
    noise = torch.maximum(candidates.aleatoric.double(), least)
    root = torch.linalg.cholesky(covariance + torch.diag_embed(noise))
    found = []
    for part, factor in zip(torch.split(here, 256, dim=1), torch.split(root, 256), strict=True):
        shared = torch.einsum("sne,sbd->nebd", part, there).flatten(2)  # (n, E, B D)
        found.append(torch.linalg.solve_triangular(factor, shared, upper=False).square().sum((1, 2)))
    return torch.cat(found) / there.shape[1]


def _centered(prediction: Predictive) -> Tensor:
    """Expectations less their average, times the roots of the weights, (S, B, D)."""
    means = prediction.likelihood.mean(prediction.draws, prediction.params).double()
    apart = means - means[0]
    return (apart - prediction.average(apart)) * prediction.weights.double().sqrt().view(-1, 1, 1)


def value_of_features(
    posterior: Posterior, x: Any, reference: Any, draws: int = 100, seed: int = 0, values: int = VALUES
) -> Tensor:
    """By how much measuring each unknown feature would reduce the doubt about the row's target, (B, F).

    With f(x, w) the expected target, for numbers in variances, for classes in nats,

    value_j = Var_{x_j}( E[f | x_j] ),     value_j = H( E[f] ) - E_{x_j}[ H( E[f | x_j] ) ]

    where the other unknown features and the weights are averaged over. It is what the target's doubt is expected to
    fall by; noise, and doubt about the weights, stay. Unknown features are taken to be independent of each other and
    of the known ones, each with the values that it has in the reference rows.

    Args:
        posterior: what is believed now.
        x: rows (B, F), with NaN for each feature that is not known.
        reference: rows (R, F) that say which values a feature has, such as those of training.
        draws: of the posterior; all of them where it holds no more.
        seed: of the draws, and of the values where the reference has more rows than `values`.
        values: of a feature that are tried, and of the others with each of them.

    Returns:
        (B, F); zero for features that are known. Of several targets the sum.
    """
    rows, known = _table(x, "x", missing=True), _table(reference, "reference", missing=False)
    if rows.shape[1] != known.shape[1]:
        raise ValueError(f"x has {rows.shape[1]} features and the reference {known.shape[1]}: they must be the same")
    functions, count = drawn_functions(posterior, draws, seed), whole_number("values", values)
    stream, found = Stream(seed, ("value of features",)), torch.zeros(rows.shape, dtype=torch.float64)
    for row, feature in rows.isnan().nonzero().tolist():
        tried = _values(known[:, feature], count, stream.child("tried", feature))
        filled = rows[row].repeat(len(tried), 1)
        others = [int(other) for other in rows[row].isnan().nonzero() if int(other) != feature]
        columns = [_values(known[:, other], count, stream.child("others", other)) for other in others]
        grid = filled.unsqueeze(1).repeat(1, len(columns[0]) if columns else 1, 1)  # (values, others, F)
        grid[:, :, feature] = tried.unsqueeze(1)
        for other, column in zip(others, columns, strict=True):
            grid[:, :, other] = column
        prediction = predict_parts(posterior, functions, [grid.flatten(0, 1)])
        mean = prediction.mean.double().view(*grid.shape[:2], -1).mean(1)  # E[f | x_j], (values, D)
        found[row, feature] = _spread(prediction, mean)
    return found


def _spread(prediction: Predictive, mean: Tensor) -> Tensor:
    """How far expectations (values, D) lie apart, as variance or as information."""
    if not isinstance(prediction, ClassPredictive):
        return mean.var(0, correction=0).sum()
    each = torch.special.entr(mean)
    all_of_them = torch.special.entr(mean.mean(0))
    if not prediction.likelihood.exclusive:
        each, all_of_them = each + torch.special.entr(1 - mean), all_of_them + torch.special.entr(1 - mean.mean(0))
    return (all_of_them.sum() - each.sum(1).mean()).clamp_min(0.0)


def _values(column: Tensor, count: int, stream: Stream) -> Tensor:
    """All values of a column in random order, or some of them."""
    return column[stream.permutation(len(column))[:count]]


def _table(values: Any, name: str, *, missing: bool) -> Tensor:
    found = tensor(values, name).double().cpu()
    if found.ndim != 2 or len(found) == 0:
        raise ValueError(f"{name} must be rows of features, (rows, F), got shape {tuple(found.shape)}")
    wrong = found.isinf() if missing else ~found.isfinite()
    if bool(wrong.any()):
        raise ValueError(f"{name} has {'infinite' if missing else 'NaN or infinite'} values: they say nothing")
    return found
