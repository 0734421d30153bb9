"""What an evaluation says in sentences, before any figure."""

from __future__ import annotations

from dataclasses import dataclass

from credo.evaluation.digits import number, percent, rounded, with_error
from credo.evaluation.metadata import RunMetadata
from credo.evaluation.table_values import Baseline
from credo.evaluation.values import Doubtful, Evaluation, Rating, Score

METHODS = {
    "ensemble": "a deep ensemble",
    "dropout": "Monte Carlo dropout",
    "vi": "Bayes by Backprop",
    "map": "a single network",
}


@dataclass(frozen=True)
class Tile:
    """A number that catches the eye, and what it is."""

    value: str
    text: str


def method_in_words(name: str) -> str:
    """A method as a person calls it."""
    return METHODS.get(name, name)


def subtitle(metadata: RunMetadata, evaluation: Evaluation) -> str:
    """The run in one line."""
    rows = f"{evaluation.trained:,} training rows, {evaluation.held_out:,} held out"
    return f"From {metadata.source}: {rows}; {method_in_words(metadata.method)}, {seconds(metadata.seconds)}."


def summary(evaluation: Evaluation) -> tuple[str, ...]:
    """The result in a few plain sentences."""
    return _of_classes(evaluation) if evaluation.classes else _of_numbers(evaluation)


def _of_numbers(evaluation: Evaluation) -> tuple[str, ...]:
    rmse, covered, width = (evaluation.score(name) for name in ("rmse", "coverage", "sharpness"))
    off = _model(rmse)
    first = f"On rows it has never seen, the predictions of {evaluation.target} are typically off by {off}."
    if rmse.model is not None and rmse.naive:
        first += f" Always answering the mean would be off by {score_text(rmse, rmse.naive)}, so {_less(rmse)}."
    second = f"Its 95 % intervals are {_model(width)} wide on average and hold {_p(covered.model)} of these rows."
    if covered.plain is not None:
        off = score_text(rmse, rmse.plain)
        second += f" {alone(evaluation)} is off by {off}, and its intervals hold {_p(covered.plain)}."
    return first, second


def _of_classes(evaluation: Evaluation) -> tuple[str, ...]:
    accuracy, error, brier = (evaluation.score(name) for name in ("accuracy", "calibration_error", "brier"))
    first = f"On rows it has never seen, it finds the right {evaluation.target} in {_model(accuracy)} of the cases."
    first += f" Always answering the most frequent class would be right in {_p(accuracy.naive)}."
    second = f"Its stated probabilities are off by {_p(error.model)} on average (expected calibration error)."
    if accuracy.plain is not None:
        second += f" {alone(evaluation)} is right in {_p(accuracy.plain)} of the cases,"
        second += f" and its Brier score is {score_text(brier, brier.plain)} instead of {_model(brier)}."
    return first, second


def alone(evaluation: Evaluation) -> str:
    """The single network that the posterior is held against, and how much it has seen."""
    if evaluation.plain_share == 1.0:
        return "One network alone"
    return f"One member alone (trained on {percent(evaluation.plain_share)} of the training rows)"


def _less(score: Score) -> str:
    """How much of the naive error is gone."""
    assert score.model is not None
    assert score.naive
    gain = 1.0 - score.model / score.naive
    if gain <= 0.0:
        return "the inputs did not help"
    return f"the inputs remove {percent(gain)} of the error"


def tiles(evaluation: Evaluation) -> tuple[Tile, ...]:
    """The numbers that catch the eye."""
    kept, whole = evaluation.rejection.risk_at(0.8), evaluation.rejection.risk_at(1.0)
    if evaluation.classes:
        accuracy, likelihood = evaluation.score("accuracy"), evaluation.score("calibration_error")
        return (
            Tile(_p(accuracy.model), f"right on held-out rows (most frequent class: {_p(accuracy.naive)})"),
            Tile(_p(likelihood.model), "between stated and true probabilities (calibration error)"),
            Tile(percent(1.0 - kept), "right when the fifth it is least sure of is left to a person"),
        )
    rmse, covered = evaluation.score("rmse"), evaluation.score("coverage")
    return (
        Tile(_model(rmse), f"typical error on held-out rows (always the mean: {score_text(rmse, rmse.naive)})"),
        Tile(_p(covered.model), "of held-out rows inside their 95 % interval"),
        Tile(number(kept**0.5), f"typical error without the fifth it is least sure of (with it: {number(whole**0.5)})"),
    )


