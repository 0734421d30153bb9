"""Tables, data sets and their splits.

- `reading.read_table` reads a file (with pandas), `problem.pose` finds out what its columns are, and `encoder.Encoder`
  makes tensors of its rows.
- `sets` has data sets by name, `toys` generates some, `splits` divides rows.
"""

from enum import Enum

__all__ = ["DataError", "Task"]


class Task(Enum):
    """What is predicted: a number, or one of several classes."""

    REGRESSION = "regression"
    CLASSIFICATION = "classification"


class DataError(ValueError):
    """A file, a table or a column that cannot be used, with a sentence that says why and what to do."""
