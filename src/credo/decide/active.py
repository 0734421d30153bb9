"""Active learning: ask for the labels that tell most, learn from them, ask again."""

from __future__ import annotations

import math
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from credo.core.arrays import tensor
from credo.core.checks import check_at_least, check_kind, one_of, whole_number
from credo.core.record import CredoWarning
from credo.core.rng import Stream
from credo.core.status import Status
from credo.core.storage import StorageError
from credo.decide.acquisition import CONFIGURATIONS, Acquisition, acquire
from credo.decide.drawn import count_of, drawn_functions, predict_parts
from credo.decide.pool import Places, pool_of
from credo.decide.session import Label, Round, identity, labels_of, read_session, saved, write_session
from credo.fit import fit
from credo.likelihoods import ClassLikelihood, NumericLikelihood
from credo.loop.preparation import Data, prepare
from credo.loop.roles import PAIR
from credo.methods import Method
from credo.metrics import accuracy, log_likelihood, rmse
from credo.model import Model
from credo.posteriors import Posterior
from credo.predictive import ClassPredictive, Predictive


class Restart(StrEnum):
    """Where training begins in each round."""

    COLD = "cold"
    """At fresh weights, so that a round does not depend on those before."""
    WARM = "warm"
    """At the posterior of the round before: faster, and biased towards what was learned first."""


