"""What an experiment is: claims with their accepted ranges, a run that measures them, and a verdict on each.

An experiment is a package `credo.experiments.<name>`:

- `claims.toml` says what is claimed, by whom, and which measured numbers agree with it;
- `problem.py` has the data, the networks, and the methods with their settings;
- `measure.py` trains them and measures: results, the numbers of the claims, tables;
- `figures.py` draws the results;
- `__init__.py` puts them together in `run(size, folder, seed, progress)`, which returns an `Outcome`, and exposes
  `EXPERIMENT = Experiment.beside(__file__, run)`.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from credo.posteriors import Posterior
from credo.reports.progress import Progress
from credo.reports.tables import Cell, Table

__all__ = [
    "Card",
    "Cell",
    "Claim",
    "DivergedRunsError",
    "Experiment",
    "Figure",
    "Judged",
    "Outcome",
    "Progress",
    "Size",
    "Table",
    "Verdict",
    "Work",
    "judge",
    "uninterrupted",
    "verdict",
]

CLAIMS = "claims.toml"


class Size(Enum):
    """How much work a reproduction does: a quick look, or everything."""

    QUICK = "quick"
    FULL = "full"


class Verdict(Enum):
    """What a measured number says about a claim."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Claim:
    """A sentence that a measured number can support or refute.

    Attributes:
        id: name of the number that is measured.
        statement: the claim in plain words.
        source: who says so, and where.
        published: the number or the words of the source.
        low: smallest measured number that agrees with the claim.
        high: largest one.
        note: how the number is measured, and why the range is what it is.
    """

    id: str
    statement: str
    source: str
    published: str | float
    low: float = -math.inf
    high: float = math.inf
    note: str = ""

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"claim {self.id!r}: low {self.low} must not exceed high {self.high}")
        if math.isinf(self.low) and math.isinf(self.high):
            raise ValueError(f"claim {self.id!r} has neither low nor high, so nothing could refute it: give one")


def verdict(measured: float | None, low: float, high: float) -> Verdict:
    """The verdict on a claim, from the measured number and the accepted range alone.

    Examples:
        >>> verdict(0.8, 0.79, 0.81), verdict(float("nan"), 0.0, 1.0), verdict(None, 0.0, 1.0)
        (<Verdict.AGREES: 'agrees'>, <Verdict.DIFFERS: 'differs'>, <Verdict.NOT_MEASURED: 'not measured'>)
    """
    if measured is None:
        return Verdict.NOT_MEASURED
    # written so that NaN, which compares false with everything, and infinity differ
    return Verdict.AGREES if math.isfinite(measured) and low <= measured <= high else Verdict.DIFFERS


@dataclass(frozen=True)
class Figure:
    """A picture in the run folder.

    Attributes:
        path: file name, relative to the run folder.
        caption: what to see in it.
    """

    path: str
    caption: str


@dataclass(frozen=True)
class Outcome:
    """What an experiment found.

    Attributes:
        measured: numbers by the id of the claim that they are held against.
        tables: what a reader wants beside them.
        figures: pictures that the run has written to its folder.
        unmeasured: why a claim was not measured, by its id; each claim is in `measured` or here.
    """

    measured: Mapping[str, float]
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    unmeasured: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Judged:
    """A claim, the number it was held against, and the verdict.

    Attributes:
        claim: what was claimed.
        measured: our number; None where there is none.
        reason: why there is none.
    """

    claim: Claim
    measured: float | None
    reason: str = ""

    @property
    def verdict(self) -> Verdict:
        return verdict(self.measured, self.claim.low, self.claim.high)


def judge(claims: tuple[Claim, ...], outcome: Outcome) -> tuple[Judged, ...]:
    """A verdict on every claim.

    Raises:
        ValueError: a claim is neither measured nor given a reason, or a number belongs to no claim.
    """
    known = {claim.id for claim in claims}
    given = [*outcome.measured, *outcome.unmeasured]
    if forgotten := sorted(known - set(given)):
        raise ValueError(f"claims {forgotten} were not measured: put a number in measured or the reason in unmeasured")
    if stray := sorted(set(given) - known):
        raise ValueError(f"measured {stray}, which no claim in {CLAIMS} speaks of: add the claim or drop the number")
    if both := sorted(outcome.measured.keys() & outcome.unmeasured.keys()):
        raise ValueError(f"claims {both} are said to be measured and not measured: choose one")
    return tuple(
        Judged(claim, float(outcome.measured[claim.id]))
        if claim.id in outcome.measured
        else Judged(claim, None, outcome.unmeasured[claim.id])
        for claim in claims
    )


Work = Callable[[Size, Path, int, Progress], Outcome]
"""The work of an experiment: size, folder for figures, seed, progress."""


@dataclass(frozen=True)
class Card:
    """What an experiment says of itself before any of its code is loaded.

    Attributes:
        name: as it is called at the command line.
        title: one line.
        source: the document whose claims are tested.
        shows: what the experiment shows, in plain words.
        claims: what is claimed.
    """

    name: str
    title: str
    source: str
    shows: str
    claims: tuple[Claim, ...]

    @staticmethod
    def read(folder: Path) -> Card:
        """The card of the experiment in a folder, from its claims.toml."""
        path, name = folder / CLAIMS, folder.name.replace("_", "-")
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
            claims = tuple(_claim(entry) for entry in data["claim"])
            card = Card(name, data["title"], data["source"], data["shows"], claims)
        except KeyError as error:
            raise ValueError(f"{path} lacks {error}") from None
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path} is not a list of claims: {error}") from None
        if len({claim.id for claim in claims}) < len(claims):
            raise ValueError(f"{path} has two claims with the same id")
        return card


def _claim(entry: Mapping[str, Any]) -> Claim:
    bounds = {name: float(entry[name]) for name in ("low", "high") if name in entry}
    return Claim(**{**entry, **bounds})


@dataclass(frozen=True)
class Experiment:
    """A reproduction: its card, and the function that does the work."""

    card: Card
    run: Work

    @staticmethod
    def beside(file: str, run: Work) -> Experiment:
        """The experiment of the package whose `__init__.py` passes its `__file__`."""
        return Experiment(Card.read(Path(file).parent), run)


class DivergedRunsError(ValueError):
    """Some of several runs diverged, and are missing from the posterior."""


def uninterrupted(posterior: Posterior, runs: int = 1) -> Posterior:
    """The posterior, or KeyboardInterrupt where Ctrl-C cut its fit short.

    `credo.fit` keeps the result of an interrupted run; an experiment has no use for half a result and must end too.

    Args:
        posterior: what `credo.fit` returned.
        runs: how many members it must have, where each stands for a run or a split of its own.

    Raises:
        DivergedRunsError: it has fewer, so that nobody can say which is which.
    """
    if posterior.record.interrupted:
        raise KeyboardInterrupt
    if runs > 1 and (left := posterior.members().members) < runs:
        raise DivergedRunsError(f"{runs - left} of {runs} runs diverged: lower the learning rate, or use another seed")
    return posterior
