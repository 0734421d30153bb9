"""The command line: what it prints, how it ends, and that it never shows a traceback."""

import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from credo import experiments
from credo.cli.main import app

CARD = """
title = "A made-up experiment"
source = "nobody"
shows = "Whatever it is told to."
[[claim]]
id = "number"
statement = "The number is small"
source = "nobody"
published = "small"
high = 1.0
"""

CODE = """
import warnings
from credo.experiments.base import Experiment, Figure, Outcome, Table
def run(size, folder, seed, progress):
    progress.say("at work")
    (folder / "a.png").write_bytes(b"picture")
    {work}
    table = Table("Seen", ("size", "seed"), ((size.value, seed),))
    return Outcome({{"number": value}}, (table,), (Figure("a.png", "what to see"),))
EXPERIMENT = Experiment.beside(__file__, run)
"""

WORK = {
    "agreeing": "value = 0.5",
    "differing": "value = 2.0",
    "misused": "raise ValueError('the knob is loose: turn it')",
    "diskless": "raise OSError(2, 'No such file or directory', 'the/data.npz')",
    "stopped": "raise KeyboardInterrupt",
    "warning": "warnings.warn('the number is odd'); value = 0.5",
}


@pytest.fixture(autouse=True)
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Real experiments in a folder of their own, next to those that credo has."""
    for name, work in WORK.items():
        folder = tmp_path / "packages" / name
        folder.mkdir(parents=True)
        (folder / "claims.toml").write_text(CARD)
        (folder / "__init__.py").write_text(CODE.format(work=work))
    monkeypatch.setattr(experiments, "__path__", [*experiments.__path__, str(tmp_path / "packages")])
    monkeypatch.chdir(tmp_path)
    yield
    for name in WORK:
        sys.modules.pop(f"credo.experiments.{name}", None)


def credo(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_version() -> None:
    result = credo("--version")
    assert (result.exit_code, result.stdout) == (0, "credo 0.1.0\n")


def test_help_names_the_commands_and_has_examples() -> None:
    for arguments in (["--help"], ["-h"], ["reproduce", "--help"]):
        result = credo(*arguments)
        assert result.exit_code == 0
        assert "reproduce" in result.stdout
        assert "credo reproduce sine --quick" in result.stdout


def test_list_has_every_experiment() -> None:
    result = credo("reproduce")
    assert result.exit_code == 0
    for name in ("sine", "agreeing", "differing"):
        assert name in result.stdout


def test_list_as_json() -> None:
    entries = {entry["name"]: entry for entry in json.loads(credo("reproduce", "--json").stdout)}
    assert entries["agreeing"]["title"] == "A made-up experiment"
    assert "sine" in entries


def test_agreement_is_exit_code_0(tmp_path: Path) -> None:
    result = credo("reproduce", "agreeing", "--seed", "7", "--quick")
    assert result.exit_code == 0
    for part in ("A made-up experiment", "Seen", "quick", "7", "The number is small", "at most 1", "agrees", "a.png"):
        assert part in result.stdout
    assert "at work" in result.stderr
    assert "at work" not in result.stdout
    assert {path.name for path in (tmp_path / "runs" / "agreeing").iterdir()} == {"a.png", "outcome.json", "summary.md"}


def test_difference_is_exit_code_1() -> None:
    result = credo("reproduce", "differing")
    assert result.exit_code == 1
    assert "differs" in result.stdout
    assert "1 claims: 1 differs" in result.stdout


@pytest.mark.parametrize(("name", "code"), [("agreeing", 0), ("differing", 1)])
def test_json_is_all_there_is_on_the_standard_output(tmp_path: Path, name: str, code: int) -> None:
    result = credo("reproduce", name, "--json", "--out", "elsewhere", "--seed", "3")
    assert result.exit_code == code
    data = json.loads(result.stdout)
    assert (data["experiment"], data["seed"], data["agrees"]) == (name, 3, code == 0)
    assert data == json.loads((tmp_path / "elsewhere" / "outcome.json").read_text())


def test_quiet_says_nothing() -> None:
    result = credo("reproduce", "differing", "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "")


def test_quiet_json_is_json() -> None:
    result = credo("reproduce", "agreeing", "--quiet", "--json")
    assert json.loads(result.stdout)["agrees"]
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("name", "code", "sentence"),
    [
        ("misused", 2, "credo: the knob is loose: turn it"),
        ("diskless", 2, "credo: the/data.npz: No such file or directory"),
        ("stopped", 130, "credo: interrupted"),
        ("agreing", 2, "credo: there is no experiment 'agreing': did you mean agreeing"),
        ("zzzzzz", 2, "credo: there is no experiment 'zzzzzz': there are"),
    ],
)
def test_errors_are_one_sentence(name: str, code: int, sentence: str) -> None:
    result = credo("reproduce", name)
    assert result.exit_code == code
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith(sentence)
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    result = credo("reproduce", "agreeing", "--out", "file")
    assert result.exit_code == 2
    assert result.stderr == "credo: file cannot be written (File exists): choose another folder\n"
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    "arguments", [["reprodduce"], ["reproduce", "agreeing", "--sed", "3"], ["reproduce", "agreeing", "--seed", "x"]]
)
def test_bad_usage_is_exit_code_2(arguments: list[str]) -> None:
    result = credo(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr


def test_a_mistyped_command_gets_the_nearest() -> None:
    assert "reproduce" in credo("reprodduce").stderr


def test_warnings_are_plain_lines() -> None:
    result = credo("reproduce", "warning")
    assert result.exit_code == 0
    assert "note: the number is odd\n" in result.stderr
    assert ".py" not in result.stderr


def program(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    code = "from credo.cli.main import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell that runs the tests in the background has Ctrl-C switched off, and children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def test_the_program_itself(tmp_path: Path) -> None:
    process = program("reproduce", "cion", folder=tmp_path)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert out == ""
    assert err == "credo: there is no experiment 'cion': did you mean coin?\n"


def test_ctrl_c_ends_the_program_with_a_sentence(tmp_path: Path) -> None:
    process = program("reproduce", "sine", "--out", "run", folder=tmp_path)
    assert process.stderr is not None
    assert process.stderr.readline() == "Maximum likelihood\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert out == ""
    assert "credo: interrupted" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert not (tmp_path / "run" / "outcome.json").exists()


def test_help_loads_no_heavy_library(tmp_path: Path) -> None:
    code = textwrap.dedent("""
        import sys
        from typer.testing import CliRunner
        from credo.cli.main import app
        assert CliRunner().invoke(app, ["--help"]).exit_code == 0
        print([name for name in ("matplotlib", "pandas", "sklearn", "credo.cli.reproduce") if name in sys.modules])
    """)
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
