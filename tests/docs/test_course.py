"""The course and the maps of the lectures: figures are drawn by our code, links lead somewhere, formulas render."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
COURSE = sorted((DOCS / "course").glob("*.md"))
LESSONS = [page for page in COURSE if page.name != "index.md"]
LECTURES = sorted((DOCS / "lectures").glob("*.md"))
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]+)?\)")
ids = dict(ids=lambda page: page.name)  # noqa: C408 (keywords for pytest)


@pytest.fixture(scope="module")
def lessons() -> Iterator[ModuleType]:
    """The package of the course's figures."""
    pytest.importorskip("matplotlib")
    sys.path.insert(0, str(DOCS))
    yield importlib.import_module("lessons")
    sys.path.remove(str(DOCS))


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    heads = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S), re.M)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", head).strip().lower()) for head in heads}


@pytest.mark.parametrize("page", [*COURSE, *LECTURES], **ids)
def test_links_lead_somewhere(page: Path) -> None:
    found = LINK.findall(page.read_text(encoding="utf-8"))
    assert found
    for path, anchor in found:
        if path.startswith("https://"):
            continue
        there = (page.parent / path).resolve() if path else page
        assert there.is_file(), f"{page.name} links to {path}, which does not exist"
        if anchor and there.suffix == ".md":
            assert anchor[1:] in anchors(there), f"{page.name} links to {path}{anchor}, which is no heading there"


@pytest.mark.parametrize("page", LESSONS, **ids)
def test_a_lesson_has_a_figure_a_block_and_an_exercise(page: Path, lessons: ModuleType) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.search(r"!\[[^\]]{10,}\]\(\.\./assets/\S+\.png\)", text), "a figure with a text in its place"
    assert re.search(r"^```python\n", text, re.M), "a block of code"
    assert "**Exercise**" in text or "**Exercise.**" in text
    assert re.search(r'<details markdown="1"><summary>Answer</summary>\n\n.+?\n\n</details>', text, re.S), "its answer"
    for name in re.findall(r"assets/course/([\w-]+)\.png", text):
        assert name in lessons.FIGURES, f"{name}.png is drawn by nothing in docs/lessons"


def test_every_figure_of_the_course_is_in_a_lesson(lessons: ModuleType) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (*COURSE, *LECTURES))
    shown = set(re.findall(r"assets/course/([\w-]+)\.png", text))
    assert shown == set(lessons.FIGURES) == {path.stem for path in (DOCS / "assets" / "course").glob("*.png")}


def formulas() -> ModuleType:
    """What turns formulas into MathML when the site is built."""
    pytest.importorskip("latex2mathml")
    spec = importlib.util.spec_from_file_location("formulas", DOCS / "formulas.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_paragraph_that_begins_with_a_formula_stays_one_paragraph() -> None:
    markdown = pytest.importorskip("markdown").markdown
    text = "$a$ and $b$ are\n$c$ and `d` in one sentence."
    shown = markdown(formulas().on_page_markdown(text), extensions=["md_in_html"])
    assert shown.count("<p>") == 1
    assert shown.startswith("<p><span><math")
    twin = shown.replace("<span>", "").replace("</span>", "").removeprefix("<p>").removesuffix("</p>")
    assert markdown(twin, extensions=["md_in_html"]).count("<p>") > 1  # without the span it falls apart


@pytest.mark.parametrize("page", [*COURSE, *LECTURES], **ids)
def test_formulas_render(page: Path) -> None:
    """An unknown command is left in the MathML as it was written, or fails."""
    shown = formulas().on_page_markdown(page.read_text(encoding="utf-8"))
    assert [m for m in re.findall(r"<math.*?</math>", shown, re.S) if re.search(r"\\|<mi>&</mi>", m)] == []
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", shown, flags=re.M | re.S)
    assert "$" not in prose, "a formula that was not closed"


def test_the_index_names_every_lesson_in_the_order_of_the_navigation() -> None:
    listed = re.findall(r"\]\(([\w-]+\.md)\)", (DOCS / "course" / "index.md").read_text(encoding="utf-8"))
    shown = re.findall(r"course/([\w-]+\.md)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert [name for name in shown if name != "index.md"] == listed
    assert sorted(listed) == [page.name for page in LESSONS]


def test_quoted_lines_of_code_are_where_the_pages_say() -> None:
    quoted = [
        (page.name, *found)
        for page in LECTURES
        for found in re.findall(r"`(src/credo/[\w/]+\.py):(\d+)` \| `([^`]+)`", page.read_text(encoding="utf-8"))
    ]
    assert quoted
    for page, file, number, code in quoted:
        line = (ROOT / file).read_text(encoding="utf-8").splitlines()[int(number) - 1]
        assert code in line, f"{page} quotes {file}:{number} as {code!r}, and the line is {line.strip()!r}"
