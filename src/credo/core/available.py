"""How much memory there is."""

from __future__ import annotations

import math
import os

import torch

UNKNOWN = 8 * 2**30
"""Bytes that are taken to be there where the system does not say."""


def available_bytes(device: torch.device) -> int:
    """Free memory of a GPU, or of the machine."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # a name that this system does not have
        return UNKNOWN


def shown_bytes(count: float) -> str:
    """For a person.

    Examples:
        >>> shown_bytes(3 * 2**20)
        '3.0 MiB'
    """
    power = min(4, max(0, math.floor(math.log(max(count, 1.0), 1024))))
    unit = ("bytes", "KiB", "MiB", "GiB", "TiB")[power]
    return f"{count:.0f} bytes" if power == 0 else f"{count / 1024**power:.1f} {unit}"
