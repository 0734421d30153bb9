"""Steps of a run: launched one by one, or on a GPU recorded once as CUDA graphs and replayed.

A step of a small network is a few hundred kernels of a few microseconds: launching them from Python takes far longer
than running them. A replay launches all of them at once. The numbers are the same: randomness, learning rate and batch
of every step are put in place before it is replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from credo.core.inputs import shape_key
from credo.core.rng import Stream
from credo.core.trees import flatten, map_tensors
from credo.methods.base import Info, Method, Tick
from credo.model import Batch, Target

WARM_UPS = 3
"""Steps that run before a recording, so that libraries have chosen their kernels and their memory."""
CHECKED = 2
"""Replays of each recording that are compared with the step launched one by one."""
TOLERANCE = 1e-3
"""Of a step's change, by which a replay may differ: kernels that add in any order differ by less."""

Launch = Callable[[], Info]
Generators = Mapping[tuple[str | int, ...], torch.Generator]
Recorder = Callable[[Launch, Launch, Generators, torch.device], Launch]
"""From a trial step, the step and the generators that it reads: the step as something to replay."""


def cuda_recorder(trial: Launch, step: Launch, generators: Generators, device: torch.device) -> Launch:
    """Record a step as a CUDA graph. Recording itself runs nothing."""
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            trial()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    for generator in generators.values():
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        info = step()

    def replay() -> Info:
        graph.replay()
        return info

    return replay


def recorder_for(device: torch.device) -> Recorder | None:
    """What can record steps on this device."""
    return cuda_recorder if device.type == "cuda" else None


@dataclass
class RecordedInputs:
    """What a recorded step asks for from outside: generators, by the rest of their path, and scheduled numbers."""

    rng: Stream
    device: torch.device
    generators: dict[tuple[str | int, ...], torch.Generator] = field(default_factory=dict)
    values: list[tuple[Callable[[Tick], float], Tensor]] = field(default_factory=list)
    asked: int = 0

    def lend(self, stream: Stream, device: torch.device) -> torch.Generator:
        rest = stream.path[len(self.rng.path) + 1 :]  # the name that is left out is the step's number
        if rest not in self.generators:
            self.generators[rest] = torch.Generator(device)
        return self.generators[rest]

    def scheduled(self, of: Callable[[Tick], float]) -> Tensor:
        if self.asked == len(self.values):
            self.values.append((of, torch.zeros((), device=self.device)))
        self.values[self.asked] = (of, self.values[self.asked][1])
        self.asked += 1
        return self.values[self.asked - 1][1]

    def tick(self, step: int, total: int) -> Tick:
        """A tick that asks here."""
        rng = Stream(self.rng.seed, (*self.rng.path, step), self.lend)
        return Tick(step, total, rng, self.scheduled)

    def set(self, step: int, total: int) -> None:
        """Put randomness and numbers of this step in place."""
        self.asked = 0
        plain = Tick(step, total, self.rng.child(step))
        for rest, generator in self.generators.items():
            plain.rng.child(*rest).restart(generator)
        for of, held in self.values:
            held.fill_(of(plain))


@dataclass
class _Recording:
    replay: Launch
    registry: RecordedInputs
    batch: Batch
    unchecked: int = CHECKED


class Steps:
    """The steps of a run, of which each has the child of the stream by its number; no recorder launches all of them."""

    def __init__(
        self, target: Target, method: Method, rng: Stream, total: int, recorder: Recorder | None = None
    ) -> None:
        self.target, self.method, self.rng, self.total, self.recorder = target, method, rng, total, recorder
        self.recordings: dict[tuple[Any, ...], _Recording] = {}
        self.notes: list[str] = []

    def __call__(self, state: Any, batch: Batch, step: int) -> tuple[Any, Info]:
        """The state after this step; the tensors of the old one are consumed."""
        if self.recorder is None:
            return self._launch(state, batch, step)
        try:
            recording = self._recording(self.recorder, state, batch, step)
        except RuntimeError as error:
            self._launch_from_now_on(f"they cannot be recorded ({error})")
            return self._launch(state, batch, step)
        if recording.unchecked:
            return self._checked(recording, state, batch, step)
        return state, self._replay(recording, batch, step)

    def _launch(self, state: Any, batch: Batch, step: int) -> tuple[Any, Info]:
        tick = Tick(step, self.total, self.rng.child(step))
        after, info = self.method.step(self.target, state, batch, tick)
        return after, info

    def _launch_from_now_on(self, why: str) -> None:
        self.recorder, self.recordings = None, {}
        self.notes.append(f"steps are launched one kernel at a time, since {why}")

    def _replay(self, recording: _Recording, batch: Batch, step: int) -> Info:
        """Do this step; the state changes in place."""
        static = flatten(recording.batch)
        for name, values in flatten(batch).items():
            static[name].copy_(values)
        recording.registry.set(step, self.total)
        return recording.replay()

    def _checked(self, recording: _Recording, state: Any, batch: Batch, step: int) -> tuple[Any, Info]:
        """This step by both ways. Where they differ, the result is that of the launched one."""
        before, launched = _copy(state), _copy(state)
        launched, launched_info = self._launch(launched, batch, step)
        info = self._replay(recording, batch, step)
        if not same_step(before, launched, state):
            self._launch_from_now_on(
                f"a recorded step of {type(self.method).__name__} does not repeat the steps: it may read tick.step in "
                "plain Python, where tick.scheduled(...) is needed"
            )
            return launched, launched_info
        recording.unchecked -= 1
        return state, info

    def _recording(self, recorder: Recorder, state: Any, batch: Batch, step: int) -> _Recording:
        """The recording for batches of this shape. Trials run on a copy of the state."""
        key = (batch.examples, shape_key(batch.x), batch.factor, batch.weight is None)
        if key not in self.recordings:
            device = batch.x.device
            static = map_tensors(lambda _, t: t.clone(), batch)
            registry, copied = RecordedInputs(self.rng, device), _copy(state)
            # recorded far from this step, so that a number which does not follow the steps shows in the comparison
            far = 0 if 2 * step >= self.total else self.total - 1
            tick = registry.tick(far, self.total)

            def trial() -> Info:
                registry.set(far, self.total)
                return self._in_place(copied, static, tick)

            def recorded() -> Info:
                registry.asked = 0
                return self._in_place(state, static, tick)

            trial()  # it asks for its generators and numbers
            registry.set(far, self.total)
            self.recordings[key] = _Recording(recorder(trial, recorded, registry.generators, device), registry, static)
        return self.recordings[key]

    def _in_place(self, state: Any, batch: Batch, tick: Tick) -> Info:
        """One step whose result lies in the tensors of the old state, whatever tensors the method returned."""
        after, info = self.method.step(self.target, state, batch, tick)
        new = flatten(after)
        for name, old in flatten(state).items():
            if new[name] is not old:
                old.copy_(new[name])
        return info


def _copy(state: Any) -> Any:
    return map_tensors(lambda _, t: t.clone(), state)


def same_step(before: Any, launched: Any, replayed: Any) -> bool:
    """Whether two ways of a step led to the same state, up to a small part of what the step changed."""
    old, new, found = flatten(before), flatten(launched), flatten(replayed)
    return all(_same(old[name], new[name], found[name]) for name in new)


def _same(old: Tensor, new: Tensor, found: Tensor) -> bool:
    if not new.is_floating_point():
        return torch.equal(new, found)
    old, right, other = (t.double().nan_to_num() for t in (old, new, found))
    rounding = 4.0 * torch.finfo(new.dtype).eps * right.norm()
    return bool((other - right).norm() <= TOLERANCE * (right - old).norm() + rounding)
