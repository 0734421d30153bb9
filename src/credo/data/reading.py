"""A file to a table of columns, read once: any separator, any encoding; CSV, Parquet, Feather or Excel."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Collection, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pandas as pd

from credo.data import DataError
from credo.data.codes import padded_columns, unless_codes
from credo.data.office import MISSING, excel, feather

HEAD = 2**20
"""Bytes that are looked at to find out separator and encoding."""
LINES = 1000
"""Lines that are looked at, likewise."""
SEPARATORS = (",", ";", "\t", "|")


@dataclass(frozen=True, eq=False)
class InputTable:
    """What a file holds.

    Attributes:
        frame: the columns.
        source: name of the file, for sentences.
        notes: what was found out on the way, in sentences.
    """

    frame: pd.DataFrame
    source: str
    notes: tuple[str, ...] = ()


def read_table(path: str | Path, codes: Collection[str] = (), verbatim: Collection[str] = ()) -> InputTable:
    """Read a CSV file (any of the usual separators and encodings, gzipped or not), once; or Parquet, Feather, Excel.

    Columns of whole numbers some of which begin with 0 (01003, in the first megabyte) are codes, and stay text.

    Args:
        path: of the file; a pipe will do for CSV.
        codes: names of columns that are known to hold codes.
        verbatim: names of columns of a CSV file in which only an empty cell is missing, and NA is a word.

    Raises:
        DataError: if the file is missing, empty, not a table or damaged.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD)
            if head[:4] == b"PAR1":
                return table_of(_with_row_names(_parquet(path)), str(path))
            if head[:6] == b"ARROW1":
                return table_of(_with_row_names(feather(path)), str(path))
            if head[:4] == b"PK\x03\x04":
                frame, notes = excel(path, codes)
                return table_of(_with_row_names(frame), str(path), notes)
            stream = _again(head, file)
            if head[:2] == b"\x1f\x8b":
                unpacked = io.BufferedReader(gzip.GzipFile(fileobj=stream))
                head = unpacked.read(HEAD)
                stream = _again(head, unpacked)
            return _read_text(stream, head, str(path), codes, verbatim)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist: check the name of the file") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder: name a CSV or Parquet file in it") from None
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read ({error})") from None


def _again(head: bytes, rest: IO[bytes]) -> IO[bytes]:
    """A stream whose first bytes were already taken, as if they had not been: pipes cannot be wound back."""
    return io.BufferedReader(_Chain(head, rest), HEAD)


class _Chain(io.RawIOBase):
    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._parts: list[IO[bytes]] = [io.BytesIO(head), rest]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while self._parts:
            data = self._parts[0].read(len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)
            self._parts.pop(0)
        return 0


def _read_text(
    stream: IO[bytes], head: bytes, source: str, codes: Collection[str], verbatim: Collection[str]
) -> InputTable:
    _refuse_other_formats(head, source)
    notes: list[str] = []
    encoding = _encoding(head)
    if encoding == "cp1252":
        notes.append(f"{source} is not UTF-8: it was read as Windows-1252")
    beginning = codecs.getincrementaldecoder(encoding)("replace").decode(head)
    layout = _layout(beginning, cut=len(head) == HEAD)
    if layout.separator != ",":
        named = {";": "semicolon", "\t": "tab", "|": "bar"}[layout.separator]
        comma = ", with decimal commas" if layout.decimal == "," else ""
        notes.append(f"the columns of {source} are separated by a {named}{comma}")
    strays = _STRAYS.set([0])
    try:
        text = io.TextIOWrapper(stream, encoding=encoding, errors=ON_STRAY, newline="")
        frame = _parse(text, layout, source, padded_columns(beginning, layout.separator), codes, verbatim)
        if _STRAYS.get()[0]:
            notes.append(f"{source} has bytes that are not UTF-8: they were read as Windows-1252")
    finally:
        _STRAYS.reset(strays)
    return table_of(_with_row_names(frame), source, [*notes, *_header_notes(layout.header, source)])


