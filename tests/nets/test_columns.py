"""The first layer of a table's network: against its formula, beside other layers, and as a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import credo
from credo import likelihoods, nets
from credo.nets import MLP, ColumnScales, Pieces, TableColumns
from credo.nets.network import Network

ROWS = np.random.default_rng(0).normal(size=(400, 3))
ROWS[:, 1] = np.exp(2.0 * ROWS[:, 1])
ROWS[:, 2] = ROWS[:, 2] > 0.3
X = torch.tensor(ROWS, dtype=torch.float32)


def by_hand(x: np.ndarray, scales: ColumnScales) -> np.ndarray:
    """The formula, one number at a time."""
    rows = []
    for row in x:
        plain = [
            v if s == 0.0 else 3.0 * np.arcsinh((v - c) / (3.0 * s))
            for v, c, s in zip(row, scales.center, scales.scale, strict=True)
        ]
        pieces = []
        for p in scales.pieces:
            for start, end, offset in zip(p.knots[:-1], p.knots[1:], p.offsets, strict=True):
                share = (row[p.column] - start) / (end - start)
                pieces.append(p.gain * (min(max(share, 0.0), 1.0) - offset))
        rows.append([*plain, *pieces])
    return np.array(rows)


@pytest.mark.parametrize("knots", [0, 5])
def test_the_formula(knots: int) -> None:
    scales = ColumnScales.of(ROWS, knots)
    layer = TableColumns(scales)
    found = layer(torch.tensor(ROWS[:20]))
    assert found.shape == (20, layer.features) == (20, 3 + 2 * knots)
    np.testing.assert_allclose(found, by_hand(ROWS[:20], scales), rtol=1e-12, atol=1e-12)
    broken = by_hand(ROWS[:20], ColumnScales(scales.center, tuple(2.0 * s for s in scales.scale), scales.pieces))
    assert not np.allclose(found, broken)


def test_numbers_are_scaled_by_medians_and_flags_are_left_alone() -> None:
    scales = ColumnScales.of(ROWS)
    assert scales.center[2] == scales.scale[2] == 0.0
    np.testing.assert_allclose(scales.center[:2], np.median(ROWS[:, :2], axis=0), atol=0.1)
    np.testing.assert_allclose(scales.scale[0], 1.0, atol=0.15)  # of 400 normal numbers
    wild = ROWS.copy()
    wild[0, 0] = 1e9
    assert abs(ColumnScales.of(wild).scale[0] - scales.scale[0]) < 0.05  # of one outlier among 400 rows
    mostly = np.r_[np.zeros(90), np.arange(1.0, 11.0)][:, None]
    np.testing.assert_allclose(ColumnScales.of(mostly).scale, np.sqrt(np.mean(mostly**2)))  # the quartiles are one


def test_pieces_together_have_a_standard_deviation_of_one() -> None:
    scales = ColumnScales.of(ROWS, 6)
    found = TableColumns(scales)(torch.tensor(ROWS))[:, 3:].numpy()
    for part in (found[:, :6], found[:, 6:]):
        np.testing.assert_allclose(part.mean(0), np.zeros(6), atol=1e-12)
        np.testing.assert_allclose(part.var(0).sum(), 1.0)


def test_a_linear_layer_on_pieces_is_any_function_that_is_linear_between_the_knots() -> None:
    scales = ColumnScales.of(ROWS[:, :1], 8)
    knots = np.array(scales.pieces[0].knots)
    heights = np.sin(3.0 * knots)
    x = np.linspace(knots[0], knots[-1], 200)
    features = TableColumns(scales)(torch.tensor(x[:, None]))[:, 1:].numpy()
    wanted = np.interp(x, knots, heights)
    design = np.c_[features, np.ones(len(x))]
    fitted = design @ np.linalg.lstsq(design, wanted, rcond=None)[0]
    np.testing.assert_allclose(fitted, wanted, atol=1e-9)
    twin = np.c_[x, np.ones(len(x))]  # without pieces there is one slope
    assert np.abs(twin @ np.linalg.lstsq(twin, wanted, rcond=None)[0] - wanted).max() > 0.5


def test_a_weight_of_two_is_a_row_that_comes_twice() -> None:
    weights = np.where(np.arange(400) % 3 == 0, 2.0, 1.0)
    twice = ColumnScales.of(np.repeat(ROWS, weights.astype(int), axis=0), 5)
    weighed = ColumnScales.of(ROWS, 5, weights)
    np.testing.assert_allclose([weighed.center, weighed.scale], [twice.center, twice.scale])
    for one, other in zip(weighed.pieces, twice.pieces, strict=True):
        assert one.knots == other.knots
        np.testing.assert_allclose([*one.offsets, one.gain], [*other.offsets, other.gain])
    assert ColumnScales.of(ROWS, 5) != weighed


def test_far_rows_stay_apart() -> None:
    layer = TableColumns(ColumnScales.of(ROWS, 4))
    near, far, farther = layer(torch.tensor([[3.0, 1.0, 0.0], [1e3, 1.0, 0.0], [1e6, 1.0, 0.0]]))[:, 0]
    assert near < far < farther < 50.0


def test_members_together_are_members_one_by_one() -> None:
    """The stack of dense layers is taken, and gives what torch gives by itself."""
    net = MLP(3, 2, (8, 8), "silu", columns=ColumnScales.of(ROWS, 4))
    network = Network(net)
    variables = network.initial(3, credo.Stream(0))
    assert network.dense(variables, X) is not None
    together = network.evaluate(variables, X)
    for member in range(3):
        alone = network.evaluate(variables.take([member]), X)[0]
        torch.testing.assert_close(together[member], alone, rtol=1e-5, atol=1e-5)  # float32, other sums
    per_member = network.evaluate(variables, X.expand(3, *X.shape), x_per_member=True)
    torch.testing.assert_close(per_member, together)
    precise = MLP(3, 2, (8, 8), "silu", columns=ColumnScales.of(ROWS, 4)).double()
    assert precise(X.double()).dtype is torch.float64


@pytest.mark.parametrize(
    "method",
    [
        credo.DeepEnsemble(members=2, epochs=2),
        credo.BayesByBackprop(epochs=2, estimator="local"),
        credo.MCDropout(epochs=2),
        credo.Laplace(after=credo.MAP(epochs=2)),
    ],
    ids=lambda method: type(method).__name__,
)
def test_every_kind_of_method_takes_it_and_comes_back_from_a_file(method: credo.Method, tmp_path: Path) -> None:
    dropout = 0.2 if isinstance(method, credo.MCDropout) else 0.0
    net = MLP(3, 1, (8,), "tanh", dropout, ColumnScales.of(ROWS, 4))
    model = credo.Model(net, likelihoods.Gaussian(0.5), credo.priors.Normal(1.0))
    posterior = credo.fit(model, (X, X[:, :1].sin()), method, progress=False)
    posterior.save(tmp_path)
    found = credo.load(tmp_path)
    assert torch.equal(posterior.predict(X[:9]).mean, found.predict(X[:9]).mean)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="rising knots"):
        Pieces(0, (0.0, 0.0), (0.0,), 1.0)
    with pytest.raises(ValueError, match="rising knots"):
        Pieces(0, (0.0, 1.0), (0.0, 1.0), 1.0)
    with pytest.raises(ValueError, match="describes 3 columns, and there are 4 inputs"):
        nets.MLP(4, 1, columns=ColumnScales.of(ROWS))
    assert TableColumns(ColumnScales.of(np.ones((5, 1)), 4))(torch.ones(2, 1)).tolist() == [[1.0], [1.0]]
