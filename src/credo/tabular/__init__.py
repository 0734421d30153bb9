"""The table job as a Python call: from a table to an evaluated posterior with a report, and on to predictions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from credo.tabular.costs import ActionCosts
    from credo.tabular.fitting import fit_table
    from credo.tabular.label_curve import Labeling
    from credo.tabular.labeling import label_table
    from credo.tabular.runs import TableRun, open_run
    from credo.tabular.saving import save_run

__all__ = ["ActionCosts", "Labeling", "TableRun", "fit_table", "label_table", "open_run", "save_run"]

_HOMES = {
    "ActionCosts": "costs",
    "fit_table": "fitting",
    "label_table": "labeling",
    "Labeling": "label_curve",
    "TableRun": "runs",
    "open_run": "runs",
    "save_run": "saving",
}


def __getattr__(name: str) -> Any:
    """Loaded when first asked for: who only predicts need not wait for what draws reports."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
