"""The histories of the runs of the loop that make one training."""

from __future__ import annotations

from dataclasses import dataclass, replace

from credo.posteriors import Posterior


@dataclass(frozen=True)
class RunHistory:
    """The histories of several runs as one."""

    rows: tuple[dict[str, float], ...] = ()
    seconds: float = 0.0

    def after(self, posterior: Posterior, done: int, score: float | None = None) -> RunHistory:
        rows = [
            {**row, "epoch": row["epoch"] + done, "seconds": round(row["seconds"] + self.seconds, 4)}
            for row in posterior.history
        ]
        if rows and score is not None:
            rows[-1]["validation_log_likelihood"] = score
        return RunHistory((*self.rows, *rows), self.seconds + posterior.record.seconds)

    def until(self, epochs: int) -> RunHistory:
        return replace(self, rows=tuple(row for row in self.rows if row["epoch"] <= epochs))

    def recorded(self, posterior: Posterior, note: str, seed: int) -> Posterior:
        """The posterior, with the record of all runs."""
        notes = (*posterior.record.notes, note)
        record = replace(posterior.record, notes=notes, history=self.rows, seconds=self.seconds, seed=seed)
        return replace(posterior, record=record)