def doubt_words(evaluation: Evaluation) -> str:
    """The two kinds of doubt, and how much there is of each."""
    share = evaluation.epistemic_share
    if evaluation.familiarity.threshold is None:
        return (
            "The method is a single network: all of its error bars come from noise in the data; where data are scarce "
            "they do not grow."
        )
    what = "entropy" if evaluation.classes else "variance"
    return (
        f"The uncertainty has two parts. {percent(share)} of the predictive {what} is model uncertainty (epistemic): "
        "the networks disagree, as they do where training rows are scarce. The rest is noise (aleatoric), which these "
        f"inputs cannot explain. How much more rows would help, neither part says."
        ""
    )


def familiarity_words(evaluation: Evaluation) -> str:
    """What the flag of `credo predict` means for this run."""
    found = evaluation.familiarity
    if evaluation.judged:
        return (
            "New rows get the flag “unfamiliar” (score above 1) when the networks disagree more about them, they lie "
            "farther from the training rows, a number lies farther beyond all known ones, or a category is less to be "
            f"expected than it is for 99 in 100 of {evaluation.judged:,} training rows, each looked at as if it were "
            "new. So about one ordinary row in a hundred is flagged."
        )
    if found.threshold is None:
        return "New rows cannot be flagged as unfamiliar, since a single network never disagrees with itself."
    return (
        "New rows get the flag “unfamiliar” when they are less like the training rows, by what the networks make of "
        f"them, than nearly all held-out rows (score above 1). Among rows like these, at most "
        f"{percent(found.false_alarms)} are flagged by mistake. What is predicted for a flagged row is a guess, and "
        "its error bars mean nothing."
    )


def verdict_line(evaluation: Evaluation) -> str:
    """All checks in a line."""
    counts = {rating: sum(check.rating == rating.value for check in evaluation.checks) for rating in Rating}
    if counts[Rating.POOR]:
        return f"{counts[Rating.POOR]} of {len(evaluation.checks)} checks failed: read them before you rely on it."
    if counts[Rating.FAIR]:
        need = "needs" if counts[Rating.FAIR] == 1 else "need"
        return f"No check failed; {counts[Rating.FAIR]} of {len(evaluation.checks)} {need} a look."
    return f"All {len(evaluation.checks)} checks are fine."


def training_words(metadata: RunMetadata, history_length: int) -> str:
    """What was trained, for how long."""
    epochs = f"{history_length:,} epochs" if history_length != 1 else "one epoch"
    name = method_in_words(metadata.method)
    return f"{name[0].upper()}{name[1:]}, {metadata.training or epochs}; {seconds(metadata.seconds)} in all."


def seconds(count: float) -> str:
    """A duration as a person says it.

    Examples:
        >>> seconds(0.4), seconds(1.2), seconds(75.0), seconds(600.0)
        ('under a second', '1 second', '75 seconds', '10 minutes')
    """
    if count < 0.95:
        return "under a second"
    if count >= 119.5:
        return f"{count / 60:.0f} minutes"
    return "1 second" if round(count) == 1 else f"{count:.0f} seconds"


SHARES = ("coverage", "accuracy", "calibration_error")
"""Measures that are parts of the rows."""


def score_text(score: Score, value: float | None) -> str:
    """A measure as a table shows it, with as many digits as that of the model carries."""
    if value is None:
        return "-"
    return percent(value) if score.id in SHARES else rounded(value, score.error)


def model_text(score: Score) -> str:
    """The measure of the model, with its standard error."""
    return "-" if score.model is None else with_error(score.model, score.error, share=score.id in SHARES)


def baseline_text(score: Score, baseline: Baseline) -> str:
    """The same measure of a common model; a dash where it has none."""
    return score_text(score, baseline.scores.get(score.id))


def interval_words(row: Doubtful) -> str:
    """What is predicted for a row: of one that is unlike the training rows, without the error bars."""
    return f"{row.predicted.rsplit(' (', 1)[0]} (unfamiliar: a guess)" if row.unfamiliar else row.predicted


def better_text(better: str | float) -> str:
    """Which way a measure should go."""
    return better if isinstance(better, str) else f"near {percent(better)}"


def _model(score: Score) -> str:
    return score_text(score, score.model)


def _n(value: float | None) -> str:
    return "-" if value is None else number(value)


def _p(value: float | None) -> str:
    return "-" if value is None else percent(value)
