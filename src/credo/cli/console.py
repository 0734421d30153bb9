"""What commands share: consoles, paragraphs, the progress of a long job, warnings as plain lines, and output files."""

from __future__ import annotations

import os
import sys
import textwrap
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

from credo.cli.options import STDOUT
from credo.core.storage import StorageError
from credo.evaluation.values import Evaluation
from credo.reports import words
from credo.reports.progress import Progress


def answers(quiet: bool = False) -> Console:
    """Where answers go: the standard output, or nowhere."""
    return Console(quiet=quiet, highlight=False)


def remarks(quiet: bool = False) -> Console:
    """Where remarks on the way go: the standard error, or nowhere."""
    return Console(stderr=True, quiet=quiet, highlight=False)


def tell(console: Console, text: str | Text, hang: int = 0, *, piped: bool = False) -> None:
    """A paragraph, broken between words at the width of the terminal; one long line where there is none.

    Args:
        console: where to.
        text: without line breaks; its indentation stays.
        hang: spaces before every line but the first.
        piped: whether to break lines where there is no terminal too, as tables do.
    """
    whole = Text(text) if isinstance(text, str) else text
    place = 0
    for line in folded(whole.plain, console.width, hang) if console.is_terminal or piped else [whole.plain]:
        begin = whole.plain.index(line, place)
        place = begin + len(line)
        console.print(Text(" " * hang if begin else "") + whole[begin:place], soft_wrap=True)


def folded(text: str, width: int, hang: int = 0) -> list[str]:
    """Lines of at most this width when all but the first are indented; paths and options stay in one piece.

    Examples:
        >>> folded("  use: a first look", 12, hang=7)
        ['  use: a', 'first', 'look']
    """
    space = " " * hang
    paragraph = textwrap.TextWrapper(
        width,
        subsequent_indent=space,
        expand_tabs=False,
        replace_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.removeprefix(space) if number else line for number, line in enumerate(paragraph.wrap(text))] or [""]


STYLES = {"good": "green", "fair": "yellow", "poor": "bold red"}


def say_evaluation(console: Console, evaluation: Evaluation, said: Callable[[str], str] = str) -> None:
    """What held-out rows say, and every check.

    Args:
        console: where to.
        evaluation: of the rows.
        said: what becomes of each sentence.
    """
    console.print()
    for sentence in words.summary(evaluation):
        tell(console, said(sentence))
    console.print()
    for check in evaluation.checks:
        mark = Text(f"{check.rating:>6}  ", STYLES[check.rating])
        tell(console, mark + Text(said(check.question), "bold") + Text(f" {said(check.answer)}"), hang=8)
    console.print()
    console.print(words.verdict_line(evaluation), markup=False, soft_wrap=True)


@contextmanager
def progress(console: Console) -> Iterator[Progress]:
    """A bar on a terminal; elsewhere one line for each new thing that is done."""
    if console.is_terminal and not console.quiet:
        with _bar(console) as bar:
            yield bar
    else:
        yield _lines(console)


@contextmanager
def _bar(console: Console) -> Iterator[Progress]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    bars = Bars(*columns, console=console, transient=True)
    task = bars.add_task("starting", total=None)

    def show(text: str, share: float | None) -> None:
        bars.start()  # at the first thing to show: what is printed before must not run into the bar
        bars.update(task, description=text, completed=share or 0.0, total=None if share is None else 1.0)

    try:
        yield Progress(show)
    finally:
        bars.stop()


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


def check_new(out: Path, force: bool) -> None:
    """Refuse to write over a file, unless that is wanted; devices and pipes are no files that could be lost."""
    if out != STDOUT and out.is_file() and not force:
        raise ValueError(f"{out} exists: give another file, or --force to replace it")


def check_place(out: Path, given: Iterable[Path] = ()) -> None:
    """Refuse a place that no file can be written to, or that holds what it is made of, before any work is done.

    Args:
        out: where the file goes; `-` for the standard output.
        given: what the work reads.
    """
    if out == STDOUT:
        return
    if out.is_dir():
        raise StorageError(f"{out} is a folder: name a file in it")
    if not out.parent.is_dir():
        raise StorageError(f"the folder {out.parent} does not exist: create it first")
    if out.exists() and any(out.samefile(path) for path in given if path.exists()):
        raise ValueError(f"{out} is itself to be predicted: write the predictions to another file")


def write(out: Path, content: bytes) -> None:
    """Write a file in one instant: a reader, or a crash, finds the old content or the new.

    Args:
        out: where it goes; `-` for the standard output. What is no plain file, as a device or a pipe, is written as it
            comes.
        content: what to write.

    Raises:
        StorageError: if the folder is not there.
        OSError: if the disk is full, or the folder may not be written.
    """
    if out == STDOUT:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    check_place(out)
    try:
        _replace(out, content) if out.is_file() or not out.exists() else out.write_bytes(content)
    except OSError as error:
        error.filename = str(out)  # a full disk does not say which
        raise


def _replace(out: Path, content: bytes) -> None:
    made = out.with_name(f".{out.name}.{uuid.uuid4().hex[:8]}")
    try:
        made.write_bytes(content)
        os.replace(made, out)
    finally:
        made.unlink(missing_ok=True)
