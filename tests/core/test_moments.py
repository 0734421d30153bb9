"""ColumnMoments of rows, whole or part by part, against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
import torch
from torch import Tensor

from credo import Stream
from credo.core import moments
from credo.core.moments import ColumnMoments

CLOCK = 1_700_000_000_000_000_000.0
N = 60


def columns(dtype: torch.dtype = torch.float64) -> Tensor:
    z = Stream(0, ("moments",)).normal(N, 5, dtype=torch.float64)
    scale = torch.tensor([1.0, 1e9, 1e-12, 1e30, 0.0], dtype=torch.float64)
    return (z * scale + torch.tensor([5.0, CLOCK, 1.0, -1e30, 0.1], dtype=torch.float64)).to(dtype)


def exact(column: Tensor) -> tuple[float, float]:
    cells = [Fraction(float(cell)) for cell in column]
    mean = sum(cells) / len(cells)
    variance = sum((cell - mean) ** 2 for cell in cells) / len(cells)
    unit = Fraction(2) ** (variance.numerator.bit_length() // 2 - variance.denominator.bit_length() // 2)
    return float(mean), float(variance / unit**2) ** 0.5 * float(unit)


@pytest.mark.parametrize("cuts", [[N], [1, N - 1], [20, 20, 20], [7] * 8 + [4]], ids=str)
def test_parts_in_any_order_give_the_whole(cuts: list[int]) -> None:
    x = columns()
    parts = [ColumnMoments.of(part) for part in torch.split(x, cuts)]
    for found in (reduce(ColumnMoments.joined, parts), reduce(ColumnMoments.joined, reversed(parts))):
        assert found.count == N
        for i in range(4):
            mean, spread = exact(x[:, i])
            assert float(found.mean[i]) == pytest.approx(mean, rel=1e-15)
            assert float(found.spread[i]) == pytest.approx(spread, rel=1e-7)  # the clock's mean is rounded to 128 ns
        assert torch.equal(found.lowest, x.amin(0))
        assert torch.equal(found.highest, x.amax(0))
        assert found.constant.tolist() == [False, False, False, False, True]
        assert float(found.scale[4]) == 1.0


def test_a_mean_of_parts_that_forgets_their_sizes_is_another() -> None:
    x = columns()
    parts = [ColumnMoments.of(part) for part in torch.split(x, [1, N - 1])]
    assert float(torch.stack([part.mean[0] for part in parts]).mean()) != pytest.approx(float(x[:, 0].mean()), rel=1e-3)


def test_many_rows_are_looked_at_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    x, whole = columns(), ColumnMoments.of(columns())
    monkeypatch.setattr(moments, "ENTRIES", 35)
    found = ColumnMoments.of(x)
    torch.testing.assert_close(found.mean, whole.mean, rtol=1e-15, atol=0.0)
    torch.testing.assert_close(found.spread, whole.spread, rtol=1e-7, atol=1e-16)  # rounded means, as above


def test_rounding_is_that_of_the_type_the_numbers_came_in() -> None:
    """A tenth written in two ways: the same in float32, and a spread of 1e-9 in float64."""
    x = torch.tensor([[0.1], [0.1 + 7e-9], [0.1 - 7e-9]], dtype=torch.float64)
    assert not bool(ColumnMoments.of(x).constant)
    assert bool(ColumnMoments.of(x.float()).constant)
    steps = torch.tensor([[1e6], [1e6 + 0.0625]])  # one unit in the last place of float32
    assert bool(ColumnMoments.of(steps).constant)
    assert not bool(ColumnMoments.of(steps.double()).constant)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.float16, torch.bfloat16])
def test_numbers_of_any_type(dtype: torch.dtype) -> None:
    x = torch.tensor([[0.0], [1.0], [1.0], [1.0]]).to(dtype)
    found = ColumnMoments.of(x)
    assert float(found.mean) == 0.75
    assert float(found.scale) == pytest.approx(np.std([0.0, 1.0, 1.0, 1.0]), rel=1e-12)


def test_the_farthest_value_in_standard_deviations() -> None:
    x = torch.zeros(10_001, 1, dtype=torch.float64)
    x[17] = -1e9
    assert float(ColumnMoments.of(x).farthest) == pytest.approx(100.0, rel=1e-6)  # sqrt(N - 1), the most there can be
    assert float(ColumnMoments.of(torch.full((5, 1), 3.0)).farthest) == 0.0
    assert float(
        ColumnMoments.of(torch.tensor([[1.7e308], [-1.7e308]], dtype=torch.float64)).farthest
    ) == pytest.approx(1.0)
