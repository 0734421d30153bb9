"""Active learning: ask for the labels that tell most, learn from them, ask again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from credo.core.arrays import tensor
from credo.core.checks import check_at_least, check_kind, one_of, whole_number
from credo.core.inputs import Inputs, inputs
from credo.core.rng import Stream
from credo.core.storage import SCHEMA, StorageError, find, read_json, write_folder
from credo.decide.acquisition import CONFIGURATIONS, Acquisition, acquire
from credo.fit import fit
from credo.methods import Method
from credo.model import Model
from credo.posteriors import Posterior

SESSION = "session.json"


class Restart(StrEnum):
    """Where training begins in each round."""

    COLD = "cold"
    """At fresh weights, so that a round does not depend on those before."""
    WARM = "warm"
    """At the posterior of the round before: faster, and biased towards what was learned first."""


@dataclass(frozen=True)
class Round:
    """One round of questions and answers.

    Attributes:
        rows: numbers of the inputs in the pool that were answered.
        labels: the answers.
    """

    rows: tuple[int, ...]
    labels: tuple[float, ...]


@dataclass(frozen=True)
class Questions:
    """How inputs are chosen.

    Args:
        acquisition: what makes an input worth asking for.
        draws: of the posterior, by which that is judged.
        configurations: joint labels that BatchBALD enumerates, or draws.
        candidates: inputs of the pool that are looked at, drawn anew in each round; None for all.
    """

    acquisition: Acquisition | str = Acquisition.BALD
    draws: int = 100
    configurations: int = CONFIGURATIONS
    candidates: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "acquisition", one_of("acquisition", self.acquisition, Acquisition))
        for name in ("draws", "configurations"):
            check_at_least(name, getattr(self, name), 1)
        if self.candidates is not None:
            check_at_least("candidates", self.candidates, 1)


@dataclass
class ActiveLearner:
    """Learns from few labels of a pool, which it chooses itself.

    It is driven by two calls, so that a person, a labeling tool or a table of known labels can answer:

        learner.tell(rows, labels)    # the first few, however they were chosen
        rows = learner.ask(10)        # which inputs to label next
        learner.tell(rows, labels)    # trains again

    With a folder every answer is on disk before training begins; the same call goes on with what the folder holds.

    Args:
        model: the statistical model, or a bare module.
        pool: inputs (N, ...).
        method: how to learn in each round.
        questions: how inputs are chosen.
        restart: where training begins in each round.
        seed: of everything that is random: round r trains with a seed of its own.
        folder: of the session; None keeps it in memory.
        device: where to compute.

    Examples:
        >>> import credo
        >>> x = torch.linspace(-1, 1, 40)[:, None]
        >>> learner = ActiveLearner(credo.nets.MLP(1, 2), x, credo.DeepEnsemble(members=3, epochs=5))
        >>> learner.tell([0, 39], [0, 1])
        >>> rows = learner.ask(3)
        >>> learner.tell(rows, (x[rows, 0] > 0).long())
        >>> len(learner.labeled)
        5
    """

    model: Model | nn.Module
    pool: Any
    method: Method
    questions: Questions = field(default_factory=Questions)
    restart: Restart | str = Restart.COLD
    seed: int = 0
    folder: str | Path | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_kind("method", self.method, "credo.DeepEnsemble()", Method)
        check_kind("questions", self.questions, "Questions(acquisition='bald')", Questions)
        self.restart = one_of("restart", self.restart, Restart)
        self.model = self.model if isinstance(self.model, Model) else Model(self.model)
        self._x: Inputs = inputs(self.pool, "pool", self.model.network.dtype)
        if len(self._x) == 0:
            raise ValueError("the pool is empty: there is nothing to ask for")
        self.rounds: list[Round] = []
        self._posterior: Posterior | None = None
        if self.folder is not None and find(Path(self.folder), SESSION) is not None:
            self._read(Path(self.folder))

    @property
    def labeled(self) -> dict[int, float]:
        """Labels by the numbers of the inputs, in the order in which they came."""
        return _labels(self.rounds)

    @property
    def posterior(self) -> Posterior:
        """What is believed after all answers."""
        if not self.rounds:
            raise ValueError("there are no labels yet: tell(rows, labels) gives the first, such as two of each class")
        if self._posterior is None:
            first = 1 if self.restart is Restart.WARM else len(self.rounds)
            for count in range(first, len(self.rounds) + 1):  # a warm start needs all that came before
                self._posterior = self._trained(count, self._posterior)
        assert self._posterior is not None
        return self._posterior

    def ask(self, count: int) -> list[int]:
        """Numbers of the inputs whose labels would tell most, best first; fewer where the pool runs out."""
        count, questions = whole_number("count", count), self.questions
        left = [row for row in range(len(self._x)) if row not in self.labeled]
        if not left:
            raise ValueError("the pool is used up: every input has a label")
        stream = Stream(self.seed, ("active", "round", len(self.rounds)))
        if questions.candidates is not None and questions.candidates < len(left):
            chosen = stream.child("candidates").permutation(len(left))[: questions.candidates]
            left = sorted(left[i] for i in chosen.tolist())
        if questions.acquisition is Acquisition.RANDOM:
            picks = stream.child("random").permutation(len(left))[:count]
        else:
            prediction = self.posterior.predict(self._x[torch.tensor(left)], draws=questions.draws, seed=self.seed)
            picks = acquire(
                prediction, count, questions.acquisition, stream.child("acquire").key(), questions.configurations
            )
        return [left[i] for i in picks.tolist()]

    def tell(self, rows: Sequence[int] | Tensor, labels: Any) -> None:
        """Learn from more labels.

        Args:
            rows: numbers of inputs in the pool; not only those that were asked for.
            labels: one for each.
        """
        numbers = [int(row) for row in torch.as_tensor(rows).flatten().tolist()]
        values = tensor(labels, "labels").flatten()
        self._check(numbers, values)
        warm = self.restart is Restart.WARM and bool(self.rounds)
        before = self.posterior if warm else None
        self.rounds.append(Round(tuple(numbers), tuple(values.tolist())))
        self._posterior = None
        self._write()
        self._posterior = self._trained(len(self.rounds), before)

    def _check(self, rows: list[int], values: Tensor) -> None:
        if len(rows) != len(values) or not rows:
            raise ValueError(f"{len(rows)} rows and {len(values)} labels were told: give one label for each row")
        strange = [row for row in rows if not 0 <= row < len(self._x)]
        if strange:
            raise ValueError(f"the pool has rows 0 to {len(self._x) - 1}, and there is a label for row {strange[0]}")
        known, twice = self.labeled, {row for row in rows if rows.count(row) > 1}
        if twice or any(row in known for row in rows):
            row = min(twice or {row for row in rows if row in known})
            raise ValueError(f"row {row} has a label already: each input is labeled once")
        if values.is_floating_point() and not bool(values.isfinite().all()):
            raise ValueError("the labels hold NaN or infinite numbers: leave rows without an answer out")
        if self.rounds and values.is_floating_point() != isinstance(self.rounds[0].labels[0], float):
            raise ValueError(
                "the labels are whole numbers in one round and fractions in another: they must be one kind"
            )

    def _trained(self, count: int, before: Posterior | None) -> Posterior:
        """The posterior after so many rounds."""
        known = _labels(self.rounds[:count])
        y, x = torch.tensor(list(known.values())), self._x[torch.tensor(list(known))]
        checkpoint = None if self.folder is None else Path(self.folder) / f"round-{count}"
        warm = before if self.restart is Restart.WARM else None
        return fit(
            self.model,
            (x, y),
            self.method,
            seed=Stream(self.seed, ("active", "train", count)).key() % 2**31,
            device=self.device,
            progress=False,
            start=warm,
            checkpoint=checkpoint if warm is None else None,
            resume=checkpoint is not None and warm is None,
        )

    def _settings(self) -> dict[str, Any]:
        """What a session must keep to be the same."""
        return {
            "seed": self.seed,
            "rows": len(self._x),
            "restart": str(self.restart),
            "questions": {name: str(value) for name, value in asdict(self.questions).items()},
            "method": repr(self.method),
        }

    def _write(self) -> None:
        if self.folder is None:
            return
        rounds = [{"rows": list(each.rows), "labels": list(each.labels)} for each in self.rounds]
        data = {"schema": SCHEMA, "settings": self._settings(), "rounds": rounds}
        write_folder(Path(self.folder), {SESSION: json.dumps(data, indent=2) + "\n"}, {})

    def _read(self, folder: Path) -> None:
        data = read_json(folder, SESSION)
        settings, rounds = data.get("settings"), data.get("rounds")
        if not isinstance(settings, Mapping) or not isinstance(rounds, list):
            raise StorageError(f"{folder / SESSION} holds no session of active learning; the file is damaged")
        mine = self._settings()
        for name, value in mine.items():
            if settings.get(name) != value:
                raise StorageError(
                    f"{folder} holds a session with {name} {settings.get(name)!r}, and this one has {value!r}: give "
                    "the same, or another folder"
                )
        for each in rounds:
            try:
                found = Round(tuple(int(row) for row in each["rows"]), tuple(each["labels"]))
                self._check(list(found.rows), torch.tensor(found.labels))
            except (KeyError, TypeError, ValueError) as error:
                raise StorageError(f"{folder / SESSION} holds a round that cannot be ({error})") from None
            self.rounds.append(found)


def _labels(rounds: Sequence[Round]) -> dict[int, float]:
    return {row: label for each in rounds for row, label in zip(each.rows, each.labels, strict=True)}


def answered(learner: ActiveLearner, labels: Any, start: Sequence[int], count: int, rounds: int) -> list[Posterior]:
    """Run a learner on a pool whose labels are all known, as an experiment does: the posterior after each round.

    Args:
        learner: a fresh one.
        labels: of the whole pool, (N,).
        start: rows that are labeled first.
        count: labels per round.
        rounds: of questions.
    """
    known, posteriors = tensor(labels, "labels"), list[Posterior]()
    for number in range(rounds + 1):
        rows = list(start) if number == 0 else learner.ask(count)
        learner.tell(rows, known[rows])
        posteriors.append(learner.posterior)
    return posteriors
