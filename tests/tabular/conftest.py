"""Two small tables, learnt from once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from credo.cli.pipeline import Fitted, Found, Order, find_out, train_and_judge
from credo.experiments.threads import one_thread

ROWS = 400


def table() -> pd.DataFrame:
    """Numbers, a category, missing cells; y depends on x, on z and on colour."""
    rng = np.random.default_rng(0)
    x, z, noise = rng.normal(size=(3, ROWS))
    colour = rng.choice(["red", "green", "blue"], ROWS)
    y = 10.0 + 3.0 * x - z + 2.0 * (colour == "red") + 0.5 * noise
    x[:5] = np.nan
    return pd.DataFrame({"x": x, "z": z, "colour": colour, "y": y, "kind": np.where(y > 10.0, "high", "low")})


def fitted(folder: Path, target: str, drop: str, method: str = "ensemble") -> tuple[Found, Fitted]:
    path = folder / "table.csv"
    table().to_csv(path, index=False)
    found = find_out(Order(path, target, method, epochs=40, drop=(drop,)))
    with one_thread():
        return found, train_and_judge(found)


@pytest.fixture(scope="session")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    return fitted(tmp_path_factory.mktemp("numbers"), "y", "kind")[1]


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    return fitted(tmp_path_factory.mktemp("classes"), "kind", "y")[1]


@pytest.fixture(scope="session")
def single(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    """One network, without doubt of its own."""
    return fitted(tmp_path_factory.mktemp("single"), "y", "kind", "map")[1]


@pytest.fixture
def rows() -> pd.DataFrame:
    """Ordinary rows, without targets."""
    return table().drop(columns=["y", "kind"])