@dataclass(frozen=True)
class Questions:
    """How inputs are chosen.

    Args:
        acquisition: what makes an input worth asking for.
        draws: of the posterior, by which that is judged; all of them, with their weights, where it holds no more.
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
        pool: inputs (N, ...), a tensor or several in a dict or tuple; or a Dataset or DataLoader, whose examples are
            numbered by the data set and read when they are needed.
        method: how to learn in each round; or a function from the number of labels to that, so that few labels may get
            as many steps as many.
        questions: how inputs are chosen.
        restart: where training begins in each round.
        seed: of everything that is random: round r trains with a seed of its own.
        folder: of the session; None keeps it in memory.
        device: where to compute.
        inputs: keys or places of the parts of the pool that are inputs, such as 0 for pairs of an input and something
            else; None for all.
        test: a pair (x, y) that each round is judged by, in its `scores`; drawn at random, not chosen by a learner.

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
    method: Method | Callable[[int], Method]
    questions: Questions = field(default_factory=Questions)
    restart: Restart | str = Restart.COLD
    seed: int = 0
    folder: str | Path | None = None
    device: str = "cpu"
    inputs: Places = None
    test: Any = None

    def __post_init__(self) -> None:
        if not callable(self.method):
            check_kind("method", self.method, "credo.DeepEnsemble()", Method)
        check_kind("questions", self.questions, "Questions(acquisition='bald')", Questions)
        self.restart = one_of("restart", self.restart, Restart)
        self.model = self.model if isinstance(self.model, Model) else Model(self.model)
        self._pool = pool_of(self.pool, self.inputs)
        self.rounds: list[Round] = []
        self._posterior: Posterior | None = None
        self._identity: dict[str, Any] = {}
        if self.folder is not None:
            methods = [self._method(count) for count in (1, 100)]
            self._identity = identity(
                self.model, self._pool, methods, self.questions, seed=self.seed, restart=self.restart
            )
            self.rounds = read_session(Path(self.folder), self._identity, len(self._pool))

    @property
    def labeled(self) -> dict[int, Label]:
        """Labels by the numbers of the inputs, in the order in which they came."""
        return labels_of(self.rounds)

    @property
    def history(self) -> list[dict[str, float]]:
        """A row for each round: its number, the labels so far, and its scores."""
        totals = torch.tensor([len(each.rows) for each in self.rounds]).cumsum(0).tolist()
        return [
            {"round": number, "labels": total, **each.scores}
            for number, (each, total) in enumerate(zip(self.rounds, totals, strict=True), start=1)
        ]

    @property
    def posterior(self) -> Posterior:
        """What is believed after all answers."""
        if not self.rounds:
            raise ValueError("there are no labels yet: tell(rows, labels) gives the first, such as two of each class")
        if self._posterior is None:
            self._posterior = self._learned()
        return self._posterior

    def ask(self, count: int) -> list[int]:
        """Numbers of the inputs whose labels would tell most, best first; fewer where the pool runs out."""
        count, questions, known = whole_number("count", count), self.questions, self.labeled
        left = [row for row in range(len(self._pool)) if row not in known]
        if not left:
            raise ValueError("the pool is used up: every input has a label")
        stream = Stream(self.seed, ("active", "round", len(self.rounds)))
        if questions.candidates is not None and questions.candidates < len(left):
            chosen = stream.child("candidates").permutation(len(left))[: questions.candidates]
            left = sorted(left[i] for i in chosen.tolist())
        if questions.acquisition is Acquisition.RANDOM:
            picks = stream.child("random").permutation(len(left))[:count]
        else:
            key, configurations = stream.child("acquire").key(), questions.configurations
            picks = acquire(self.predict(left), count, questions.acquisition, key, configurations)
        return [left[i] for i in picks.tolist()]

    def tell(self, rows: Sequence[int] | Tensor, labels: Any) -> None:
        """Learn from more labels. What cannot be learned from is refused, and the session stays as it was.

        Args:
            rows: numbers of inputs in the pool; not only those that were asked for.
            labels: one for each, or (rows, D) of several targets.
        """
        numbers, values = _numbers(rows), self._as_labels(labels)
        self._check(numbers, values)
        before = self.posterior if self.restart is Restart.WARM and self.rounds else None
        rounds = [*self.rounds, Round(tuple(numbers), saved(values))]
        self._refuse_to_learn(rounds, before)
        self._write(rounds)
        self.rounds, self._posterior = rounds, None
        self._posterior = self._trained(len(rounds), before)

    def predict(self, rows: Sequence[int]) -> Predictive:
        """The predictive at inputs of the pool with these numbers, by drawn functions."""
        posterior, draws = self.posterior, self.questions.draws
        if posterior.record.status is Status.DIVERGED:
            raise ValueError(
                f"the training of round {len(self.rounds)} {posterior.record.reason or 'diverged'}: what it believes "
                "says nothing of what to ask; use a smaller learning rate, in a new session with these labels"
            )
        functions = drawn_functions(posterior, draws, self.seed)
        return predict_parts(posterior, functions, self._pool.parts(rows))

    def _as_labels(self, labels: Any) -> Tensor:
        """Numbers as float64, classes as whole numbers, as the likelihood or the labels before say."""
        assert isinstance(self.model, Model)
        values, given = tensor(labels, "labels"), self.model.given_likelihood
        values = values.reshape(1) if values.ndim == 0 else values
        if values.is_floating_point() and not bool(values.isfinite().all()):
            raise ValueError("the labels hold NaN or infinite numbers: leave rows without an answer out")
        first = tensor(self.rounds[0].labels, "labels") if self.rounds and given is None else None
        if isinstance(given, NumericLikelihood) or (first is not None and first.is_floating_point()):
            return values.double()
        classes = isinstance(given, ClassLikelihood) or first is not None
        if classes and values.is_floating_point():
            if bool((values != values.round()).any()):
                raise ValueError(
                    "the labels are whole numbers in one round, hence classes, and fractions in another: they must be "
                    "one kind; a likelihood, as in Model(net, likelihoods.Gaussian()), says which"
                )
            return values.long()
        return values.double() if values.is_floating_point() else values.long()

    def _check(self, rows: list[int], values: Tensor) -> None:
        if len(rows) != len(values) or not rows:
            raise ValueError(f"{len(rows)} rows and {len(values)} labels were told: give one label for each row")
        strange = [row for row in rows if not 0 <= row < len(self._pool)]
        if strange:
            raise ValueError(f"the pool has rows 0 to {len(self._pool) - 1}, and there is a label for row {strange[0]}")
        known, seen = self.labeled, set[int]()
        for row in rows:
            if row in known or row in seen:
                raise ValueError(f"row {row} has a label already: each input is labeled once")
            seen.add(row)

    def _data(self, rounds: Sequence[Round]) -> tuple[Any, Tensor]:
        known = labels_of(rounds)
        y = tensor(list(known.values()), "labels")
        return self._pool.rows(list(known)), y

    def _refuse_to_learn(self, rounds: Sequence[Round], before: Posterior | None) -> None:
        """Whatever `fit` would refuse is refused before it is written down."""
        streams, device = Stream(self.seed, ("active", "attempt")), torch.device(self.device)
        method = self._method(len(labels_of(rounds)))
        with warnings.catch_warnings(), torch.inference_mode(False), torch.enable_grad():
            warnings.simplefilter("ignore", CredoWarning)  # `fit` says it again
            prepare(self.model, Data(self._data(rounds), PAIR), method, streams, device, before, 1.0)

    def _method(self, labels: int) -> Method:
        """How to learn from so many labels."""
        if isinstance(self.method, Method):
            return self.method
        method = self.method(labels)
        check_kind("method(labels)", method, "credo.DeepEnsemble()", Method)
        return method

    def _learned(self) -> Posterior:
        """The posterior after all rounds; those that a folder holds are not trained again."""
        warm, posterior = self.restart is Restart.WARM, None
        for count in range(1 if warm else len(self.rounds), len(self.rounds) + 1):
            posterior = self._trained(count, posterior if warm else None)
        assert posterior is not None
        return posterior

    def _trained(self, count: int, before: Posterior | None) -> Posterior:
        """The posterior after so many rounds."""
        place = None if self.folder is None else Path(self.folder) / f"round-{count}"
        posterior = fit(
            self.model,
            self._data(self.rounds[:count]),
            self._method(len(labels_of(self.rounds[:count]))),
            seed=Stream(self.seed, ("active", "train", count)).key() % 2**31,
            device=self.device,
            progress=False,
            start=before,
            checkpoint=place,
            resume=place is not None,
        )
        if posterior.record.interrupted:
            raise KeyboardInterrupt("the answers are kept, and the same session goes on with them")
        self._judge(count, posterior)
        if self.restart is Restart.COLD and place is not None:
            shutil.rmtree(place.with_name(f"round-{count - 1}"), ignore_errors=True)
        return posterior

    def _judge(self, count: int, posterior: Posterior) -> None:
        """Write down what the test data say of a round."""
        if self.test is None or self.rounds[count - 1].scores:
            return
        scored = replace(self.rounds[count - 1], scores=_scores(posterior, self.test, self.questions.draws))
        self.rounds[count - 1] = scored
        self._write(self.rounds)

    def _write(self, rounds: Sequence[Round]) -> None:
        """Write all rounds down, unless another learner has written more into the folder than this one knows."""
        if self.folder is None:
            return
        folder = Path(self.folder)
        there = labels_of(read_session(folder, self._identity, len(self._pool)))
        if there and there != self.labeled:
            raise StorageError(
                f"{folder} holds {len(there)} labels, and this learner knows of {len(self.labeled)}: another one has "
                "gone on with the session; nothing was taken, so make the learner anew, which reads what is there"
            )
        write_session(folder, self._identity, rounds)


def _numbers(rows: Any) -> list[int]:
    """Numbers of rows, as plain ones."""
    found = tensor(rows, "rows").flatten()
    if found.numel() and (found.is_floating_point() or found.dtype is torch.bool):
        raise TypeError(f"rows must be numbers of inputs in the pool, such as [3, 14], got values of {found.dtype}")
    return [int(row) for row in found.tolist()]


def _scores(posterior: Posterior, test: Any, draws: int) -> dict[str, float]:
    """How good a posterior is on test data; what is not finite is left out."""
    x, y = test
    prediction = posterior.predict(x, count_of(posterior, draws))
    classes = isinstance(prediction, ClassPredictive)
    found = {"accuracy": accuracy(prediction, y)} if classes else {"rmse": rmse(prediction, y)}
    found["log_likelihood"] = log_likelihood(prediction, y)
    return {name: value for name, value in found.items() if math.isfinite(value)}


def simulate(learner: ActiveLearner, labels: Any, start: Sequence[int], count: int, rounds: int) -> ActiveLearner:
    """Run a learner on a pool whose labels are all known, as an experiment does; one with a folder goes on.

    Args:
        learner: a fresh one, or one that was broken off.
        labels: of the whole pool, (N,).
        start: rows that are labeled first.
        count: labels per round.
        rounds: of questions.

    Returns:
        The learner, with its `rounds`, `history` and `posterior`.
    """
    known = tensor(labels, "labels")
    for number in range(len(learner.rounds), rounds + 1):
        rows = list(start) if number == 0 else learner.ask(count)
        learner.tell(rows, known[rows])
    return learner
