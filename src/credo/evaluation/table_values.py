"""What held-out rows of a table say beyond the scores, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

Floats = tuple[float, ...]


@dataclass(frozen=True)
class Baseline:
    """A common model, trained on the same rows and tested on the same held-out rows.

    Attributes:
        title: what it is, in words.
        scores: its measures by the ids of `Score`: rmse and mae, or accuracy, brier and log_likelihood.
        gain: by how much its mean loss is larger than that of the posterior: the squared error, or the Brier score.
        error: standard error of the gain, over held-out rows.
        trained: number of rows that it learned from.
    """

    title: str
    scores: dict[str, float]
    gain: float
    error: float
    trained: int


@dataclass(frozen=True)
class Importance:
    """How much worse the predictions become when the cells of one column are shuffled among the held-out rows.

    Attributes:
        column: its name.
        rise: of the root mean square error, or of the Brier score.
        error: standard error of the rise, over rows and shuffles.
    """

    column: str
    rise: float
    error: float


@dataclass(frozen=True)
class Effect:
    """Partial dependence: the prediction at each value of one column, averaged over held-out rows.

    Attributes:
        column: its name.
        label: the class whose probability it is; empty for numbers.
        values: of a column of numbers, or days since 1970 of one of dates; empty for categories.
        words: categories, or dates as they are written; empty for numbers.
        mean: of the posterior.
        spread: standard deviation over the posterior's functions.
    """

    column: str
    label: str
    values: Floats
    words: tuple[str, ...]
    mean: Floats
    spread: Floats


@dataclass(frozen=True)
class Residuals:
    """Errors of the held-out rows along one column, in groups of rows.

    Attributes:
        column: its name.
        groups: what the rows of each group have in common.
        rows: number of rows in each.
        mean: observed minus predicted on average; for classes, the part that was right minus the mean confidence.
        error: standard error of the mean.
        size: root mean square error; for classes, the part of mistakes.
    """

    column: str
    groups: tuple[str, ...]
    rows: Floats
    mean: Floats
    error: Floats
    size: Floats


@dataclass(frozen=True)
class ClassScores:
    """One class on the held-out rows.

    Attributes:
        name: of the class.
        rows: held-out rows that are of it.
        answers: held-out rows that were given its name.
        recall: part of its rows that were found; None where there is none.
        precision: part of the answers that were right; None where there is none.
        log_likelihood: mean log probability of the class on its rows; None where there is none.
        brier: mean Brier score of its rows; None where there is none.
    """

    name: str
    rows: int
    answers: int
    recall: float | None
    precision: float | None
    log_likelihood: float | None
    brier: float | None


@dataclass(frozen=True)
class StrangeRows:
    """Held-out rows made strange in one way, and whether that is noticed.

    Attributes:
        name: id of the way.
        title: the way in words.
        rows: number of rows.
        flagged: part of the rows that gets the flag "unfamiliar"; None where no row can get it.
        doubt: how many times the doubt of ordinary rows: width of the 95 % interval, or one minus the confidence.
        interval: whether it is the width of the interval.
    """

    name: str
    title: str
    rows: int
    flagged: float | None
    doubt: float
    interval: bool


@dataclass(frozen=True)
class TableFindings:
    """All of it.

    Attributes:
        baselines: common models, on the same rows.
        importance: of the columns, the most important first.
        effects: partial dependence on the most important columns.
        residuals: errors along the most important columns.
        classes: one by one; empty for numbers.
        probes: rows made strange; the first is the ordinary rows themselves.
    """

    baselines: tuple[Baseline, ...] = ()
    importance: tuple[Importance, ...] = ()
    effects: tuple[Effect, ...] = ()
    residuals: tuple[Residuals, ...] = ()
    classes: tuple[ClassScores, ...] = ()
    probes: tuple[StrangeRows, ...] = ()


TABLE_KINDS = {
    found.__name__: found
    for found in (Baseline, Importance, Effect, Residuals, ClassScores, StrangeRows, TableFindings)
}
"""The classes that an evaluation of a table on disk may name beside its own."""
