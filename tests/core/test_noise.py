"""Standard normal numbers in many shapes at once."""

from __future__ import annotations

import pytest
import torch
from scipy import stats

import credo
from credo.core.noise import BLOCK, standard_normal

ERROR_RATE = 1e-6


@pytest.mark.parametrize("size", [10, BLOCK + 1, 4 * BLOCK + 3])
def test_noise_is_standard_normal_and_the_same_on_any_number_of_threads(size: int) -> None:
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(standard_normal({"a": (size,)}, torch.empty(0), credo.Stream(1))["a"])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)
    assert stats.kstest(found[0].double().numpy(), stats.norm.cdf).pvalue > ERROR_RATE
    assert len(found[0].unique()) > 0.9 * size  # blocks of one stream would give every number several times
    if size > 1000:
        assert stats.kstest(1.1 * found[0].double().numpy(), stats.norm.cdf).pvalue < ERROR_RATE  # the twin


def test_every_shape_gets_numbers_of_its_own() -> None:
    found = standard_normal({"a": (2, 3), "b": (), "c": (3, 2)}, torch.zeros(1, dtype=torch.float64), credo.Stream(1))
    assert {name: tuple(t.shape) for name, t in found.items()} == {"a": (2, 3), "b": (), "c": (3, 2)}
    assert {t.dtype for t in found.values()} == {torch.float64}
    assert len(torch.cat([t.flatten() for t in found.values()]).unique()) == 13
    assert standard_normal({}, torch.zeros(1), credo.Stream(1)) == {}
