"""Files as people have them."""

import gzip
import os
import threading
import warnings

import numpy as np
import pandas as pd
import pytest

from credo.data import DataError, reading
from credo.data.reading import read_table


def write(folder, text: str | bytes, name: str = "table.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators(tmp_path, separator):
    rows = [["a", "b", "c"], ["1", "x y", "2.5"], ["3", "z", "4.5"]]
    table = read_table(write(tmp_path, "\n".join(separator.join(row) for row in rows)))
    assert list(table.frame.columns) == ["a", "b", "c"]
    assert table.frame["c"].tolist() == [2.5, 4.5]
    assert bool(table.notes) is (separator != ",")


def test_semicolons_with_decimal_commas(tmp_path):
    table = read_table(write(tmp_path, "a;b\n1,5;2\n-2,25;3\n"))
    assert table.frame["a"].tolist() == [1.5, -2.25]
    assert "semicolon, with decimal commas" in table.notes[0]


def test_commas_inside_quotes_are_no_separators(tmp_path):
    table = read_table(write(tmp_path, 'a;b\n"x, y, z";1\n"u, v, w";2\n'))
    assert table.frame["a"].tolist() == ["x, y, z", "u, v, w"]


def test_one_column_has_no_separator(tmp_path):
    assert read_table(write(tmp_path, "a\n1\n2\n")).frame["a"].tolist() == [1, 2]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(tmp_path, encoding):
    table = read_table(write(tmp_path, "größe,name\n1,José\n2,Åse\n".encode(encoding)))
    assert list(table.frame.columns) == ["größe", "name"]
    assert table.frame["name"].tolist() == ["José", "Åse"]
    assert any("Windows-1252" in note for note in table.notes) is (encoding == "cp1252")


def test_a_stray_byte_far_down_is_read_and_told(tmp_path):
    """The beginning looks like UTF-8; the surprise comes when most of the file has been read."""
    lines = ["x,name"] + [f"{i},é" for i in range(120_000)]
    path = write(tmp_path, "\n".join(lines).encode() + b"\n7,Jos\xe9\n8,\x81\n")
    assert os.path.getsize(path) > reading.HEAD
    table = read_table(path)
    assert table.frame["name"].iloc[-2] == "José"
    assert table.frame["name"].iloc[0] == "é"
    assert any("bytes that are not UTF-8" in note for note in table.notes)


def test_a_pipe_is_enough_so_nothing_is_read_twice(tmp_path):
    """A pipe gives its bytes once. More than the looked-at beginning goes through it."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    frame = pd.DataFrame({"a": np.arange(150_000), "b": np.arange(150_000) / 7})
    writer = threading.Thread(target=lambda: frame.to_csv(path, index=False))
    writer.start()
    table = read_table(path)
    writer.join()
    assert len(table.frame) == 150_000
    assert table.frame["b"].iloc[-1] == pytest.approx(149_999 / 7, rel=1e-12)


def test_gzip_and_parquet(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": pd.to_datetime(["2020-01-01", "2021-01-01"])})
    frame.to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").frame["b"].tolist() == ["x", "y"]
    path = write(tmp_path, gzip.compress(b"a,b\n1,x\n2,y\n"), "t.csv.gz")
    assert read_table(path).frame["b"].tolist() == ["x", "y"]


def test_missing_cells_and_names_of_classes(tmp_path):
    frame = read_table(write(tmp_path, "a,b\n?,None\nNA,-\n,+\n1,x\n")).frame
    assert frame["a"].isna().tolist() == [True, True, True, False]
    assert frame["b"].tolist() == ["None", "-", "+", "x"]


def test_row_names_become_a_column(tmp_path):
    frame = read_table(write(tmp_path, "a,b\nr1,1,2\nr2,3,4\n")).frame
    assert list(frame.columns) == ["row name", "a", "b"]
    assert frame["b"].tolist() == [2, 4]


def test_names_are_told_about(tmp_path):
    assert "several columns called a" in read_table(write(tmp_path, "a,a\n1,2\n")).notes[0]
    assert "holds only numbers" in read_table(write(tmp_path, "1.5,2\n1,2\n")).notes[0]
    assert list(read_table(write(tmp_path, " a , b\n1,2\n")).frame.columns) == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"  \n\n", "is empty"),
        (b"a,b\n", "no rows"),
        (b"\xd0\xcf\x11\xe0rest", "spreadsheet"),
        (b"\x00\x01\x02", "not a text file"),
        (b"PAR1 and nonsense", "damaged Parquet"),
        (b"\x1f\x8bnonsense", "cannot be read"),
        (b"a,b\n1,2\n1,2,3\n", "line 3 of .* has 3 cells"),
        (b'a,b\n1,"2\n3,4\n', "quotation mark"),
    ],
)
def test_bad_files_get_a_sentence(tmp_path, content, sentence):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataError, match=sentence):
            read_table(write(tmp_path, content))


def test_no_file(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_table(tmp_path / "nothing.csv")
    with pytest.raises(DataError, match="is a folder"):
        read_table(tmp_path)


@pytest.mark.parametrize("separator", [",", ";"])
def test_codes_keep_their_zeros(tmp_path, separator):
    rows = ["zip,size,part", "01003,10,00.5", ' 90210,0,"1"', "?,7,2"]
    frame = read_table(write(tmp_path, "\n".join(row.replace(",", separator) for row in rows))).frame
    assert frame["zip"].tolist()[:2] == ["01003", "90210"]
    assert frame["zip"].isna().tolist() == [False, False, True]
    assert (frame["size"].tolist(), frame["part"].tolist()) == ([10, 0, 7], [0.5, 1.0, 2.0])


def test_a_column_that_is_no_code_after_all_is_read_as_ever(tmp_path):
    """Numbers with decimals among them are quantities, in the notation of the file."""
    frame = read_table(write(tmp_path, "a;b\n01;x\n2,5;y\n-3,25;z\n")).frame
    assert frame["a"].tolist() == [1.0, 2.5, -3.25]
    assert read_table(write(tmp_path, "a,b\n01,1\nx,2\n")).frame["a"].tolist() == ["01", "x"]


@pytest.mark.parametrize("header", ["\nzip,b", "zip ,b", '"zip",b', "zip,zip", ",zip"])
def test_codes_under_strange_headers(tmp_path, header):
    frame = read_table(write(tmp_path, f"{header}\n01003,02\n90210,03\n")).frame
    assert len(frame) == 2
    assert "01003" in frame["zip"].tolist() or "02" in frame["zip"].tolist()


def test_codes_beside_names_of_rows(tmp_path):
    frame = read_table(write(tmp_path, "a,zip\nr1,1,01003\nr2,3,90210\n")).frame
    assert frame["zip"].tolist() == ["01003", "90210"]
    assert frame["a"].tolist() == [1, 3]


def test_known_codes_stay_text_wherever_their_zeros_are(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "HEAD", 64)
    path = write(tmp_path, "zip,x\n" + "90210,1\n" * 500 + "01003,2\n")
    assert read_table(path).frame["zip"].iloc[-1] == 1003
    assert read_table(path, codes=["zip", "not there"]).frame["zip"].iloc[-1] == "01003"
