"""Randomness as a value: every stream derives from one seed by name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Stream:
    """A named source of randomness, derived from a seed and a path of names.

    A stream has no state: asking it twice gives the same numbers, and a child is unrelated to its parent and to its
    siblings. So a run that resumes at step 1000 asks for the noise of step 1000 and needs no saved generator.

    Example:
        >>> noise = Stream(seed=0).child("noise")
        >>> bool((noise.child(7).normal(3) == noise.child(7).normal(3)).all())
        True
        >>> bool((noise.child(7).normal(3) == noise.child(8).normal(3)).any())
        False
    """

    seed: int
    path: tuple[str | int, ...] = ()

    def child(self, *names: str | int) -> Stream:
        """The stream one or more names further down."""
        return Stream(self.seed, (*self.path, *names))

    def key(self) -> int:
        """A 64-bit number that stands for this stream."""
        text = repr((self.seed, self.path)).encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little", signed=True)

    def generator(self, device: torch.device | str = "cpu") -> torch.Generator:
        """A fresh torch generator at the beginning of this stream."""
        return torch.Generator(device).manual_seed(self.key())

    def normal(self, *shape: int, dtype: torch.dtype | None = None, device: torch.device | str = "cpu") -> Tensor:
        """Standard normal numbers."""
        return torch.randn(shape, generator=self.generator(device), dtype=dtype, device=device)

    def normal_like(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Standard normal numbers in the shapes of a tree of tensors."""
        if not tensors:
            return {}
        generator = self.generator(next(iter(tensors.values())).device)
        return {
            name: torch.randn(t.shape, generator=generator, dtype=t.dtype, device=t.device)
            for name, t in tensors.items()
        }

    def permutation(self, size: int, device: torch.device | str = "cpu") -> Tensor:
        """The numbers 0 .. size-1 in random order."""
        return torch.randperm(size, generator=self.generator(device), device=device)

    @contextmanager
    def borrowed_global(self) -> Iterator[None]:
        """Lend this stream to code that reads torch's global CPU generator, and give that back as it was.

        The initialisers of torch's own layers take no generator; only here is the global one touched at all.
        """
        before = torch.default_generator.get_state()
        torch.default_generator.manual_seed(self.key())
        try:
            yield
        finally:
            torch.default_generator.set_state(before)
