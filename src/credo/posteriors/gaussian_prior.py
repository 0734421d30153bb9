"""Under which prior a normal posterior was fitted."""

from __future__ import annotations

from typing import Any

from credo.core.record import Record

LOG_UNIFORM = frozenset({"VariationalDropout", "SparseVariationalDropout"})
"""Methods that put the log-uniform prior in the place of the model's, by the names under which runs record them."""


def under_log_uniform(record: Record) -> bool:
    """Whether the log-uniform prior of variational dropout took the place of the model's.

    The record says it, since that is kept by whatever is made of the posterior, and by folders of every version.
    """
    return _innermost(record.method).get("kind") in LOG_UNIFORM


def check_model_prior(record: Record, asked: str) -> None:
    """Refuse to compare q with a prior under which it was not fitted.

    Args:
        record: of the fit.
        asked: what needs the model's prior, as the subject of a sentence.
    """
    if under_log_uniform(record):
        raise ValueError(
            f"{asked} needs the prior that the weights were fitted under, and {_innermost(record.method)['kind']} put "
            "a log-uniform prior in the place of the model's: it is improper, so there is no posterior to compare with "
            "and a KL is known up to a constant only. The one of training, per example, is posterior.history[-1]['kl']"
        )


def _innermost(method: dict[str, Any]) -> dict[str, Any]:
    """What an ensemble is made of, or the method itself."""
    inner = method.get("method")
    return _innermost(inner) if isinstance(inner, dict) else method
