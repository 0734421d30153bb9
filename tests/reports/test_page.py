"""The report: complete in itself, safe against what a user's file may hold, and readable without seeing its figures."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlparse

import numpy as np
import pandas as pd
import pytest

from credo.reports import words
from credo.reports.page import page, snippet
from credo.reports.pictures import pictures
from credo.tabular import TableRun, fit_table, save_run

NASTY = '<script>alert("x")</script> & $x_1$'
HISTORY = [
    {"epoch": 1.0, "seconds": 0.1, "log_likelihood": -5.0, "validation_log_likelihood": -4.0},
    {"epoch": 2.0, "seconds": 0.2, "log_likelihood": -1.0, "validation_log_likelihood": -2.0},
    {"epoch": 3.0, "seconds": 0.3, "log_likelihood": -0.5, "validation_log_likelihood": -3.0},
]
VOID = {"meta", "link", "br", "img", "input", "hr"}


def fitted(folder: Path, target: str, drop: str, method: str = "ensemble") -> TableRun:
    """A table whose names and cells all want to break out of the page."""
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(2, 120))
    cells = {NASTY: x, "word": np.where(x > 0, "<b>bold</b>", "'quoted\""), "y": 1000 * x + 100 * noise}
    frame = pd.DataFrame({**cells, "kind": np.where(cells["y"] > 0, "<i>yes</i>", "no & never")})
    path = folder / "<img src=x>.csv"
    frame.rename(columns={"y": f"y {NASTY}", "kind": f"kind {NASTY}"}).to_csv(path, index=False)
    return fit_table(path, f"{target} {NASTY}", method=method, epochs=5, drop=(f"{drop} {NASTY}",))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TableRun]:
    folder = tmp_path_factory.mktemp("tables")
    return {
        "numbers": fitted(folder, "y", "kind"),
        "classes": fitted(folder, "kind", "y"),
        "single": fitted(folder, "y", "kind", "map"),
    }


def rendered(result: TableRun) -> str:
    return page(result.metadata, result.evaluation, HISTORY, ("a <note> of the training",), "my run")


class Reading(HTMLParser):
    """A page as a strict reader sees it: tags closed in order, and what it refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.labels: list[str | None] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.tags.append(tag)
        self.ids += [found["id"] or ""] if "id" in found else []
        self.references += [v or "" for k, v in attributes if k in ("src", "href", "xlink:href", "action", "data")]
        assert not any(name.startswith("on") for name in found), f"{tag} has a handler"
        if tag == "svg":
            assert found.get("role") == "img"
            self.labels.append(found.get("aria-label"))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"{tag} is closed out of order"

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(params=["numbers", "classes", "single"])
def html(request: pytest.FixtureRequest, results: dict[str, TableRun]) -> str:
    return rendered(results[request.param])


def test_the_page_is_well_formed_and_its_names_are_unique(html: str) -> None:
    reading = Reading(html)
    assert reading.open == []
    assert len(reading.ids) == len(set(reading.ids))
    inner = {name.removeprefix("#") for name in reading.references if name.startswith("#")}
    assert inner <= set(reading.ids)


def test_nothing_is_loaded_from_outside(html: str) -> None:
    reading = Reading(html)
    assert {urlparse(name).scheme for name in reading.references if not name.startswith("#")} <= {"data"}
    assert "@import" not in html
    assert not re.findall(r"url\((?!#)", html)
    addresses = set(re.findall(r"https?://[^\s\"'<]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "default-src 'none'" in html


def test_nothing_from_the_file_becomes_markup(html: str) -> None:
    reading = Reading(html)
    assert not {"script", "img", "i", "note", "iframe"} & set(reading.tags)
    assert "<b>bold" not in html
    shown = "".join(reading.text)
    assert '<script>alert("x")</script> & $x_1$' in shown
    assert "<img src=x>.csv" in shown
    assert "a <note> of the training" in shown


def test_every_figure_has_a_caption_and_a_text_alternative(html: str) -> None:
    reading = Reading(html)
    assert len(reading.labels) == reading.tags.count("figure") == reading.tags.count("figcaption") >= 11
    assert all(label and len(label) > 30 for label in reading.labels)
    assert len(set(reading.labels)) == len(reading.labels)
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", html, re.DOTALL)
    assert all(len(caption) > 40 for caption in captions)


def test_colors_are_those_of_the_page_so_that_it_can_be_dark(html: str) -> None:
    drawings = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    strange = {c for d in drawings for c in re.findall(r"#[0-9a-fA-F]{6}\b", d)} - {"#b0b0b0"}  # gray of the grid
    assert strange == set()
    used = set(re.findall(r"var\(--(\w+)\)", html))
    for theme in html.split("@media")[:2]:
        assert used <= set(re.findall(r"--(\w+):", theme)) | {"good", "fair", "poor"}
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html


def test_plain_words_come_before_figures(html: str) -> None:
    assert html.index("On rows it has never seen") < html.index("<figure>")


def test_the_same_numbers_give_the_same_page(results: dict[str, TableRun]) -> None:
    assert rendered(results["numbers"]) == rendered(results["numbers"])


def test_without_a_history_there_is_no_figure_of_it(results: dict[str, TableRun]) -> None:
    assert "training" not in pictures(results["numbers"].evaluation, [])


@pytest.mark.parametrize("which", ["numbers", "classes"])
def test_the_python_on_the_page_runs(
    which: str,
    results: dict[str, TableRun],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = results[which]
    save_run(result, tmp_path / "my run")
    result.predictions.assign(**{NASTY: 0.0, "word": "'quoted\""}).to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.chdir(tmp_path)
    exec(compile(snippet(result.evaluation, "my run"), "snippet", "exec"), {})
    assert "unfamiliar" in capsys.readouterr().out


def test_a_class_that_was_never_right_and_a_perfect_model_can_be_drawn(results: dict[str, TableRun]) -> None:
    evaluation = results["classes"].evaluation
    sample = evaluation.sample
    perfect = replace(evaluation, sample=replace(sample, mean=sample.observed))
    wrong = replace(evaluation, sample=replace(sample, mean=tuple(1.0 - v for v in sample.observed)))
    for one in (perfect, wrong):
        assert "<svg" in pictures(one, HISTORY)["predictions"].svg()


@pytest.mark.parametrize("which", ["numbers", "classes", "single"])
def test_the_summary_has_the_numbers(which: str, results: dict[str, TableRun]) -> None:
    evaluation = results[which].evaluation
    told = " ".join(words.summary(evaluation))
    first = evaluation.scores[0]
    assert words.score_text(first, first.model) in told
    assert words.score_text(first, first.naive) in told
    assert (words.alone(evaluation) in told) == (first.plain is not None)
    assert ("80" in words.alone(evaluation)) == (which != "single")
    assert words.alone(replace(evaluation, plain_share=1.0)) == "One network alone"


def test_the_verdict_counts_the_checks(results: dict[str, TableRun]) -> None:
    evaluation = results["numbers"].evaluation
    poor = replace(evaluation, checks=tuple(replace(check, rating="poor") for check in evaluation.checks))
    assert words.verdict_line(poor).startswith(f"{len(poor.checks)} of {len(poor.checks)} checks failed")
    good = replace(evaluation, checks=tuple(replace(check, rating="good") for check in evaluation.checks))
    assert "fine" in words.verdict_line(good)


def test_the_style_sheet_travels_with_the_package() -> None:
    import credo.reports

    folder = Path(os.fspath(credo.reports.__path__[0]))
    assert (folder / "page.css").is_file()
    assert (folder / "page.html.jinja").is_file()
