"""Randomness as a value: every stream derives from one seed by name."""

from __future__ import annotations

import hashlib
import operator
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

_CPU_STATE = torch.Generator().get_state()
_TWISTER = slice(24, 24 + 8 * 624)
"""Where the serialized state of torch's CPU generator keeps the 624 words of its Mersenne twister."""


GLOBAL_GENERATOR = threading.RLock()
"""Held by whoever touches torch's global generator, so that runs in several threads do not meet there."""

Lender = Callable[["Stream", torch.device], torch.Generator]


@dataclass(frozen=True)
class Stream:
    """A named source of randomness, derived from a seed and a path of names.

    A stream has no state: asking it twice gives the same numbers, and a child is unrelated to its parent and to its
    siblings. So a run that resumes at step 1000 asks for the noise of step 1000 and needs no saved generator.

    Examples:
        >>> rng = Stream(seed=0).child("noise")
        >>> bool((rng.child(7).normal(3) == rng.child(7).normal(3)).all())
        True
        >>> bool((rng.child(7).normal(3) == rng.child(8).normal(3)).any())
        False
    """

    seed: int
    path: tuple[str | int, ...] = ()
    lender: Lender | None = field(default=None, compare=False, repr=False)
    """Gives this stream and its children their generators instead, where these must outlive the call (CUDA graphs)."""

    def child(self, *names: str | int) -> Stream:
        """The stream one or more names further down."""
        return Stream(self.seed, (*self.path, *names), self.lender)

    def key(self) -> int:
        """A 64-bit number that stands for this stream."""
        return int.from_bytes(hashlib.blake2b(self._text(), digest_size=8).digest(), "little", signed=True)

    def _text(self) -> bytes:
        # numbers of numpy and torch read like Python's own
        names = tuple(name if isinstance(name, str) else operator.index(name) for name in self.path)
        return repr((operator.index(self.seed), names)).encode()

    def generator(self, device: torch.device | str = "cpu") -> torch.Generator:
        """A fresh torch generator at the beginning of this stream."""
        if self.lender is not None:
            return self.lender(self, torch.device(device))
        return self.restart(torch.Generator(device))

    def restart(self, generator: torch.Generator) -> torch.Generator:
        """Put a generator at the beginning of this stream."""
        if generator.device.type != "cpu":
            return generator.manual_seed(self.key())
        return generator.set_state(self._cpu_state())

    def _cpu_state(self) -> Tensor:
        # the CPU generator reads 32 bits of a seed, so that two of some 80,000 streams would be the same: the name
        # fills its whole state instead
        words = bytearray(hashlib.shake_128(self._text()).digest(4 * 624))
        state = _CPU_STATE.clone()
        state[_TWISTER].view(torch.int64).copy_(torch.frombuffer(words, dtype=torch.uint32))
        return state

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
    def borrowed_global(self, device: torch.device | str = "cpu") -> Iterator[None]:
        """Lend this stream to code that reads torch's global generator, and give that back as it was.

        The initializers of torch's own layers take no generator, nor does dropout inside fused attention; only here are
        global ones touched at all: the CPU's, and that of the device. Threads that draw from them meanwhile, by code
        that is not credo's, disturb each other.
        """
        with GLOBAL_GENERATOR:
            held = [torch.default_generator, *_gpu_generator(torch.device(device))]
            before = [generator.get_state() for generator in held]
            for generator in held:
                self.restart(generator)
            try:
                yield
            finally:
                for generator, state in zip(held, before, strict=True):
                    generator.set_state(state)


def _gpu_generator(device: torch.device) -> list[torch.Generator]:
    if device.type != "cuda":
        return []
    torch.cuda.init()  # type: ignore[no-untyped-call]
    return [torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]]
