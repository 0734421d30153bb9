"""Packages that only some people need."""

from __future__ import annotations

import importlib
import warnings
from typing import Any


def optional(package: str, extra: str) -> Any:
    """Import a package of an extra; a sentence if it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # ArviZ announces its next version once a day
            try:
                return importlib.import_module(package)
            except FileNotFoundError:  # ArviZ notes the announcement in a file that another process has just moved
                return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ImportError(f"this needs {package}, which is not installed: pip install 'credo[{extra}]'") from None
