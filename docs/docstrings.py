"""Docstrings for the reference: formulas stand in blocks, references in one line with links, patterns as they are."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_FORMULA = re.compile(r" (=|~|<-) ")
_REFERENCE = re.compile(r"^Reference: (.*(?:\n +.*)*)", re.MULTILINE)
_LINK = re.compile(r"https://[^\s,;)]*[^\s,;).]")
_PATTERN = re.compile(r'("[^"\n]*\*[^"\n]*")')


class Docstrings(Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)


def rewritten(text: str) -> str:
    """A docstring in which markdown finds nothing to mangle."""
    text = _REFERENCE.sub(_reference, text)
    paragraphs = text.split("\n\n")
    return "\n\n".join(paragraphs[:1] + [_block(paragraph) for paragraph in paragraphs[1:]])


def _reference(found: re.Match[str]) -> str:
    line = " ".join(part.strip() for part in found[1].splitlines())
    return "**Reference.** " + _LINK.sub(lambda link: f"<{link[0]}>", line)


def _block(paragraph: str) -> str:
    lines = paragraph.split("\n")
    if lines[0].startswith(" ") or ">>>" in paragraph:
        return paragraph
    if all(_FORMULA.search(line) for line in lines) and not paragraph.endswith("."):
        # several formulas of one line, apart by wide spaces, get a line each
        return "\n".join(["```text", *re.split(r"\n|(?<=[,;]) {2,}", paragraph), "```"])
    return _PATTERN.sub(r"`\1`", paragraph)
