"""Which rows may be decided so that mistakes among them stay rare, with a promise that the held-out rows can keep."""

from __future__ import annotations

import math

import torch

from credo.evaluation.values import Rejection

ERROR = 0.1
"""Probability that the promise is broken."""


def rows_needed(risk: float, error: float = ERROR) -> float:
    """The fewest rows that can show a risk: so many without a mistake; infinity where the risk is zero.

    (1 - risk)^n <= error

    Examples:
        >>> rows_needed(0.05), rows_needed(0.01)
        (45, 230)
    """
    return math.ceil(math.log(error) / math.log1p(-risk)) if risk > 0.0 else math.inf


def shown(mistakes: int, count: int, risk: float, error: float) -> bool:
    """Whether so few mistakes show that the true risk is no larger: the exact binomial test, P(X <= m) <= error.

    It is the same as an upper bound of Clopper and Pearson, at 1 - error, that is no larger than the risk.

    Args:
        mistakes: m, among `count` rows.
        count: n.
        risk: that is promised.
        error: of the test.

    Reference: C. J. Clopper, E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the
        binomial", 1934, https://doi.org/10.1093/biomet/26.4.404
    """
    if risk <= 0.0 or mistakes > risk * count:
        return False
    m = torch.arange(mistakes + 1, dtype=torch.float64)
    ways = math.lgamma(count + 1) - torch.lgamma(m + 1) - torch.lgamma(count - m + 1)
    return float((ways + m * math.log(risk) + (count - m) * math.log1p(-risk)).logsumexp(0)) <= math.log(error)


def safe_doubt(curve: Rejection, rows: int, risk: float, error: float = ERROR) -> float | None:
    """The largest doubt up to which rows may be decided; with probability 1 - error the risk among them is kept.

    One begins with the surest half of the rows, the surest quarter and so on, J beginnings fixed before any loss is
    seen, and from each goes on to more doubtful rows for as long as every test at error / J passes. A broken promise
    takes a passed test at the first place of one of these walks where the true risk is too large: J chances at
    error / J.

    Args:
        curve: mistakes of the held-out rows, ordered by their doubt.
        rows: number of held-out rows.
        risk: part of mistakes among the decided rows that is acceptable.
        error: probability with which the promise may fail.

    Returns:
        A doubt of a held-out row, never more than the largest of them; None where no row may be decided.

    Reference: Y. Geifman, R. El-Yaniv, "Selective classification for deep neural networks", 2017,
        https://arxiv.org/abs/1705.08500 (the promise); A. N. Angelopoulos and others, "Learn then test: calibrating
        predictive algorithms to achieve risk control", 2021, https://arxiv.org/abs/2110.01052 (walks from several
        beginnings).
    """
    fewest = rows_needed(risk, error)
    if fewest > rows:
        return None
    walks = max(1, int(math.log2(rows / fewest)))
    counts = [round(part * rows) for part in curve.kept]
    passed = -1
    for j in range(1, walks + 1):
        least = max(rows / 2**j, rows_needed(risk, error / walks))
        for place in (place for place, count in enumerate(counts) if count >= least):
            mistakes = round(curve.risk[place] * counts[place])
            if not shown(mistakes, counts[place], risk, error / walks):
                break
            passed = max(passed, place)
    return curve.doubt[passed] if passed >= 0 else None
