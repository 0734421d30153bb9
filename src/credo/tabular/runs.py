"""The run of a table, in memory and as a folder: the posterior, what is known of the table, and the evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from credo.core.storage import StorageError, find, read_json
from credo.data.encoder import ClassTarget, Encoder
from credo.evaluation.metadata import RunMetadata
from credo.evaluation.values import Evaluation
from credo.posteriors import Posterior, load
from credo.posteriors.writing import CONFIG, ENVIRONMENT, HISTORY, STATE
from credo.tabular.costs import ActionCosts
from credo.tabular.predictions import RISK, RowPredictions, predict_rows
from credo.tabular.supporting import SUPPORT, read_support
from credo.uncertainty.support import Support

TABLE, EVALUATION, PREDICTIONS, REPORT = "table.json", "evaluation.json", "predictions.csv", "report.html"
FILES = (TABLE, EVALUATION, PREDICTIONS, REPORT, SUPPORT, CONFIG, STATE, HISTORY, ENVIRONMENT)
"""What a run folder holds."""


@dataclass(frozen=True, eq=False)
class TableRun:
    """A posterior of a table, with all that is needed to predict new rows.

    Attributes:
        posterior: for standardized inputs and targets.
        encoder: how rows become inputs of the network.
        evaluation: what the held-out rows say.
        predictions: of the held-out rows, with their numbers in the file and what was observed.
        metadata: how the run came about.
        folder: where it is saved; None where it is not.
        support: by which rows are told that are unlike those of training; None for runs of older versions.
    """

    posterior: Posterior
    encoder: Encoder
    evaluation: Evaluation
    predictions: pd.DataFrame
    metadata: RunMetadata
    folder: Path | None = None
    support: Support | None = None

    @property
    def report(self) -> Path | None:
        """The report for people, an HTML page; None where the run is not saved."""
        return None if self.folder is None else self.folder / REPORT

    def predict(
        self,
        rows: pd.DataFrame,
        *,
        level: float = 0.95,
        risk: float = RISK,
        costs: ActionCosts | None = None,
        within: float | None = None,
    ) -> pd.DataFrame:
        """One row of predictions for each row; `predict_rows` says what its columns are.

        Args:
            rows: with the columns of the training table, with or without the target.
            level: of the intervals.
            risk: part of mistakes among decided rows that is acceptable.
            costs: of actions, by which rows are decided instead.
            within: of numbers: rows with wider intervals are left to a person.
        """
        return self.predict_with_notes(rows, level=level, risk=risk, costs=costs, within=within).frame

    def predict_with_notes(
        self,
        rows: pd.DataFrame,
        *,
        level: float = 0.95,
        risk: float = RISK,
        costs: ActionCosts | None = None,
        within: float | None = None,
    ) -> RowPredictions:
        """The same, with what was strange about the rows."""
        return predict_rows(
            self.posterior,
            self.encoder,
            self.evaluation,
            rows,
            level=level,
            risk=risk,
            costs=costs,
            within=within,
            support=self.support,
        )

    def __repr__(self) -> str:
        done, score = self.metadata, self.evaluation.scores[0]
        shown = "undefined" if score.model is None else f"{score.model:.4g}"
        place = "not saved" if self.folder is None else f"saved in {self.folder}"
        return f"TableRun({done.target!r} from {done.source}: {done.method}, {score.id} {shown}, {place})"


def open_run(folder: str | Path) -> TableRun:
    """Read a run that `fit_table` or `credo fit` wrote. Nothing in the folder can choose code to run.

    Raises:
        StorageError: if the folder is missing, damaged, from a newer credo, or something else.
    """
    path = Path(folder)
    if not path.is_dir():
        raise StorageError(f"{path} does not exist: give the folder that `credo fit` wrote")
    if find(path, TABLE) is None:
        other = "the run of something else" if find(path, CONFIG) else "no run"
        raise StorageError(f"{path} holds {other}: give a folder that `credo fit` wrote")
    data = read_json(path, TABLE)
    try:
        saved = data["metadata"] if "metadata" in data else data["story"]  # credo's first version called it a story
        metadata, encoder = RunMetadata.from_json(saved), Encoder.from_json(data["encoder"])
    except (KeyError, TypeError, AttributeError) as error:
        raise StorageError(f"{path / TABLE} is damaged ({error!r})") from None
    evaluation = Evaluation.from_json(read_json(path, EVALUATION))
    support = read_support(path, len(encoder.features))
    return TableRun(load(path), encoder, evaluation, _predictions(path, encoder), metadata, path, support)


def _predictions(folder: Path, encoder: Encoder) -> pd.DataFrame:
    path = find(folder, PREDICTIONS)
    if path is None:
        raise StorageError(f"{folder} has no {PREDICTIONS}: its files belong together, copy them all")
    words = dict.fromkeys(("observed", "label"), str) if isinstance(encoder.target, ClassTarget) else None
    try:
        return pd.read_csv(path, dtype=words, keep_default_na=False, na_values=[""])
    except (ValueError, OSError) as error:
        raise StorageError(f"{path} is damaged ({error})") from None
