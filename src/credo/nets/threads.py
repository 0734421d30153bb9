"""A module for each thread: a functional call puts tensors into the module for as long as it runs."""

from __future__ import annotations

import copy
import threading
from weakref import WeakKeyDictionary

from torch import nn

_THREAD = threading.local()


def own_copy(module: nn.Module) -> nn.Module:
    """This thread's copy of a module that nobody calls itself, made when it is first asked for."""
    copies: WeakKeyDictionary[nn.Module, nn.Module] | None = getattr(_THREAD, "copies", None)
    if copies is None:
        copies = _THREAD.copies = WeakKeyDictionary()
    if module not in copies:
        copies[module] = copy.deepcopy(module)
    return copies[module]
