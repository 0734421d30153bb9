"""Whose units a model works in: those of the data, or its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from credo.core.config import decode
from credo.core.storage import find, read_json
from credo.core.trees import Variables
from credo.loop.batches import Source
from credo.loop.checkpoints import RUN, Checkpoint
from credo.loop.expected_scale import scale_warnings
from credo.loop.loaders import LoaderSource
from credo.loop.outliers import constant_notes, data_warnings
from credo.loop.standardizing import (
    Found,
    Standards,
    Wanted,
    measured,
    standards_from,
    standards_note,
    standards_of,
    target_standards,
    wanted,
)
from credo.model import Model
from credo.posteriors import Posterior
from credo.posteriors.loading import scaling_from
from credo.posteriors.writing import known_kinds


def saved_standards(checkpoint: str | Path | Checkpoint | None) -> Standards | None:
    """What the run in a checkpoint's folder is standardized by; None where there is none.

    A DataLoader with an order or noise of its own would give other means when it is read again.
    """
    if checkpoint is None:
        return None
    folder = Path(checkpoint.folder if isinstance(checkpoint, Checkpoint) else checkpoint)
    if find(folder, RUN) is None:
        return None
    try:
        model = read_json(folder, RUN)["identity"]["model"]
        likelihood = decode(model["likelihood"], known_kinds())
        return Standards(scaling_from(model), target_standards(likelihood))
    except (LookupError, TypeError, ValueError, AttributeError):
        return None  # of another kind: the comparison of the two runs says so


Load = Callable[[torch.dtype], Source]
"""Reads the data with real numbers of this precision."""


@dataclass(frozen=True)
class Units:
    """A model and its data, and whether the model may be standardized.

    Nothing is standardized where a person gave a likelihood or a prior, which are in units, or weights, which know
    theirs: a trained module gives the outputs that it gave before, to the last bit.
    """

    model: Model
    source: Source
    bare: bool  # whether nothing was given but the network
    fresh: bool  # whether the method draws first weights of its own
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()  # those of the notes that a person must hear of

    def standardized(
        self, variables: Variables, outputs: int, start: Any, load: Load, saved: Standards | None
    ) -> Units:
        """The same in standardized numbers, where that is meant.

        Args:
            variables: first weights.
            outputs: E.
            start: weights that were given.
            load: reads the data anew, where the network's precision does not show how they differ.
            saved: what the run that is resumed was standardized by.
        """
        if isinstance(start, Posterior):
            return self._continued(standards_of(start.model))
        if start is not None or not self.fresh or self.model.network.frozen:
            return self
        x, y = self.source.example
        if not self.bare:
            return self._saying(scale_warnings(self.model, variables, x, y))
        found = wanted(self.model, variables, x, y)
        units = replace(self, notes=(*self.notes, *found.notes))
        if not found:
            return units
        if saved is not None and isinstance(self.source, LoaderSource):
            note = "standardized inside the model, by the means and standard deviations of the run that is resumed"
            return replace(units, notes=(*units.notes, note))._by(saved, load)
        return units._measured(found, outputs, load)

    def _measured(self, wanted: Wanted, outputs: int, load: Load) -> Units:
        """By means and standard deviations of all examples."""
        found, source, often = measured(wanted, self.source, self.model, outputs), self.source, "once"
        if not found:
            return self
        if self._needs_digits(found):
            source, often = load(torch.float64), "twice"
            found = measured(wanted, source, self.model, outputs)
        read = f"the DataLoader was read {often} before the first step, for means and standard deviations"
        passes = (read,) if isinstance(source, LoaderSource) else ()
        notes = (*self.notes, standards_note(found), *passes, *constant_notes(found))
        units = replace(self, notes=notes)._by(standards_from(found), load, source)
        return units._saying(data_warnings(found, source))

    def _needs_digits(self, found: Found) -> bool:
        """Whether the network's precision may have rounded away how examples differ."""
        apart = any(bool((item.moments.constant & (item.moments.mean != 0.0)).any()) for item in found.values())
        return apart or not standards_from(found).held_by(self.model.network.dtype)

    def _by(self, standards: Standards, load: Load, precise: Source | None = None) -> Units:
        """By these numbers, with the data in the precision that they ask for."""
        model = standards.put_into(self.model)
        if model.data_dtype is self.model.network.dtype:
            return replace(self, model=model)
        return replace(self, model=model, source=precise or load(model.data_dtype))

    def _continued(self, standards: Standards) -> Units:
        """By what the weights were standardized by that the run begins with."""
        if standards == Standards() or standards == standards_of(self.model):
            return self
        if self.bare:
            note = "standardized inside the model by the same numbers as the posterior that it begins with"
            return replace(self, model=standards.put_into(self.model), notes=(*self.notes, note))
        return self._saying(
            (
                "start has weights of a model that standardizes inputs or targets inside, and this model does not do "
                "so in the same way: the first weights mean something else here; give start.model as the model",
            )
        )

    def _saying(self, sentences: tuple[str, ...]) -> Units:
        """The same with warnings."""
        return replace(self, notes=(*self.notes, *sentences), warnings=(*self.warnings, *sentences))
