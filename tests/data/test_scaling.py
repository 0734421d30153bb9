"""Columns are centered before they are measured: spread is judged by the digits a number has, not by its size."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from credo.data.columns import DateColumn, NumericColumn
from credo.data.scaling import mean_and_scale

CLOCK = 1_700_000_000_000_000_000
"""A moment in nanoseconds; float64 numbers lie 256 apart there."""


def exact(values: list[int] | list[float]) -> tuple[float, float]:
    """Mean and standard deviation in rational arithmetic."""
    cells = [Fraction(value) for value in values]
    mean = sum(cells) / len(cells)
    variance = sum((cell - mean) ** 2 for cell in cells) / len(cells)
    unit = Fraction(2) ** (variance.numerator.bit_length() // 2 - variance.denominator.bit_length() // 2)
    return float(mean), float(variance / unit**2) ** 0.5 * float(unit)


VARYING = {
    "a clock in nanoseconds": [CLOCK + 1_000_000 * k for k in (0, 3, 1, 4, 1, 5, 9, 2, 6)],
    "years": [2019.0, 2020.0, 2021.0, 2022.0],
    "huge": [1e300, 2e300, -1e300],
    "the hugest": [1.7e308, -1.7e308, 1e308],
    "tiny": [1e-300, 2e-300, 5e-300],
    "one millionth of a millionth apart": [1.0, 1.0 + 1e-12, 1.0 + 3e-12],
    "far from zero, close together": [1e12, 1e12 + 0.01, 1e12 + 0.02],
}


@pytest.mark.parametrize("values", VARYING.values(), ids=VARYING.keys())
def test_mean_and_scale_are_those_of_exact_arithmetic(values: list[float]) -> None:
    mean, scale = mean_and_scale(np.asarray(values, dtype=np.float64))
    expected = exact([float(value) for value in values])
    assert float(mean) == pytest.approx(expected[0], rel=1e-15)
    assert float(scale) == pytest.approx(expected[1], rel=1e-12)


@pytest.mark.parametrize("values", VARYING.values(), ids=VARYING.keys())
def test_a_column_that_varies_is_standardized(values: list[float]) -> None:
    series = pd.Series(values, name="x")
    z = NumericColumn.fit(series, infinite=False).encode(series).values[:, 0]
    # a clock's mean is rounded to 128 ns, and its spread is milliseconds
    assert z.mean() == pytest.approx(0.0, abs=1e-4)
    assert z.std() == pytest.approx(1.0, rel=1e-9)


CONSTANT = {
    "zeros": [0.0, 0.0, 0.0],
    "tenths": [0.1] * 7,
    "rounding alone": [0.3, 0.1 + 0.2, 0.3],
    "a clock that stands still": [float(CLOCK)] * 3,
    "a clock and its rounding": [float(CLOCK), float(CLOCK) + 256.0, float(CLOCK)],
    "huge": [1.7e308] * 4,
    "tiny": [5e-324] * 4,
}


@pytest.mark.parametrize("values", CONSTANT.values(), ids=CONSTANT.keys())
def test_rounding_is_not_blown_up(values: list[float]) -> None:
    """Neither by a tiny scale, nor by a scale of one under numbers whose last digit is worth 256."""
    series = pd.Series(values, name="x")
    z = NumericColumn.fit(series, infinite=False).encode(series).values[:, 0]
    assert np.abs(z).max() <= 1.0


def test_a_constant_column_is_only_shifted() -> None:
    column = NumericColumn.fit(pd.Series([3.0, 3.0, 3.0], name="x"), infinite=False)
    assert column.encode(pd.Series([3.0, 5.0])).values[:, 0].tolist() == [0.0, 2.0]


@pytest.mark.parametrize("dtype", ["int64", "uint64", "Int64"])
def test_whole_numbers_beyond_those_of_float64_keep_all_digits(dtype: str) -> None:
    """2^60 + k is the same float64 for all k below 128."""
    series = pd.Series([2**60 + k for k in range(100)], name="x", dtype=dtype)
    column = NumericColumn.fit(series, infinite=False)
    z = column.encode(series).values[:, 0]
    expected = (np.arange(100) - 49.5) / np.arange(100).std()
    np.testing.assert_allclose(z, expected, rtol=1e-12)
    far = column.encode(pd.Series([-(2**62)], dtype="int64")).values[0, 0]
    assert far == pytest.approx((-(2.0**62) - 2.0**60 - 49.5) / np.arange(100).std(), rel=1e-12)
    missing = column.encode(pd.Series([2**60 + 7, None], dtype="Int64"))
    assert missing.values[0, 0] == pytest.approx(expected[7], rel=1e-12)
    assert missing.absent.tolist() == [False, True]


def test_a_few_seconds_are_a_date_column_too() -> None:
    moments = pd.Series(
        pd.to_datetime("2024-05-01 12:00:00") + pd.to_timedelta([0, 250, 500, 900], unit="ms"), name="t"
    )
    z = DateColumn.fit(moments, "native").encode(moments).values[:, 0]
    assert z.std() == pytest.approx(1.0, rel=1e-4)  # a day in float64 has a resolution of a third of a microsecond
    assert np.all(np.diff(z) > 0)


def test_columns_of_a_matrix_are_measured_one_by_one() -> None:
    rows = np.array([[1.0, CLOCK, 5.0], [3.0, CLOCK + 4096.0, 5.0]])
    mean, scale = mean_and_scale(rows)
    assert mean.tolist() == [2.0, CLOCK + 2048.0, 5.0]
    assert scale.tolist() == [1.0, 2048.0, 1.0]
