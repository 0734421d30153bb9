"""Files from the web: resumed where they are cut short, given up when nothing comes, believed by their checksum."""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from credo.data import DataError

STALL_SECONDS = 30.0
"""Without a byte from the other side, after which a connection counts as broken."""
ATTEMPTS = 4
"""Connections for one file; each goes on where the one before broke."""
BLOCK = 2**18
"""Bytes at a time."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Show = Callable[[str, float | None], None]
"""Is called with what is going on, and which part of it is done."""


class NoDownloadError(DataError):
    """A file that did not come, with a sentence that says why."""


class DiskFullError(DataError):
    """A folder that takes no more; another source would not help."""


@dataclass(frozen=True)
class Link:
    """A file on the web.

    Attributes:
        url: where it lies.
        size: in bytes; what is longer is not read to its end.
        checksum: "sha256:..." or "md5:..."; empty where only the content is known.
    """

    url: str
    size: int
    checksum: str = ""

    @property
    def name(self) -> str:
        """Of the file."""
        return self.url.rpartition("/")[2]


class _Cut(Exception):  # noqa: N818 (no error yet: another connection goes on)
    """A connection that broke."""


def fetch(link: Link, folder: Path, show: Show = lambda text, share: None, *, stall: float = STALL_SECONDS) -> Path:
    """Download a file, whole or not at all.

    Args:
        link: which file.
        folder: where it goes.
        show: is called as bytes come, with a text and the part that is done.
        stall: seconds without a byte, after which a connection counts as broken.

    Raises:
        NoDownloadError: if it cannot be had, or is not the file that it should be.
        DiskFullError: if the folder takes no more.
    """
    part, broken = folder / f"{link.name}.part", ""
    try:
        for attempt in range(ATTEMPTS):
            try:
                _receive(link, part, show, stall)
                return _checked(link, part)
            except _Cut as cut:
                broken = str(cut)
                if attempt + 1 < ATTEMPTS:
                    time.sleep(0.2 * attempt)
        raise NoDownloadError(f"{link.url} broke off {ATTEMPTS} times ({broken})")
    except OSError as error:
        if error.errno not in FULL:
            raise NoDownloadError(f"{link.url} could not be saved to {folder} ({error.strerror or error})") from None
        raise DiskFullError(
            f"the disk of {folder} is full: {link.name} takes {link.size / 1e6:.0f} MB; make room, or let CREDO_CACHE "
            "name a folder on another disk"
        ) from None
    finally:
        part.unlink(missing_ok=True)


def _receive(link: Link, part: Path, show: Show, stall: float) -> None:
    """Append what is missing of a file."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(link.url, headers={"User-Agent": "credo", **_range(have)})
    try:
        with urllib.request.urlopen(request, timeout=stall) as answer:
            if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
                have = 0  # it begins anew
            length = answer.headers.get("Content-Length")
            total = link.size if length is None else have + int(length)
            _write(answer, part, have, total, link, show)
    except DataError:
        raise
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink(missing_ok=True)
        if error.code >= 500 or error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise _Cut(f"HTTP status {error.code}") from None
        raise NoDownloadError(f"{link.url} is not to be had (HTTP status {error.code})") from None
    except (TimeoutError, http.client.HTTPException, ConnectionError, ValueError) as error:
        said = f"nothing came for {stall:g} seconds" if isinstance(error, TimeoutError) else f"{error}"
        raise _Cut(said or type(error).__name__) from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError | ConnectionError):
            raise _Cut(f"no answer: {error.reason}") from None
        raise NoDownloadError(f"{link.url} cannot be reached ({error.reason}): is there a network?") from None


def _range(have: int) -> dict[str, str]:
    return {"Range": f"bytes={have}-"} if have else {}


def _write(answer: http.client.HTTPResponse, part: Path, have: int, total: int, link: Link, show: Show) -> None:
    with part.open("ab" if have else "wb") as file:
        begin, first = time.monotonic(), have
        while block := answer.read1(BLOCK):
            file.write(block)
            have += len(block)
            if have > max(total, link.size):
                raise NoDownloadError(f"{link.url} is longer than the {link.size:,} bytes that it should have")
            rate = (have - first) / max(time.monotonic() - begin, 1e-3)
            left = f", {(total - have) / rate:.0f} s left" if have < total else ""
            show(f"downloading {link.name}: {have / 1e6:.1f} of {total / 1e6:.1f} MB{left}", have / max(total, 1))
    if have < total:
        raise _Cut(f"{have:,} of {total:,} bytes came")


def _checked(link: Link, part: Path) -> Path:
    """The file under its own name, if it is the known one."""
    if link.checksum:
        kind, _, known = link.checksum.partition(":")
        with part.open("rb") as file:
            found = hashlib.file_digest(file, kind).hexdigest()
        if found != known:
            raise NoDownloadError(
                f"{link.url} has another {kind.upper()} checksum ({found[:12]}...) than the file that credo knows "
                f"({known[:12]}...): it was changed, there or on the way, and is not used"
            )
    target = part.with_name(link.name)
    os.replace(part, target)
    return target
