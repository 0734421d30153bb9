"""`credo predict`: answers in a file, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import Result

Command = Callable[..., Result]


@pytest.fixture
def new(tmp_path: Path, table: pd.DataFrame) -> Path:
    """Ten ordinary rows and an absurd one."""
    rows = table.drop(columns=["y", "kind"]).head(10)
    path = tmp_path / "new.csv"
    pd.concat([rows, pd.DataFrame({"x": [500.0], "z": [-900.0]})]).to_csv(path, index=False)
    return path


def test_answers_go_to_a_file_and_the_absurd_row_is_named(command: Command, tables: Path, new: Path) -> None:
    out = new.parent / "out.csv"
    done = command("predict", tables / "y-run", new, "-o", out)
    assert done.exit_code == 0
    assert "11 rows predicted; 1 unlike the training data (row 11)" in done.stdout
    found = pd.read_csv(out)
    assert found["unfamiliar"].tolist() == [False] * 10 + [True]
    assert sorted(path.name for path in new.parent.iterdir()) == ["new.csv", "out.csv"]


def test_a_dash_is_the_standard_output(command: Command, tables: Path, new: Path) -> None:
    done = command("predict", tables / "y-run", new, "-o", "-")
    lines = done.stdout.splitlines()
    assert lines[0] == "mean,stddev,lower,upper,epistemic,aleatoric,unfamiliar,unfamiliarity"
    assert len(lines) == 12
    assert "11 rows predicted" in done.stderr


def test_classes_abstain_at_the_chosen_risk(command: Command, tables: Path, new: Path) -> None:
    found = {}
    for risk in ("0.0", "0.5"):
        done = command("predict", tables / "kind-run", new, "--risk", risk, "--json", "-q")
        found[risk] = json.loads(done.stdout)
    assert set(found["0.5"][0]) == {
        *("label", "probability_high", "probability_low", "epistemic", "aleatoric"),
        *("abstain", "unfamiliar", "unfamiliarity"),
    }
    # at a risk that deciding everything keeps, only rows of which the held-out ones say nothing are left to a person
    assert [row["abstain"] for row in found["0.5"]] == [row["unfamiliar"] for row in found["0.5"]]
    assert found["0.5"][-1]["unfamiliar"]
    assert sum(row["abstain"] for row in found["0.0"]) >= sum(row["abstain"] for row in found["0.5"])


def test_the_table_can_stand_beside_the_answers(command: Command, tables: Path, new: Path) -> None:
    done = command("predict", tables / "y-run", new, "--with-inputs")
    assert done.stdout.startswith("x,z,mean,stddev")


def test_a_level_is_taken_over(command: Command, tables: Path, new: Path) -> None:
    widths = []
    for level in ("0.5", "0.99"):
        rows = json.loads(command("predict", tables / "y-run", new, "--level", level, "--json", "-q").stdout)
        widths.append(rows[0]["upper"] - rows[0]["lower"])
    assert widths[0] < widths[1]


def test_strange_tables_get_a_note(command: Command, tables: Path, new: Path, table: pd.DataFrame) -> None:
    table.head(4).assign(more=1, z=[1.0, None, float("inf"), 2.0]).to_csv(new, index=False)
    done = command("predict", tables / "y-run", new)
    assert done.exit_code == 0
    assert "'more'" in done.stderr
    assert "missing" in done.stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("x,z\n", "no rows"),
        ("x\n1\n", "lacks 1 column(s) that the model was trained on: 'z'"),
        ("x,z\none,1\ntwo,2\nthree,3\n", "must hold numbers"),
    ],
)
def test_tables_that_cannot_be_predicted_get_a_sentence(
    command: Command, tables: Path, new: Path, content: str, words: str
) -> None:
    new.write_text(content)
    out = new.parent / "out.csv"
    out.write_text("precious")
    done = command("predict", tables / "y-run", new, "-o", out, "--force")
    assert done.exit_code == 2
    assert words in done.stderr
    assert out.read_text() == "precious"


def test_a_file_is_replaced_only_by_force(command: Command, tables: Path, new: Path) -> None:
    out = new.parent / "out.csv"
    out.write_text("precious")
    done = command("predict", tables / "y-run", new, "-o", out)
    assert (done.exit_code, "--force" in done.stderr, out.read_text()) == (2, True, "precious")
    assert command("predict", tables / "y-run", new, "-o", out, "--force").exit_code == 0
    assert out.read_text().startswith("mean,stddev")


def test_wide_intervals_are_left_to_a_person(command: Command, tables: Path, new: Path) -> None:
    out = new.parent / "out.csv"
    assert command("predict", tables / "y-run", new, "-o", out).exit_code == 0
    width = float((pd.read_csv(out)["upper"] - pd.read_csv(out)["lower"]).median())
    done = command("predict", tables / "y-run", new, "-o", out, "--force", "--within", width)
    found = pd.read_csv(out)
    assert (found["abstain"] == ((found["upper"] - found["lower"] > width) | found["unfamiliar"])).all()
    assert 0 < found["abstain"].sum() < len(found)
    assert "held-out rows have 95 % intervals no wider than" in done.stderr


def test_the_table_is_not_overwritten(command: Command, tables: Path, new: Path) -> None:
    before = new.read_bytes()
    done = command("predict", tables / "y-run", new, "-o", new)
    assert (done.exit_code, "another file" in done.stderr) == (2, True)
    assert new.read_bytes() == before


def test_places_that_are_none_get_a_sentence(command: Command, tables: Path, new: Path) -> None:
    for out, words in ((new.parent / "no" / "x.csv", "does not exist"), (new.parent, "is a folder")):
        done = command("predict", tables / "y-run", new, "-o", out)
        assert (done.exit_code, words in done.stderr) == (2, True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_a_failure(command: Command, tables: Path, new: Path) -> None:
    done = command("predict", tables / "y-run", new, "-o", "/dev/full")
    assert (done.exit_code, "No space left" in done.stderr) == (1, True)


@pytest.mark.parametrize("wish", [("--level", "1.2"), ("--risk", "1.2")])
def test_wishes_that_make_no_sense_get_a_sentence(
    command: Command, tables: Path, new: Path, wish: tuple[str, str]
) -> None:
    done = command("predict", tables / "y-run", new, *wish)
    assert (done.exit_code, "between 0 and 1" in done.stderr) == (2, True)


def test_codes_are_read_as_they_were_in_training(command: Command, tmp_path: Path, table: pd.DataFrame) -> None:
    """A code keeps its zeros in a table of its own, and is no quantity: the answers hang on it."""
    codes = ["01003", "02139", "10001", "90210"] * 30
    price = 3.0 * pd.Series(codes).isin(["01003", "90210"]) + 0.1 * table["x"]
    frame = pd.DataFrame({"x": table["x"], "zip": codes, "price": price})
    frame.to_csv(tmp_path / "houses.csv", index=False)
    done = command("fit", tmp_path / "houses.csv", "-t", "price", "--out", tmp_path / "run", "--epochs", 100)
    assert "column 'zip': some of its numbers begin with 0, so they are codes" in " ".join(done.stdout.split())
    for code, expected in (("01003", 3.0), ("02139", 0.0), ("10001", 0.0), ("90210", 3.0)):
        (tmp_path / "new.csv").write_text(f"x,zip\n0.0,{code}\n")
        done = command("predict", tmp_path / "run", tmp_path / "new.csv", "--json", "-q")
        assert abs(json.loads(done.stdout)[0]["mean"] - expected) < 0.5  # a network of 120 rows, far from 1.5
    (tmp_path / "new.csv").write_text("x,zip\n0.0,00501\n0.0,1003\n")
    done = command("predict", tmp_path / "run", tmp_path / "new.csv")
    assert "never seen in training: '00501', '1003'" in done.stderr
    assert "2 unlike the training data (rows 1, 2)" in done.stderr


def test_costs_choose_actions_and_who_is_asked(command: Command, tables: Path, new: Path) -> None:
    costs = new.parent / "costs.csv"
    costs.write_text("action,low,high\nsell,0,50\nkeep,1,0\n")
    done = command("predict", tables / "kind-run", new, "--costs", costs, "--ask", 0.3, "--json")
    assert "nothing is promised" in done.stderr
    rows = json.loads(done.stdout)
    for row in rows:
        each = {"sell": 50 * row["probability_high"], "keep": row["probability_low"]}
        assert row["action"] == min(each, key=lambda name: each[name])
        assert row["expected_cost"] == pytest.approx(min(each.values()), abs=1e-9)
        assert row["abstain"] == (row["expected_cost"] > 0.3 or row["unfamiliar"])
    assert {row["action"] for row in rows} == {"sell", "keep"}


@pytest.mark.parametrize(
    ("content", "run", "words"),
    [
        ("action,low\nsell,0\n", "kind-run", "the classes are"),
        ("action,low,other\nsell,0,1\n", "kind-run", "the classes are"),
        ("action\nsell\n", "kind-run", "a row for each action"),
        ("action,low,high\nsell,0,-1\n", "kind-run", "a gain is a smaller cost"),
        ("action,low,high\nsell,0,much\n", "kind-run", "numbers from 0 on"),
        ("action,low,high\nsell,0,1\n", "y-run", "costs of actions are for classes"),
    ],
)
def test_costs_that_do_not_fit_get_a_sentence(
    command: Command, tables: Path, new: Path, content: str, run: str, words: str
) -> None:
    costs = new.parent / "costs.csv"
    costs.write_text(content)
    done = command("predict", tables / run, new, "--costs", costs, "--ask", 0.3)
    assert (done.exit_code, words in " ".join(done.stderr.split())) == (2, True), done.stderr


def test_costs_need_the_cost_of_asking(command: Command, tables: Path, new: Path) -> None:
    done = command("predict", tables / "kind-run", new, "--ask", 0.3)
    assert (done.exit_code, "belong together" in done.stderr) == (2, True)


def test_a_promise_says_where_it_ends(command: Command, tables: Path, new: Path) -> None:
    done = command("predict", tables / "kind-run", new, "--risk", 0.5, "-o", new.parent / "out.csv")
    said = " ".join(done.stdout.split())
    assert "Promised: with a probability of 90 %, at most 50 % of the decisions are wrong" in said
    assert "where the data change, the promise ends" in said
