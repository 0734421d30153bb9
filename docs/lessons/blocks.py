"""The blocks of code of a lesson, run from top to bottom: figures draw what the page itself has calculated."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

COURSE = Path(__file__).parents[1] / "course"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@cache
def results(page: str) -> dict[str, Any]:
    """What the blocks of `docs/course/{page}.md` leave behind, by name."""
    path = COURSE / f"{page}.md"
    namespace: dict[str, Any] = {"__name__": "__page__"}
    for block in BLOCK.findall(path.read_text(encoding="utf-8")):
        exec(compile(block, str(path), "exec", dont_inherit=True), namespace)
    return namespace
