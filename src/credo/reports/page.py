"""The report of a fitted table: one HTML file that needs nothing else."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from credo.evaluation.digits import number, percent
from credo.evaluation.metadata import RunMetadata
from credo.evaluation.values import Evaluation
from credo.reports import words
from credo.reports.column_pictures import column_pictures
from credo.reports.pictures import pictures
from credo.reports.template import filled

MARKS = {"good": "✓ good", "fair": "! fair", "poor": "✗ poor"}
"""A check's rating, shown by sign and word and not by color alone."""
COLUMNS, FEATURES, CLASSES = 60, 6, 15
"""How many columns of the file, features of a doubtful row, and classes a table shows."""


def page(
    metadata: RunMetadata, evaluation: Evaluation, history: Sequence[dict[str, float]], remarks: Sequence[str], run: str
) -> str:
    """The report as HTML.

    Args:
        metadata: how the run came about.
        evaluation: what the held-out rows say.
        history: one row per epoch.
        remarks: what credo chose and noticed in training.
        run: name of the run folder, for the examples.
    """
    return rendered(
        "page.html.jinja",
        evaluation,
        history,
        remarks,
        things="rows",
        contents=_contents(evaluation),
        metadata=metadata,
        subtitle=words.subtitle(metadata, evaluation),
        familiarity_words=words.familiarity_words(evaluation),
        several={
            name: [Drawing(one.svg(), one.caption) for one in group]
            for name, group in column_pictures(evaluation).items()
        },
        by_class=_by_class(evaluation),
        probes=_probes(evaluation),
        doubtful=_doubtful(evaluation),
        columns=metadata.columns[:COLUMNS],
        columns_note=_more(len(metadata.columns), COLUMNS, "columns"),
        notes=metadata.notes,
        training_words=words.training_words(metadata, len(history)),
        run_quoted=shlex.quote(run),
        snippet=snippet(evaluation, run),
    )


def rendered(
    template: str,
    evaluation: Evaluation,
    history: Sequence[dict[str, float]],
    remarks: Sequence[str],
    *,
    said: Callable[[str], str] = str,
    **more: Any,
) -> str:
    """A page as HTML, with what all pages of an evaluation have in common.

    Args:
        template: its file.
        evaluation: what is held out.
        history: one row per epoch.
        remarks: what credo chose and noticed in training.
        said: what becomes of the sentences of an evaluation.
        more: values that the template asks for.
    """
    figures = {
        name: Drawing(said(picture.svg()), said(picture.caption))
        for name, picture in pictures(evaluation, history).items()
    }
    sentences = (*words.summary(evaluation), words.verdict_line(evaluation))
    checks = tuple(
        replace(check, answer=said(check.answer), question=said(check.question)) for check in evaluation.checks
    )
    return filled(
        template,
        evaluation=replace(evaluation, checks=checks),
        classes=bool(evaluation.classes),
        summary=[said(sentence) for sentence in sentences],
        tiles=[replace(tile, text=said(tile.text)) for tile in words.tiles(evaluation)],
        marks=MARKS,
        scores=[{name: said(text) for name, text in row.items()} for row in _scores(evaluation)],
        alone="one network alone" if evaluation.plain_share == 1.0 else "one member alone",
        has_plain=any(score.plain is not None for score in evaluation.scores),
        figures=figures,
        confusion=_confusion(evaluation),
        others=[one.title for one in evaluation.findings.baselines],
        doubt_words=said(words.doubt_words(evaluation)),
        remarks=[said(remark) for remark in remarks],
        **more,
    )


@dataclass(frozen=True)
class Drawing:
    """A figure as a page shows it."""

    element: str  # SVG
    caption: str


def _scores(evaluation: Evaluation) -> list[dict[str, str]]:
    return [
        {
            "title": score.title,
            "model": words.model_text(score),
            "plain": words.score_text(score, score.plain),
            **{one.title: words.baseline_text(score, one) for one in evaluation.findings.baselines},
            "naive": words.score_text(score, score.naive),
            "better": words.better_text(score.better),
        }
        for score in evaluation.scores
    ]


def _confusion(evaluation: Evaluation) -> dict[str, Any]:
    names = evaluation.classes[:CLASSES]
    rows = [
        {"name": name, "cells": [{"count": n, "right": i == j} for j, n in enumerate(counts[: len(names)])]}
        for i, (name, counts) in enumerate(zip(names, evaluation.confusion, strict=False))
    ]
    return {"names": names, "rows": rows, "note": _more(len(evaluation.classes), CLASSES, "classes")}


def _contents(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Sections of the page: their anchors and names."""
    columns = [("columns", "Which columns matter"), ("errors", "Where it errs")]
    return [
        ("short", "In short"),
        ("predictions", "Predictions"),
        *(columns if evaluation.findings.importance else []),
        ("calibration", "Error bars"),
        ("doubt", "Uncertainty"),
        ("table", "The table"),
        ("training", "Training"),
        ("use", "How to use it"),
    ]


def _by_class(evaluation: Evaluation) -> dict[str, Any]:
    """Recall and precision, class by class."""

    def part(value: float | None) -> str:
        return "-" if value is None else percent(value)

    def shown(value: float | None) -> str:
        return "-" if value is None else number(value)

    found = evaluation.findings.classes
    rows = [
        {
            "name": one.name,
            "cells": (
                f"{one.rows:,}",
                part(one.recall),
                part(one.precision),
                shown(one.log_likelihood),
                shown(one.brier),
            ),
        }
        for one in found[:CLASSES]
    ]
    return {"rows": rows, "note": _more(len(found), CLASSES, "classes")}


def _probes(evaluation: Evaluation) -> list[tuple[str, str, str]]:
    """Rows made strange: what was done, how many are flagged, how large their doubt is."""
    return [
        (one.title, "-" if one.flagged is None else percent(one.flagged), number(one.doubt))
        for one in evaluation.findings.probes
    ]


def _doubtful(evaluation: Evaluation) -> dict[str, Any]:
    """The rows, with the features that are unusual in some of them before the others."""
    all_names = [name for name, _ in evaluation.doubtful[0].features] if evaluation.doubtful else []
    often = {name: sum(name in row.unusual for row in evaluation.doubtful) for name in all_names}
    names = sorted(all_names, key=lambda name: -often[name])[:FEATURES]
    rows = [
        {
            "row": row.row,
            "predicted": words.interval_words(row),
            "observed": row.observed,
            "share": percent(row.epistemic_share),
            "cells": [{"text": dict(row.features)[name], "unusual": name in row.unusual} for name in names],
        }
        for row in evaluation.doubtful
    ]
    return {"names": names, "rows": rows, "note": _more(len(all_names), FEATURES, "columns")}


def _more(count: int, shown: int, things: str) -> str:
    return f"{shown} of {count:,} {things} are shown." if count > shown else ""


def snippet(evaluation: Evaluation, run: str) -> str:
    """Python that predicts with the run; it works as it stands, next to the run folder and a file of new rows."""
    columns = '"label", "abstain"' if evaluation.classes else '"mean", "lower", "upper"'
    return (
        "import pandas\n"
        "from credo.tabular import open_run\n\n"
        f"run = open_run({run!r})\n"
        'rows = pandas.read_csv("new.csv")  # the columns of the training table, with or without the target\n'
        "predicted = run.predict(rows)      # one row of answers for each row\n"
        f'print(predicted[[{columns}, "unfamiliar"]])\n\n'
        "run.posterior   # the credo posterior itself, in standardized units\n"
        f"run.evaluation  # the numbers of this page: run.evaluation.score({evaluation.scores[0].id!r}).model, ...\n"
    )
