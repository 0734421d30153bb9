"""What commands share: consoles, the progress of a long job, and warnings as plain lines."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from credo.experiments.base import Progress


def answers(quiet: bool = False) -> Console:
    """Where answers go: the standard output, or nowhere."""
    return Console(quiet=quiet, highlight=False)


def remarks(quiet: bool = False) -> Console:
    """Where remarks on the way go: the standard error, or nowhere."""
    return Console(stderr=True, quiet=quiet, highlight=False)


@contextmanager
def progress(console: Console) -> Iterator[Progress]:
    """A bar on a terminal; elsewhere one line for each new thing that is done."""
    if console.is_terminal and not console.quiet:
        with _bar(console) as told:
            yield told
    else:
        yield _lines(console)


@contextmanager
def _bar(console: Console) -> Iterator[Progress]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bars(*columns, console=console, transient=True) as bars:
        task = bars.add_task("starting", total=None)

        def show(text: str, share: float | None) -> None:
            bars.update(task, description=text, completed=share or 0.0, total=None if share is None else 1.0)

        yield Progress(show)


def _lines(console: Console) -> Progress:
    said: set[str] = set()

    def show(text: str, share: float | None) -> None:
        if text not in said:
            said.add(text)
            console.print(text, style="dim", soft_wrap=True, markup=False)

    return Progress(show)


@contextmanager
def plain_warnings(console: Console) -> Iterator[None]:
    """Show a warning as one line of its own words, without the place in the code that raised it."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        console.print(f"note: {message}", style="yellow", soft_wrap=True, markup=False)

    with warnings.catch_warnings():
        warnings.simplefilter("once", UserWarning)
        warnings.showwarning = show
        yield
