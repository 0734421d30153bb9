"""Progress and warnings on a console."""

import io
import warnings

import pytest
from rich.console import Console
from rich.text import Text

from credo import CredoWarning
from credo.cli.console import folded, plain_warnings, progress, tell

LONG = "    use:   first choice: robust, nothing to tune, error bars grow away from the data, at runs/a-b/c-d.png"


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


def told(text: str | Text, *, terminal: bool, piped: bool = False) -> str:
    file = io.StringIO()
    tell(Console(file=file, force_terminal=terminal, color_system=None, width=40), text, hang=11, piped=piped)
    return file.getvalue()


def test_a_paragraph_on_a_terminal_hangs_at_its_indentation() -> None:
    lines = told(LONG, terminal=True).splitlines()
    assert all(len(line) <= 40 for line in lines)
    assert lines[0].startswith("    use:   first")
    assert all(line.startswith(" " * 11) and line[11] != " " for line in lines[1:])
    assert " ".join(" ".join(lines).split()) == " ".join(LONG.split())


def test_a_paragraph_elsewhere_is_one_line_unless_it_stands_beside_a_table() -> None:
    assert told(LONG, terminal=False) == LONG + "\n"
    assert told(LONG, terminal=False, piped=True) == told(LONG, terminal=True)


@pytest.mark.parametrize(
    "text", ["", "   ", "a" * 90, f"  {'a' * 90} b", "100\u00a0% " * 12, "[bold]x[/bold] " * 8, "a\tb\nc"]
)
def test_no_text_is_lost_or_taken_for_markup(text: str) -> None:
    assert told(text, terminal=True).split() == text.split()


def test_styles_follow_their_words_and_numbers_keep_their_percent_sign() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system="standard", width=20)
    tell(console, Text("plain words and then ") + Text("bold words of a second kind", "bold"), hang=2)
    assert "\x1b[1mbold words of a\x1b[0m" in file.getvalue()
    assert folded("they hold 100\u00a0% of", 14) == ["they hold", "100\u00a0% of"]
