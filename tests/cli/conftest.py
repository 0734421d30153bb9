"""Tables on disk, and runs of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from credo.cli.main import app

ROWS = 120


def plain_table() -> pd.DataFrame:
    """Two inputs, a number and a class that depend on them."""
    rng = np.random.default_rng(5)
    x, z, noise = rng.normal(size=(3, ROWS))
    y = 5.0 + 2.0 * x - z + 0.2 * noise
    return pd.DataFrame({"x": x, "z": z, "y": y, "kind": np.where(y > 5.0, "high", "low")})


def credo(*arguments: object) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def table() -> pd.DataFrame:
    return plain_table()


@pytest.fixture
def command() -> Callable[..., Result]:
    return credo


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the table and with a run for each kind of target."""
    folder = tmp_path_factory.mktemp("tables")
    plain_table().to_csv(folder / "table.csv", index=False)
    for target, drop in (("y", "kind"), ("kind", "y")):
        out = folder / f"{target}-run"
        done = credo("fit", folder / "table.csv", "-t", target, "--drop", drop, "--out", out, "--epochs", 30, "-q")
        assert done.exit_code == 0, done.output
    return folder
