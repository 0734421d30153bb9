"""A session of active learning on disk: its answers, and what must be the same for it to go on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from credo.core.config import encode
from credo.core.storage import SCHEMA, StorageError, find, read_json, write_folder
from credo.decide.pool import Pool
from credo.likelihoods import Categorical
from credo.methods import Method
from credo.model import Model
from credo.posteriors.writing import describe

SESSION = "session.json"
Label = float | tuple[float, ...]
"""A class, a number, or several of them."""


@dataclass(frozen=True)
class Round:
    """One round of questions and answers.

    Attributes:
        rows: numbers of the inputs in the pool that were answered.
        labels: the answers.
        scores: what test data say of the posterior after this round; empty where there are none.
    """

    rows: tuple[int, ...]
    labels: tuple[Label, ...]
    scores: Mapping[str, float] = field(default_factory=dict)


def saved(values: Tensor) -> tuple[Label, ...]:
    """Labels as plain numbers, or tuples of them."""
    plain: tuple[Label, ...] = _plain(values.tolist())
    return plain


def _plain(values: Any) -> Any:
    return tuple(map(_plain, values)) if isinstance(values, list | tuple) else values


def labels_of(rounds: Sequence[Round]) -> dict[int, Label]:
    """Labels by the numbers of their inputs."""
    return {row: label for each in rounds for row, label in zip(each.rows, each.labels, strict=True)}


def identity(
    model: Model, pool: Pool, methods: Sequence[Method], questions: Any, *, seed: int, restart: str
) -> dict[str, Any]:
    """What a session must keep to be the same."""
    chosen_later = model.given_likelihood is None
    described = describe(model.with_likelihood(Categorical()) if chosen_later else model)
    return {
        "seed": seed,
        "pool": pool.fingerprint(),
        "restart": str(restart),
        "questions": json.loads(json.dumps(encode(questions))),
        "method": [encode(method) for method in methods],
        "model": {**described, "likelihood": None} if chosen_later else described,
    }


def write_session(folder: Path, settings: Mapping[str, Any], rounds: Sequence[Round]) -> None:
    """Write all answers, in one instant."""
    listed = [{"rows": list(r.rows), "labels": list(r.labels), "scores": dict(r.scores)} for r in rounds]
    data = {"schema": SCHEMA, "settings": settings, "rounds": listed}
    write_folder(folder, {SESSION: json.dumps(data, indent=1, allow_nan=False) + "\n"}, {})


def read_session(folder: Path, settings: Mapping[str, Any], inputs: int) -> list[Round]:
    """The rounds that a folder holds, if any.

    Args:
        folder: of the session.
        settings: what must be the same.
        inputs: N of the pool.

    Raises:
        StorageError: if the session is another one, or damaged.
    """
    if find(folder, SESSION) is None:
        return []
    data = read_json(folder, SESSION)
    before, rounds = data.get("settings"), data.get("rounds")
    if not isinstance(before, dict) or not isinstance(rounds, list):
        raise StorageError(f"{folder / SESSION} holds no session of active learning; the file is damaged")
    for name, value in json.loads(json.dumps(settings)).items():
        if before.get(name) != value:
            told = f"a {name} of {before.get(name)!r}, and this one has {value!r}"
            if name in ("pool", "model"):
                told = f"another {name}"
            raise StorageError(f"{folder} holds a session with {told}: give the same, or another folder")
    try:
        found = [Round(tuple(r["rows"]), _plain(r["labels"]), dict(r["scores"])) for r in rounds]
        rows = [row for each in found for row in each.rows]
        whole = all(type(row) is int and 0 <= row < inputs for row in rows)
        if not whole or len(set(rows)) < len(rows) or len(labels_of(found)) < len(rows):
            raise ValueError("its rows are not those of the pool")
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"{folder / SESSION} holds a round that cannot be ({error})") from None
    return found
