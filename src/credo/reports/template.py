"""Pages as one HTML file each: a template of this room, filled, with the style sheet inside."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import jinja2


def filled(template: str, **values: Any) -> str:
    """A page as HTML; every value is escaped.

    Args:
        template: its file.
        values: what the template asks for, beside the style sheet.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("credo.reports", "."), autoescape=True, undefined=jinja2.StrictUndefined
    )
    style = files("credo.reports").joinpath("page.css").read_text(encoding="utf-8")
    return environment.get_template(template).render(style=style, **values)
