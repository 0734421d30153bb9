"""Two small tables, learned from once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from credo.tabular import TableRun, fit_table

ROWS = 400


def table() -> pd.DataFrame:
    """Numbers, a category, missing cells; y depends on x, on z and on color."""
    rng = np.random.default_rng(0)
    x, z, noise = rng.normal(size=(3, ROWS))
    color = rng.choice(["red", "green", "blue"], ROWS)
    y = 10.0 + 3.0 * x - z + 2.0 * (color == "red") + 0.5 * noise
    x[:5] = np.nan
    return pd.DataFrame({"x": x, "z": z, "color": color, "y": y, "kind": np.where(y > 10.0, "high", "low")})


def fitted(folder: Path, target: str, drop: str, method: str = "ensemble") -> TableRun:
    path = folder / "table.csv"
    table().to_csv(path, index=False)
    return fit_table(path, target, method=method, epochs=40, drop=(drop,))


@pytest.fixture(scope="session")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> TableRun:
    return fitted(tmp_path_factory.mktemp("numbers"), "y", "kind")


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> TableRun:
    return fitted(tmp_path_factory.mktemp("classes"), "kind", "y")


@pytest.fixture(scope="session")
def single(tmp_path_factory: pytest.TempPathFactory) -> TableRun:
    """One network, without doubt of its own."""
    return fitted(tmp_path_factory.mktemp("single"), "y", "kind", "map")


@pytest.fixture
def rows() -> pd.DataFrame:
    """Ordinary rows, without targets."""
    return table().drop(columns=["y", "kind"])


@pytest.fixture
def whole() -> pd.DataFrame:
    """The table itself."""
    return table()
