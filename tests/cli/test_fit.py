"""`credo fit`: what it prints, what it writes, how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import Result

from credo.cli.fit import _listener
from credo.data import Task
from credo.posteriors import load
from credo.tabular import open_run
from credo.tabular.recipes import RECIPES
from credo.tabular.runs import FILES
from credo.tabular.training import ValidationPoint

Command = Callable[..., Result]


@pytest.fixture
def file(tmp_path: Path, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    table.to_csv("table.csv", index=False)
    return tmp_path / "table.csv"


def test_it_says_what_it_found_and_how_good_it_is(command: Command, file: Path) -> None:
    done = command("fit", "table.csv", "--target", "y", "--drop", "kind", "--epochs", "20")
    assert done.exit_code == 0
    said = done.stdout.replace("\u00a0", " ")
    for words in (
        "table.csv: 120 rows",
        "'y' is predicted from 2 columns: 2 numeric",
        "column 'kind' is left out: as you asked",
        "96 training rows, 24 rows held out",
        "On rows it has never seen",
        "Always answering the mean",
        "One member alone (trained on 80 % of the training rows)",
        "95 % intervals",
        "run/report.html",
        "credo predict run",
    ):
        assert words in said
    assert "epochs" in done.stderr
    assert {path.name for path in Path("run").iterdir()} == set(FILES)


def test_classes_are_told_in_their_own_words(command: Command, file: Path) -> None:
    done = command("fit", file, "-t", "kind", "--drop", "y", "--epochs", "20", "--out", "a/b/classes")
    assert done.exit_code == 0
    assert "most frequent class" in done.stdout
    assert "probabilities" in done.stdout
    assert open_run("a/b/classes").evaluation.classes == ("high", "low")


def test_json_is_all_that_is_printed_for_a_program(command: Command, file: Path) -> None:
    done = command("fit", file, "-t", "y", "--epochs", "3", "--json", "--seed", "7")
    told = json.loads(done.stdout)
    assert done.exit_code == 0
    assert (told["task"], told["target"], told["seed"], told["finished"]) == ("regression", "y", 7, True)
    assert set(told["scores"]["rmse"]) == {"model", "plain", "naive"}
    assert Path(told["report"]).is_file()


@pytest.mark.parametrize("method", ["ensemble", "vi"])
def test_epochs_and_those_of_cooling_are_told_apart(command: Command, file: Path, method: str) -> None:
    """The limit is one of passes at the full learning rate; those that follow have a number of their own."""
    done = command("fit", file, "-t", "y", "--drop", "kind", "--epochs", "10", "--json", "--method", method)
    told, page = json.loads(done.stdout), Path("run/report.html").read_text(encoding="utf-8")
    if method == "vi":
        assert (told["epochs"], told["cooling_epochs"]) == (10, 0)
        assert "Bayes by Backprop, 10 epochs;" in page
        return
    assert "training: 10 epochs (at most 10), validation log likelihood per row" in done.stderr
    assert "cooling: 10 + 3 epochs," in done.stderr
    assert "13 epochs" not in done.stderr
    more = " and 3 more with a falling learning rate" if told["cooling_epochs"] else ""  # kept where they helped
    assert (told["epochs"], told["cooling_epochs"]) == (10, 3 if more else 0)
    assert f"A deep ensemble, 10 epochs{more};" in page


@pytest.mark.parametrize(("best", "cooled"), [(30, "cooling: 30 + 9 epochs,"), (50, "cooling: 50 + 15 epochs,")])
def test_cooling_begins_at_the_best_validation(best: int, cooled: str) -> None:
    said: list[tuple[str, float | None]] = []
    listen = _listener(lambda text, share: said.append((text, share)))
    for epochs in (30, 39, 50):
        listen(ValidationPoint(epochs, 50, 0.0, best=epochs in (30, best)))
    listen(ValidationPoint(best + round(0.3 * best), 50, 0.1, best=True))
    assert [text.split(" (")[0] for text, _ in said[:3]] == [f"training: {n} epochs" for n in (30, 39, 50)]
    assert said[-1][0].startswith(cooled)
    assert all(share is None or share <= 1.0 for _, share in said)


def test_the_help_says_what_epochs_limits(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert "30 % more, with a falling learning rate (cooling)" in command("fit", "--help").stdout


def test_quiet_is_quiet(command: Command, file: Path) -> None:
    done = command("fit", file, "-t", "y", "--epochs", "3", "--quiet")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")


def scores(command: Command, file: Path, out: str, *more: str) -> object:
    done = command("fit", file, "-t", "y", "--epochs", "5", "--json", "-q", "--out", out, *more)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["scores"]


def test_the_same_seed_gives_the_same_numbers_and_another_one_others(command: Command, file: Path) -> None:
    first = scores(command, file, "a", "--seed", "1")
    assert scores(command, file, "b", "--seed", "1") == first
    assert scores(command, file, "c", "--seed", "2") != first
    assert (Path("a") / "predictions.csv").read_bytes() == (Path("b") / "predictions.csv").read_bytes()


@pytest.mark.parametrize("method", RECIPES)
def test_every_method_has_its_run(command: Command, file: Path, method: str) -> None:
    assert scores(command, file, "run", "--method", method)
    assert Path("run/report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert load("run").record.finished
    assert command("predict", "run", file).exit_code == 0


def test_the_task_can_be_chosen(command: Command, file: Path, table: pd.DataFrame) -> None:
    table.assign(y=table["y"].round() % 3).to_csv(file, index=False)
    assert command("fit", file, "-t", "y", "--epochs", "2", "--task", "regression", "-q").exit_code == 0
    assert open_run("run").encoder.task is Task.REGRESSION
    assert command("fit", file, "-t", "y", "--epochs", "2", "--force", "-q").exit_code == 0
    assert open_run("run").encoder.task is Task.CLASSIFICATION


def test_an_existing_run_is_kept_unless_forced(command: Command, file: Path) -> None:
    arguments = ("fit", file, "-t", "y", "--epochs", "2", "-q")
    assert command(*arguments).exit_code == 0
    before = Path("run/table.json").read_bytes()
    done = command(*arguments)
    assert (done.exit_code, "--force" in done.stderr) == (2, True)
    assert Path("run/table.json").read_bytes() == before
    assert command(*arguments, "--force").exit_code == 0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--seed", "5"), "was started with --seed 0, and now it is 5"),
        (("--epochs", "7"), "was started with --epochs 2, and now it is 7"),
        (("--drop", "x"), "was started without --drop, and now it is x"),
        (("--target", "x"), "was started with --target y, and now it is x"),
        (("--method", "vi"), "was started with --method ensemble, and now it is vi"),
    ],
)
def test_a_training_is_resumed_with_the_options_it_was_started_with(
    command: Command, file: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], words: str
) -> None:
    begun = ("fit", file, "--target", "y", "--epochs", "2", "-q")
    half_done(command, begun, monkeypatch)
    file.rename("moved.csv")  # the table is not read first
    done = command(*begun, *more, "--resume")
    assert (done.exit_code, f"training of run {words}" in done.stderr) == (2, True)
    Path("moved.csv").rename(file)
    assert command(*begun, "--resume").exit_code == 0
    assert not Path("run.training").exists()


def half_done(command: Command, arguments: tuple[object, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Train, and be interrupted before the run is written."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("credo.tabular.fitting.save_run", stop)
        assert command(*arguments).exit_code == 130
    assert Path("run.training").is_dir()


def test_a_training_that_saved_nothing_leaves_nothing(
    command: Command, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    arguments = ("fit", file, "-t", "y", "--epochs", "2", "-q")
    with monkeypatch.context() as patch:
        patch.setattr("credo.tabular.fitting.train_and_evaluate", stop)
        done = command(*arguments)
    assert (done.exit_code, "--resume" in done.stderr) == (130, False)
    assert not Path("run.training").exists()
    assert command(*arguments, "--resume").exit_code == 2
    assert command(*arguments).exit_code == 0


def test_one_column_is_one_column(command: Command, file: Path) -> None:
    said = command("fit", file, "-t", "y", "--epochs", "2", "--drop", "kind", "--drop", "z").stdout
    assert "'y' is predicted from 1 column: 1 numeric." in said


def test_a_parquet_file_and_a_gzipped_one_are_read(command: Command, file: Path, table: pd.DataFrame) -> None:
    pytest.importorskip("pyarrow")
    table.to_parquet("table.parquet")
    table.to_csv("table.csv.gz", index=False)
    for name in ("table.parquet", "table.csv.gz"):
        assert command("fit", name, "-t", "y", "--epochs", "2", "-q", "--force").exit_code == 0


def test_the_rows_of_the_predictions_are_those_of_the_file(command: Command, file: Path, table: pd.DataFrame) -> None:
    """Rows without a target are left out, and the others keep their numbers."""
    table.loc[table.index < 40, "y"] = float("nan")
    table.to_csv(file, index=False)
    assert command("fit", file, "-t", "y", "--epochs", "2", "-q").exit_code == 0
    found = pd.read_csv("run/predictions.csv").set_index("row")["observed"]
    assert len(found) == 16
    assert found.tolist() == pytest.approx(table["y"].iloc[found.index - 1].tolist())


def test_the_report_can_be_made_again(command: Command, file: Path) -> None:
    assert command("fit", file, "-t", "y", "--epochs", "3", "-q").exit_code == 0
    page = Path("run/report.html").read_bytes()
    Path("run/report.html").unlink()
    done = command("report", "run")
    assert (done.exit_code, "On rows it has never seen" in done.stdout) == (0, True)
    assert Path("run/report.html").read_bytes() == page
    told = json.loads(command("report", "run", "--json").stdout)
    assert told["evaluation"]["task"] == "regression"
    assert command("report", "nowhere").exit_code == 2


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (("-t", "Y"), "no column 'Y'"),
        (("-t", "y", "--drop", "nothing"), "no column 'nothing'"),
        (("-t", "y", "--drop", "y"), "cannot be dropped"),
        (("-t", "y", "--method", "magic"), "ensemble"),
        (("-t", "y", "--test", "0"), "between 0 and 1"),
        (("-t", "y", "--test", "1"), "between 0 and 1"),
        (("-t", "y", "--epochs", "0"), "epochs"),
        (("-t", "kind", "--task", "regression"), "holds no numbers"),
        ((), "--target"),
    ],
)
def test_wishes_that_make_no_sense_get_a_sentence(
    command: Command, file: Path, wish: tuple[str, ...], words: str
) -> None:
    done = command("fit", file, *wish)
    assert done.exit_code == 2
    assert words in done.stderr
    assert not Path("run").exists()


def test_a_column_may_weigh_the_rows(command: Command, file: Path, table: pd.DataFrame) -> None:
    table.assign(w=1.0 + (table["x"] > 0)).to_csv(file, index=False)
    done = command("fit", file, "-t", "y", "--drop", "kind", "--weights", "w", "--epochs", "5")
    assert done.exit_code == 0, done.output
    assert "'y' is predicted from 2 columns" in done.stdout
    assert "column 'w' is no input: it says how much each row counts" in " ".join(done.stdout.split())
    table[["x", "z"]].to_csv("new.csv", index=False)
    assert command("predict", "run", "new.csv", "-o", "out.csv").exit_code == 0
    table.assign(w=-1.0).to_csv(file, index=False)
    bad = command("fit", file, "-t", "y", "--weights", "w", "--force")
    assert bad.exit_code == 2
    assert "negative, the first in row 1" in " ".join(bad.stderr.split())
    missing = command("fit", file, "-t", "y", "--weights", "ww", "--force")
    assert missing.exit_code == 2
    assert "no column 'ww'" in missing.stderr
