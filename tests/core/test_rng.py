"""Streams: the same name gives the same numbers, other names unrelated ones, and the global generator is left alone.

Statistical assertions here have an error rate of 1e-6 each, and the seeds are fixed.
"""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from credo.core import rng
from credo.core.rng import Stream

ERROR_RATE = 1e-6


def test_the_same_name_gives_the_same_numbers():
    one, two = Stream(3, ("a",)).child(7, "b"), Stream(3).child("a").child(7).child("b")
    assert torch.equal(one.normal(5), two.normal(5))
    assert torch.equal(one.normal(5), one.normal(5))
    assert torch.equal(one.permutation(50), two.permutation(50))
    assert torch.equal(torch.rand(4, generator=one.generator()), torch.rand(4, generator=two.generator()))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (Stream(0), Stream(1)),
        (Stream(0, ("ab",)), Stream(0, ("a", "b"))),
        (Stream(0, (1,)), Stream(0, ("1",))),
        (Stream(0, (12,)), Stream(0, (1, 2))),
        (Stream(0, (1,)), Stream(1)),
        (Stream(0), Stream(0, ("",))),
        (Stream(0, ("a', 'b",)), Stream(0, ("a", "b"))),
        (Stream(2**32), Stream(0)),
        (Stream(-1), Stream(1)),
    ],
)
def test_names_are_not_confused(one, two):
    assert one.key() != two.key()
    assert not bool((one.normal(8) == two.normal(8)).any())


def test_whole_numbers_of_any_kind_are_the_same_seed():
    expected = Stream(5, ("m", 2)).normal(4)
    assert torch.equal(Stream(np.int64(5), ("m", np.int32(2))).normal(4), expected)
    assert torch.equal(Stream(torch.tensor(5), ("m", torch.tensor(2))).normal(4), expected)
    with pytest.raises(TypeError):
        Stream(0.5).normal(1)


def test_the_global_generator_is_neither_read_nor_touched():
    torch.manual_seed(1)
    first, state = Stream(0).normal(4), torch.get_rng_state()
    Stream(0).permutation(9)
    Stream(0).normal_like({"w": torch.zeros(2)})
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert torch.equal(Stream(0).normal(4), first)


def test_the_borrowed_generator_is_given_back_even_after_an_error():
    torch.manual_seed(1)
    state = torch.get_rng_state()
    with Stream(4).borrowed_global():
        inside = torch.randn(3)
    assert torch.equal(inside, Stream(4).normal(3))
    with pytest.raises(RuntimeError), Stream(4).borrowed_global():
        torch.randn(7) @ torch.randn(8)
    assert torch.equal(torch.get_rng_state(), state)


def test_normal_like_follows_shapes_and_types():
    tree = {"a": torch.zeros(2, 3, dtype=torch.float64), "b": torch.zeros(()), "c": torch.zeros(0, 4)}
    drawn = Stream(0).normal_like(tree)
    assert {name: (t.shape, t.dtype) for name, t in drawn.items()} == {n: (t.shape, t.dtype) for n, t in tree.items()}
    assert Stream(0).normal_like({}) == {}
    assert sorted(Stream(0).permutation(10).tolist()) == list(range(10))


def test_the_words_of_the_twister_lie_where_we_write_them():
    """Matsumoto and Nishimura's own initializer, written into the state, gives what `manual_seed` gives."""
    words = [123]
    for i in range(1, 624):
        words.append((1812433253 * (words[-1] ^ (words[-1] >> 30)) + i) % 2**32)
    state = rng._CPU_STATE.clone()
    state[rng._TWISTER].view(torch.int64).copy_(torch.tensor(words))
    generator = torch.Generator()
    generator.set_state(state)
    assert torch.equal(torch.rand(2000, generator=generator), torch.rand(2000, generator=_seeded(123)))


def test_streams_whose_seeds_agree_in_32_bits_are_different():
    """torch's CPU generator reads 32 bits: seeding it with the key (the twin) gives two steps the same noise."""
    seen: dict[int, int] = {}
    for step in range(400_000):
        low = Stream(0, ("noise", step)).key() % 2**32
        if low in seen:
            break
        seen[low] = step
    one, two = Stream(0, ("noise", seen[low])), Stream(0, ("noise", step))
    assert one.key() != two.key()
    assert torch.equal(torch.randn(9, generator=_seeded(one.key())), torch.randn(9, generator=_seeded(two.key())))
    assert not bool((one.normal(9) == two.normal(9)).any())


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def largest_correlation_is_by_chance(x: Tensor) -> bool:
    """Whether the largest correlation between rows is what unrelated normal rows would have."""
    rows, count = x.shape
    standard = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)
    correlations = (standard @ standard.T / count)[tuple(torch.triu_indices(rows, rows, 1))]
    pairs = rows * (rows - 1) / 2
    limit = stats.t.isf(ERROR_RATE / (2 * pairs), count - 2)
    return bool(correlations.abs().max() < limit / (count - 2 + limit**2) ** 0.5)


def average_correlation_is_by_chance(x: Tensor) -> bool:
    """Whether the mean square of all correlations is 1 / count, by a normal approximation over the pairs."""
    rows, count = x.shape
    standard = x / x.norm(dim=1, keepdim=True)
    squares = (standard @ standard.T)[tuple(torch.triu_indices(rows, rows, 1))].square() * count
    z = (squares.mean() - 1.0) / (2.0 / len(squares)) ** 0.5
    return abs(float(z)) < stats.norm.isf(ERROR_RATE / 2)


def noise(rows: int, count: int) -> Tensor:
    """Streams by several kinds of names, of several seeds."""
    names = [(seed, path) for seed in range(5) for path in _paths(rows // 5)]
    return torch.stack([Stream(seed, path).normal(count, dtype=torch.float64) for seed, path in names])


def _paths(count: int) -> list[tuple[str | int, ...]]:
    steps = [("noise", k) for k in range(count // 2)]
    return [*steps, *(("noise", k, "dropout") for k in range(count - len(steps)))]


def test_streams_are_uncorrelated():
    x = noise(1000, 400)
    assert largest_correlation_is_by_chance(x)
    assert average_correlation_is_by_chance(x)


def test_streams_are_no_shifted_copies_of_each_other():
    x = noise(1000, 400)
    for lag in (1, 2, 16, 100):
        assert largest_correlation_is_by_chance(torch.cat([x[:500, lag:], x[500:, :-lag]]))


def test_related_streams_are_noticed():
    """Broken twins: one seed for two streams, a shifted copy, and a faint common part in all of them."""
    x = noise(1000, 400)
    shared = x.clone()
    shared[-1] = shared[0]
    assert not largest_correlation_is_by_chance(shared)
    shifted = x.clone()
    shifted[-1, :-16] = shifted[0, 16:]
    assert not largest_correlation_is_by_chance(torch.cat([shifted[:500, 16:], shifted[500:, :-16]]))
    assert not average_correlation_is_by_chance(x + 0.25 * Stream(9).normal(400, dtype=torch.float64))


def test_first_numbers_of_many_streams_follow_the_law():
    first = torch.stack([Stream(0, ("noise", k)).normal(2, dtype=torch.float64) for k in range(4000)])
    for column in first.T:
        assert stats.kstest(column.numpy(), "norm").pvalue > ERROR_RATE
    assert stats.kstest((first[:, 0] + 0.15).numpy(), "norm").pvalue < ERROR_RATE
