"""Steps on a GPU, recorded once as CUDA graphs and replayed.

A step of a small network is a few hundred kernels of a few microseconds: launching them from Python takes far longer
than running them. A replay launches all of them at once. The numbers are the same: noise, learning rate and batch of
every step are put in place before it is replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import flatten, map_tensors
from credo.methods.base import Info, Method, State, Tick
from credo.model import Batch, Target

WARM_UPS = 3
"""Steps that run before a recording, so that libraries have chosen their kernels and their memory."""


@dataclass
class _Registry:
    """What a recorded step asks for from outside: generators, by the rest of their path, and changing numbers."""

    noise: Stream
    device: torch.device
    generators: dict[tuple[str | int, ...], torch.Generator] = field(default_factory=dict)
    values: list[tuple[Callable[[Tick], float], Tensor]] = field(default_factory=list)
    asked: int = 0

    def lend(self, stream: Stream, device: torch.device) -> torch.Generator:
        rest = stream.path[len(self.noise.path) + 1 :]  # the name that is left out is the step's number
        if rest not in self.generators:
            self.generators[rest] = torch.Generator(device)
        return self.generators[rest]

    def keep(self, of: Callable[[Tick], float]) -> Tensor:
        if self.asked == len(self.values):
            self.values.append((of, torch.zeros((), device=self.device)))
        self.values[self.asked] = (of, self.values[self.asked][1])
        self.asked += 1
        return self.values[self.asked - 1][1]

    def tick(self, step: int, total: int) -> Tick:
        """A tick that asks here."""
        self.asked = 0
        noise = Stream(self.noise.seed, (*self.noise.path, step), self.lend)
        return Tick(step, total, noise, self.keep)

    def set(self, step: int, total: int) -> None:
        """Put noise and numbers of this step in place."""
        plain = Tick(step, total, self.noise.child(step))
        for rest, generator in self.generators.items():
            generator.manual_seed(plain.noise.child(*rest).key())
        for of, held in self.values:
            held.fill_(of(plain))


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    registry: _Registry
    batch: Batch
    info: Info


class Replay:
    """Steps by replay, one recording for each shape of batch.

    Args:
        target: the density.
        method: whose steps they are.
        noise: the stream of the run's noise; the child with a step's number belongs to that step.
        total: number of steps of the run.
        state: its tensors are where every step reads and writes.
    """

    def __init__(self, target: Target, method: Method, noise: Stream, total: int, state: State) -> None:
        self.target, self.method, self.noise, self.total, self.state = target, method, noise, total, state
        self.recordings: dict[tuple[int, ...], _Recording] = {}

    def __call__(self, batch: Batch, step: int) -> Info:
        """Do this step; the state changes in place."""
        shape = tuple(batch.x.shape)
        recording = self.recordings.get(shape)
        if recording is None:
            recording = self.recordings[shape] = self._record(batch, step)
        recording.batch.x.copy_(batch.x)
        recording.batch.y.copy_(batch.y)
        recording.registry.set(step, self.total)
        recording.graph.replay()
        return recording.info

    def _record(self, batch: Batch, step: int) -> _Recording:
        """Record a step. Warm-ups run on a copy of the state; recording itself runs nothing."""
        device = batch.x.device
        static = Batch(batch.x.clone(), batch.y.clone(), batch.own)
        registry = _Registry(self.noise, device)
        trial = map_tensors(lambda _, t: t.clone(), self.state)
        side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                self._step(trial, static, registry.tick(step, self.total))
                registry.set(step, self.total)
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        for generator in registry.generators.values():
            graph.register_generator_state(generator)
        with torch.cuda.graph(graph):
            info = self._step(self.state, static, registry.tick(step, self.total))
        return _Recording(graph, registry, static, info)

    def _step(self, state: State, batch: Batch, tick: Tick) -> Info:
        """One step whose result lies in the tensors of the old state, whatever tensors the method returned."""
        after, info = self.method.step(self.target, state, batch, tick)
        new = flatten(after)
        for name, old in flatten(state).items():
            if new[name] is not old:
                old.copy_(new[name])
        return info
