"""Formulas to MathML when the site is built, so that a page needs no script and nothing from outside."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

_CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_INLINE = re.compile(r"(?<![\\$])\$([^$\n]+?)\$")


def on_page_markdown(markdown: str, **_: Any) -> str:
    parts = _CODE.split(markdown)
    return "".join(part if i % 2 else _formulas(part) for i, part in enumerate(parts))


def _formulas(text: str) -> str:
    text = _BLOCK.sub(lambda m: convert(m[1].strip(), display="block"), text)
    # in a span, because Markdown takes an element `math` at the beginning of a line for a block of its own
    return _INLINE.sub(lambda m: f"<span>{convert(m[1])}</span>", text)
