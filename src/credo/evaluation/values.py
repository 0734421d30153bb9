"""What the held-out rows say about a posterior: numbers and curves as plain values, which JSON can hold."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from credo.core.config import decode, encode
from credo.core.storage import StorageError
from credo.decide.certificates import CertifiedRisk
from credo.evaluation.table_values import TABLE_KINDS, TableFindings
from credo.uncertainty.familiarity import Familiarity

Floats = tuple[float, ...]


class Rating(Enum):
    """What a check says: nothing to worry about, something to know, something to mend."""

    GOOD = "good"
    FAIR = "fair"
    POOR = "poor"


@dataclass(frozen=True)
class Check:
    """A question about the run, and its answer.

    Attributes:
        question: in a few words.
        rating: value of a `Rating`.
        answer: a sentence with its numbers.
    """

    question: str
    rating: str
    answer: str


@dataclass(frozen=True)
class Score:
    """One measure on the held-out rows.

    Attributes:
        id: name in `credo.metrics`.
        title: in plain words.
        model: of the posterior; None where it is not a finite number.
        plain: of a single network of the posterior, on average over members; None for a method that is one.
        naive: of the answer that ignores all inputs.
        better: "lower", "higher", or a number that it should be.
        error: standard error of `model`, by the number of held-out rows; None where it is not known.
    """

    id: str
    title: str
    model: float | None
    plain: float | None
    naive: float | None
    better: str | float
    error: float | None = None


@dataclass(frozen=True)
class Calibration:
    """What was stated against what came true.

    Attributes:
        stated: levels of intervals, or mean confidence in each bin, (n,).
        observed: part of the rows inside, or part of the bin that was right, (n,).
        count: rows behind each point, (n,).
    """

    stated: Floats
    observed: Floats
    count: Floats


@dataclass(frozen=True)
class Rejection:
    """The loss on the rows that are kept when the most doubtful ones are left to a person.

    Attributes:
        kept: part of the rows that is kept, ascending, (n,).
        risk: mean loss on them, (n,): the squared error, or the part of mistakes.
        doubt: largest doubt among them, (n,): the variance, or one minus the largest probability.
    """

    kept: Floats
    risk: Floats
    doubt: Floats

    def risk_at(self, kept: float) -> float:
        """The risk when at least this part is kept."""
        return next((r for k, r in zip(self.kept, self.risk, strict=True) if k >= kept - 1e-9), self.risk[-1])


@dataclass(frozen=True)
class Certificates:
    """What rows promise about mistakes among those that are decided.

    Attributes:
        rows: how many.
        table: for each risk how much is decided.
        smallest: the smallest risk that can be promised for any row; None for no risk.
    """

    rows: int
    table: tuple[CertifiedRisk, ...]
    smallest: CertifiedRisk | None


@dataclass(frozen=True)
class Sample:
    """Some held-out rows for figures, (n,) each.

    Attributes:
        row: numbers of the rows in the user's file, from 1, the header not counted.
        observed: the target, or the number of its class.
        mean: predicted, or the number of the most probable class.
        lower: end of the 95 % interval; for classes empty.
        upper: likewise.
        confidence: probability of the most probable class; for numbers empty.
        epistemic: variance, or mutual information in nats.
        aleatoric: variance, or expected entropy in nats.
    """

    row: tuple[int, ...]
    observed: Floats
    mean: Floats
    lower: Floats
    upper: Floats
    confidence: Floats
    epistemic: Floats
    aleatoric: Floats


@dataclass(frozen=True)
class Doubtful:
    """A held-out row of which the posterior is unsure.

    Attributes:
        row: its number in the user's file, from 1, the header not counted.
        predicted: in words: a number with its interval, or a class with its probability.
        observed: what was true.
        epistemic_share: part of the doubt that comes from the disagreement of the posterior's functions, 0 to 1.
        features: names and cells of the inputs, as the file has them.
        unusual: names of the inputs whose cells are rare among the training rows.
        unfamiliar: whether it is flagged as unlike the training rows; its error bars then mean nothing.
    """

    row: int
    predicted: str
    observed: str
    epistemic_share: float
    features: tuple[tuple[str, str], ...]
    unusual: tuple[str, ...]
    unfamiliar: bool = False


@dataclass(frozen=True)
class Evaluation:
    """A posterior held against rows that it never saw.

    Attributes:
        task: regression or classification.
        target: name of the column that is predicted.
        classes: names of the classes; empty for numbers.
        trained: number of rows that were learned from.
        held_out: number of rows that were not.
        scores: measures, the most important first.
        calibration: coverage of intervals, or reliability of class probabilities.
        rejection: what is gained by leaving doubtful rows to a person.
        familiarity: from which disagreement on a row counts as unlike the training data.
        sample: rows for figures.
        confusion: number of rows of each true class (first axis) that got each label; empty for numbers.
        epistemic_share: part of the average doubt that comes from the disagreement of the posterior's functions.
        doubtful: the rows with the most doubt.
        checks: questions with verdicts.
        plain_share: part of the training rows that a single network learned from; a member of an ensemble lacks those
            it validates on.
        certificates: for classes what the held-out rows promise about mistakes.
        out_of_fold: for classes the curve of training rows, each as the networks predict it that were not trained on
            it: they are more, and what they promise belongs to these networks.
        out_of_fold_certificates: what these rows promise.
        judged: training rows that say what is usual, each looked at as if it were new; 0 where held-out rows do, by
            `familiarity`, as in runs of older versions.
    """

    task: str
    target: str
    classes: tuple[str, ...]
    trained: int
    held_out: int
    scores: tuple[Score, ...]
    calibration: Calibration
    rejection: Rejection
    familiarity: Familiarity
    sample: Sample
    confusion: tuple[tuple[int, ...], ...]
    epistemic_share: float
    doubtful: tuple[Doubtful, ...]
    checks: tuple[Check, ...]
    plain_share: float = 1.0
    certificates: Certificates | None = None
    out_of_fold: Rejection | None = None
    out_of_fold_certificates: Certificates | None = None
    judged: int = 0
    findings: TableFindings = TableFindings()

    def score(self, name: str) -> Score:
        """The measure of that name."""
        return next(score for score in self.scores if score.id == name)

    def to_json(self) -> dict[str, Any]:
        """As JSON, without the version of the folder."""
        return dict(encode(self))

    @staticmethod
    def from_json(data: dict[str, Any]) -> Evaluation:
        """The inverse of `to_json`."""
        try:
            found = decode({key: value for key, value in data.items() if key != "schema"}, KINDS)
        except (KeyError, TypeError, AttributeError) as error:
            raise StorageError(f"this is not the evaluation of a run, or a damaged one ({error!r})") from None
        if not isinstance(found, Evaluation):
            raise StorageError("this is not the evaluation of a run")
        return found


KINDS = {
    kind.__name__: kind
    for kind in (
        Evaluation,
        Check,
        Score,
        Calibration,
        Rejection,
        Sample,
        Doubtful,
        Familiarity,
        Certificates,
        CertifiedRisk,
    )
} | TABLE_KINDS
"""The classes that an evaluation on disk may name."""
