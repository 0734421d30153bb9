"""What the network of a table is made of: the kinds of targets that scikit-learn users have, each with its own noise.

Each choice is made from 400 rows; the gains are many standard errors, so the seeds do not decide.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from credo.likelihoods import Categorical, LogNormal, NegativeBinomial, Standardized
from credo.tabular import choosing
from credo.tabular.choosing import DesignSearch, Noise, TableRows, candidates, skewness
from credo.tabular.recipes import Settings, TableNet

ROWS = 400
SETTINGS = Settings(epochs=60, learning_rate=0.01)
NET = TableNet(2, (16,))
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(ROWS, 2))
TARGETS = {
    Noise.NORMAL: X[:, 0] + 0.3 * GENERATOR.normal(size=ROWS),
    Noise.LOG_NORMAL: np.exp(3.0 + X[:, 0] + 0.5 * GENERATOR.normal(size=ROWS)),
    Noise.COUNTS: GENERATOR.poisson(np.exp(1.5 + 0.6 * X[:, 0])).astype(float),
}


def search(y: np.ndarray, x: np.ndarray = X, **options: object) -> DesignSearch:
    return DesignSearch(
        TableRows(torch.tensor(x, dtype=torch.float32), torch.tensor(y).unsqueeze(1)), SETTINGS, **options
    )


@pytest.mark.parametrize("noise", [Noise.NORMAL, Noise.LOG_NORMAL])
def test_the_noise_that_made_the_targets_is_chosen(noise: Noise) -> None:
    design = search(TARGETS[noise]).choose(NET)
    assert design.noise is noise
    if noise is not Noise.NORMAL:
        assert design.notes[-1].startswith(f"noise: {noise.words}, better than normal noise by")


def test_steps_need_pieces() -> None:
    y = np.sign(np.sin(6.0 * X[:, 0])) + 0.05 * GENERATOR.normal(size=ROWS)
    made = search(y).choose(NET)
    assert made.net.in_pieces
    assert "numbers enter in pieces between quantiles, which is better by" in made.notes[0]


def test_classes_have_no_noise_to_choose_and_flags_no_pieces() -> None:
    x = torch.tensor(X > 0.0, dtype=torch.float32)
    design = DesignSearch(TableRows(x, x[:, 0].long()), SETTINGS).choose(NET, Categorical())
    assert (design.noise, design.net, design.notes) == (None, NET, ())


def test_few_rows_or_steps_choose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "out_of_fold_scores", None)  # to be called is an error
    few, short = search(TARGETS[Noise.COUNTS][:99], X[:99]), search(TARGETS[Noise.COUNTS])
    short = DesignSearch(short.rows, Settings(epochs=5))
    for each in (few, short):
        assert (each.choose(NET).noise, each.choose(NET).notes) == (Noise.NORMAL, ())
    grouped = TableRows(short.rows.x, short.rows.y, None, np.arange(ROWS) % 7)
    assert DesignSearch(grouped, SETTINGS).choose(NET).notes == ()


def test_candidates() -> None:
    normal = [Noise.NORMAL]
    column = np.array([0.0, 1.0, 2.0, 50.0])[:, None]
    assert candidates(column - 0.5) == tuple(normal)
    assert candidates(column) == tuple(normal)  # zero has no logarithm
    assert candidates(column + 1.0) == (*normal, Noise.LOG_NORMAL)
    assert candidates(np.tile(column, 2)) == tuple(normal)
    assert skewness(np.ones(3)) == 0.0
    assert skewness(np.array([0.0, 0.0, 3.0])) == pytest.approx(1.0 / np.sqrt(2.0))


def test_likelihoods_are_in_the_units_of_the_targets() -> None:
    y = TARGETS[Noise.LOG_NORMAL][:, None]
    assert isinstance(Noise.NORMAL.likelihood(y), Standardized)
    assert Noise.NORMAL.likelihood(y).loc == pytest.approx((y.mean(),))
    logs = Noise.LOG_NORMAL.likelihood(y)
    assert isinstance(logs, LogNormal)
    assert (logs.loc, logs.scale) == pytest.approx((np.log(y).mean(), np.log(y).std()))
    counts = Noise.COUNTS.likelihood(np.array([[2.0], [4.0]]), np.array([3.0, 1.0]))
    assert isinstance(counts, NegativeBinomial)
    assert counts.offset == pytest.approx(np.log(2.5))


def test_a_gain_is_weighed_and_has_an_error() -> None:
    scores, others = torch.tensor([1.0, 3.0, 9.0]), torch.tensor([0.0, 1.0, float("nan")])
    gain, error = choosing._gain(scores, others, None)
    assert (gain, error) == pytest.approx((1.5, np.sqrt(0.125)))
    gain, _ = choosing._gain(scores, others, torch.tensor([3.0, 1.0, 5.0]))
    assert gain == pytest.approx(1.25)
    assert choosing._gain(torch.tensor([-torch.inf]), torch.zeros(1), None)[0] == -np.inf
