"""What samplers share that follow the gradient of all the data."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_options
from credo.methods.base import Sampler, State, Tick
from credo.methods.mcmc.density import Density, refuse_running_statistics
from credo.model import Batch, Model, Target


@dataclass(frozen=True)
class WholeDataSampler(Sampler, ABC):
    """Chains as one tensor axis, a warm-up, and draws that are kept at even distances.

    Args:
        draws: kept states of each chain.
        warmup: iterations before the first one, in which the sampler is tuned.
        chains: C.
        thin: iterations from one kept state to the next.
    """

    draws: int = 1000
    warmup: int = 1000
    chains: int = 4
    thin: int = 1

    batch_size = None
    whole_data: ClassVar[bool] = True
    recordable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_options(self)
        for name in ("draws", "chains", "thin"):
            check_at_least(name, getattr(self, name), 1)
        check_at_least("warmup", self.warmup, 0)

    @property
    def members(self) -> int:
        return self.chains

    def steps(self, batches: int) -> int:
        return self.warmup + self.draws * self.thin

    def keeps(self, step: int, total: int) -> bool:
        return step >= self.warmup and (step - self.warmup + 1) % self.thin == 0

    def prepare(self, model: Model, x: Tensor) -> tuple[Model, tuple[str, ...]]:
        refuse_running_statistics(model, type(self).__name__)
        return model, ()

    def attempt(self, target: Target, state: State, batch: Batch, tick: Tick) -> None:
        """One gradient: a whole step may have a thousand of them."""
        variables = self.current(state)
        density = Density(target, batch, variables)
        with torch.no_grad():
            density.with_gradient(density.flat(variables.params))
