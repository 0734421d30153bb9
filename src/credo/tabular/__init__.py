"""From a table to a posterior that has been held against rows it never saw, and on to predictions with a warning."""

from credo.tabular.runs import TableRun, open_run

__all__ = ["TableRun", "open_run"]
