"""The two questions a table can answer."""

from enum import Enum


class Task(Enum):
    """What is predicted: a number, or one of several classes."""

    REGRESSION = "regression"
    CLASSIFICATION = "classification"