def _parquet(path: str | Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except ImportError:
        raise DataError(f"{path} is a Parquet file, and reading it needs the package pyarrow: install it") from None
    except (ValueError, OSError) as error:
        raise DataError(f"{path} is a damaged Parquet file ({error})") from None


def _refuse_other_formats(head: bytes, source: str) -> None:
    if not head.strip():
        raise DataError(f"{source} is empty: it needs a line of column names and rows below it")
    if head[:4] == b"\xd0\xcf\x11\xe0":
        raise DataError(f"{source} is a spreadsheet of an old format: save it as .xlsx or as CSV first")
    if b"\x00" in head and head[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise DataError(f"{source} is not a text file (it has zero bytes): give a CSV or Parquet file")


def _encoding(head: bytes) -> str:
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # a character cut at the end is no error
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


ON_STRAY = "credo.windows"
_STRAYS: ContextVar[list[int]] = ContextVar("strays")


def _as_windows(error: UnicodeError) -> tuple[str, int]:
    """What a byte that is no UTF-8 probably means; it may come when most of a large file is already read."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    _STRAYS.get()[0] += 1
    stray = error.object[error.start : error.end]
    try:
        return stray.decode("cp1252"), error.end
    except UnicodeDecodeError:  # five bytes mean nothing in Windows-1252
        return stray.decode("latin-1"), error.end


codecs.register_error(ON_STRAY, _as_windows)


@dataclass(frozen=True)
class TextLayout:
    separator: str
    decimal: str
    header: tuple[str, ...]


def _layout(beginning: str, *, cut: bool) -> TextLayout:
    """The separator under which most lines have the same number of cells, and more than one."""
    found: dict[str, list[list[str]]] = {}
    for separator in SEPARATORS:
        lines = (row for row in csv.reader(io.StringIO(beginning, newline=""), delimiter=separator) if row)
        rows = list(islice(lines, LINES))
        # the last line of what was looked at may be half a line
        found[separator] = rows[:-1] if cut and 1 < len(rows) < LINES else rows

    def agreement(separator: str) -> tuple[float, int]:
        counts = Counter(len(row) for row in found[separator])
        width, lines = counts.most_common(1)[0]
        return (lines / counts.total() if width > 1 else 0.0, width)

    best = max(SEPARATORS, key=agreement)
    if agreement(best)[0] == 0.0:
        best = ","
    header, *body = found[best] or [[]]
    return TextLayout(best, _decimal(best, body), tuple(name.strip() for name in header))


def _decimal(separator: str, rows: list[list[str]]) -> str:
    if separator == ",":
        return "."
    cells = [cell.strip() for row in rows for cell in row]
    commas = sum(re.fullmatch(r"[+-]?\d+,\d+", cell) is not None for cell in cells)
    points = sum(re.fullmatch(r"[+-]?\d+\.\d+", cell) is not None for cell in cells)
    return "," if commas > points else "."


def _parse(
    text: IO[str],
    layout: TextLayout,
    source: str,
    padded: Collection[str],
    codes: Collection[str],
    verbatim: Collection[str],
) -> pd.DataFrame:
    every: Any = list(MISSING)
    if verbatim:
        every = {name: [""] if name in verbatim else list(MISSING) for name in layout.header}
    try:
        frame = pd.read_csv(
            text,
            sep=layout.separator,
            decimal=layout.decimal,
            keep_default_na=False,
            na_values=every,
            skipinitialspace=True,
            low_memory=False,
            dtype=dict.fromkeys((*padded, *codes), str),
        )
    except pd.errors.EmptyDataError:
        raise DataError(f"{source} is empty: it needs a line of column names and rows below it") from None
    except pd.errors.ParserError as error:
        found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        if found:
            wide, line, saw = found.groups()
            raise DataError(
                f"line {line} of {source} has {saw} cells and the lines before it {wide}: a cell that holds the "
                f"separator {layout.separator!r} must stand in quotes"
            ) from None
        raise DataError(f"{source} cannot be read as a table ({error}): is a quotation mark left open?") from None
    for name in frame.columns.intersection(list(set(padded) - set(codes))):
        frame[name] = unless_codes(frame[name], layout.decimal)
    return frame


def _header_notes(header: tuple[str, ...], source: str) -> list[str]:
    notes = []
    twice = sorted(name for name, count in Counter(header).items() if count > 1 and name)
    if twice:
        notes.append(f"{source} has several columns called {', '.join(twice)}: the later ones are numbered")
    if header and all(re.fullmatch(r"[+-]?\d+([.,]\d+)?([eE][+-]?\d+)?", name) for name in header):
        notes.append(f"the first line of {source} holds only numbers and was taken for the names of the columns")
    return notes


def table_of(frame: pd.DataFrame, source: str, notes: Sequence[str] = ()) -> InputTable:
    """A data frame as a table; the frame itself is not changed, and its index is no column.

    Args:
        frame: the columns.
        source: how sentences call it.
        notes: what was found out in reading it.

    Raises:
        DataError: if it has no rows, or two columns with the same name.
    """
    plain = frame.reset_index(drop=True).set_axis([str(name).strip() for name in frame.columns], axis=1)
    if len(plain) == 0:
        raise DataError(f"{source} has column names and no rows")
    twice = plain.columns[plain.columns.duplicated()]
    if len(twice):
        raise DataError(f"{source} has several columns called {twice[0]!r}: give each a name of its own")
    return InputTable(plain, source, tuple(notes))


def _with_row_names(frame: pd.DataFrame) -> pd.DataFrame:
    """A file with one cell more than names in each line: the first is the name of the row."""
    return frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index(names="row name")
