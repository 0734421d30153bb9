"""Progress and warnings on a console."""

import io
import warnings

from rich.console import Console

from credo import CredoWarning
from credo.cli.display import plain_warnings, progress


def test_a_line_for_each_new_thing_where_there_is_no_terminal() -> None:
    file = io.StringIO()
    with progress(Console(file=file)) as told:
        for share in (0.0, 0.5, 1.0):
            told.say("training [fast]", share)
        told.say("drawing")
    assert file.getvalue() == "training [fast]\ndrawing\n"


def test_a_bar_on_a_terminal_leaves_nothing_behind() -> None:
    file = io.StringIO()
    with progress(Console(file=file, force_terminal=True, width=80)) as told:
        told.say("training", 0.5)
        told.say("drawing")
    assert "drawing" in file.getvalue()


def test_quiet_is_quiet_on_a_terminal_too() -> None:
    file = io.StringIO()
    with progress(Console(file=file, force_terminal=True, quiet=True)) as told:
        told.say("training", 0.5)
    assert file.getvalue() == ""


def test_warnings_are_shown_once_in_their_own_words() -> None:
    file = io.StringIO()
    before = warnings.showwarning
    with plain_warnings(Console(file=file)):
        for _ in range(2):
            warnings.warn("mind the [gap]", CredoWarning, stacklevel=1)
    assert file.getvalue() == "note: mind the [gap]\n"
    assert warnings.showwarning is before
