"""Whether a row lies within what was learned from."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from credo.uncertainty import Support

NO_NOVELTY = torch.zeros(400)


def support_of(x: torch.Tensor, apart: torch.Tensor | None = None, seed: int = 0) -> Support:
    rows, numeric = torch.arange(len(x)), torch.ones(x.shape[1], dtype=torch.bool)
    scale = torch.ones(x.shape[1], dtype=torch.float64)
    return Support.of(x, numeric, scale, rows, apart, torch.zeros(len(x)), seed=seed)


def usual(rows: int, seed: int) -> torch.Tensor:
    """Two numbers that go together, of which each alone says little."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(rows, 1, generator=generator)
    return torch.cat([first, first + 0.1 * torch.randn(rows, 1, generator=generator)], 1)


def alarms(support: Support, x: torch.Tensor, apart: float = 0.0) -> float:
    score = support.score(x, torch.full((len(x),), apart), torch.zeros(len(x)))
    return float((score > 1.0).double().mean())


def test_one_ordinary_row_in_a_hundred_rings():
    """Of 400 rows the threshold is the fourth largest: the rate of one support is 1 % +- 0.5 %, the mean of twenty has
    an error of 0.11 %, and 0.6 % is allowed. The twin looks at training rows beside themselves, and always rings."""
    rates, twins = [], []
    for seed in range(20):
        x, new = usual(400, seed), usual(1000, 100 + seed)
        support = support_of(x)
        rates.append(alarms(support, new))
        itself = support._distance(x.double(), torch.full((400,), -1)).amax().clamp_min(1e-9)
        twins.append(
            alarms(replace(support, units=torch.full((4,), 1.0) * itself.double(), threshold=torch.ones(())), new)
        )
    assert abs(sum(rates) / 20 - 0.01) < 0.006
    assert not abs(sum(twins) / 20 - 0.01) < 0.006


def test_each_part_finds_what_it_is_for():
    x = usual(400, 0)
    apart = torch.rand(400, generator=torch.Generator().manual_seed(1)).double()
    support = support_of(x, apart)
    against = torch.tensor([[2.0, -2.0]])  # each number is usual, and together they are not
    beyond = torch.cat([x.amax(0, keepdim=True) + 3.0 * x.std(0)])
    middle = x[:1]
    assert alarms(support, against, 0.5) == alarms(support, beyond, 0.5) == 1.0
    assert alarms(support, middle, 0.5) == 0.0
    assert alarms(support, middle, 2.0) == 1.0
    assert float(support.score(middle, torch.zeros(1), torch.tensor([9.0]))) > 1.0
    assert alarms(support, torch.full((1, 2), 1e6)) == 1.0


def test_distances_are_to_the_nearest_known_row_but_the_own_one():
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0], [6.0, 8.0]] * 10).unique(dim=0)
    support = support_of(x.double())
    everybody = torch.arange(3)
    assert support._distance(x.double(), everybody).tolist() == [5.0, 5.0, 5.0]
    assert support._distance(x.double(), torch.full((3,), -1)).tolist() == [0.0, 0.0, 0.0]


def test_a_large_table_keeps_some_rows_and_is_judged_by_others(monkeypatch):
    monkeypatch.setattr("credo.uncertainty.support.KNOWN", 100)
    x = usual(1500, 0)
    support = support_of(x)
    assert (len(support.known), int(support.judged)) == (100, 1400)
    assert 0.0 < alarms(support, usual(2000, 7)) < 0.03
    assert torch.equal(support.known, support_of(x).known)
    assert not torch.equal(support.known, support_of(x, seed=1).known)


def test_networks_that_say_nothing_have_no_say():
    """A single network never disagrees, and rows that all come twice have no distance."""
    x = usual(50, 0).repeat(2, 1)
    support = support_of(x, torch.zeros(100))
    assert support.units[:2].isinf().all()
    assert alarms(support, x, apart=5.0) == 0.0
    assert alarms(support, torch.full((1, 2), 50.0)) == 1.0


def test_tensors_that_do_not_belong_together_are_refused():
    support = support_of(usual(40, 0))
    with pytest.raises(ValueError, match="shapes"):
        replace(support, scale=torch.ones(3))
    with pytest.raises(ValueError, match="above zero"):
        replace(support, threshold=torch.zeros(()))
