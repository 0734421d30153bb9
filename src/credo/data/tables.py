"""From a file to tensors, in three steps.

Example:
    `table = read_table("houses.csv")`, `problem = pose(table, target="price")`, `encoder = Encoder.fit(problem)`;
    then `encoder.encode(problem.frame).x` and `encoder.encode_target(problem.frame)` are what a network learns from.
"""

from credo.data.encoder import ClassTarget, Encoded, Encoder, NumericTarget
from credo.data.errors import DataError
from credo.data.problem import Column, Kind, Problem, pose
from credo.data.reading import Table, read_table
from credo.data.task import Task

__all__ = [
    "ClassTarget",
    "Column",
    "DataError",
    "Encoded",
    "Encoder",
    "Kind",
    "NumericTarget",
    "Problem",
    "Table",
    "Task",
    "pose",
    "read_table",
]
