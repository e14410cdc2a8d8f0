"""Compiled kernels, cached on disk, and compiled anew when anything that they are made of has changed.

Numba's own cache looks at a function's own file alone: a kernel that calls one of another file would go on with the
old one after an update, without a word. So a file's kernels are cached in a folder that is named after the sources of
all the kernels that they can call, and the constants that they take from elsewhere.
"""

import hashlib
import os
from collections.abc import Callable
from functools import lru_cache
from importlib.abc import InspectLoader
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numba import config, njit
from numba.core.dispatcher import Dispatcher

F = TypeVar("F", bound=Callable[..., Any])

_settings: Any = config
_digests: dict[Dispatcher, str] = {}  # of the kernels so far


def kernel(function: F) -> F:
    """Compile a function on its first call, or load it from the cache: numba's ``njit``."""
    digest = _digest(function)
    before = _settings.CACHE_DIR
    _settings.CACHE_DIR = str(Path(before or _cache_home()) / f"kernels-{digest}")
    try:
        compiled: Any = njit(cache=True)(function)
    finally:
        _settings.CACHE_DIR = before
    _digests[compiled] = digest
    return compiled


def _digest(function: Callable[..., Any]) -> str:
    """What a function is made of: its file, and the kernels, records and numbers that the file has from others."""
    parts = [_source(function.__module__)]
    for name, value in sorted(function.__globals__.items()):
        if name.startswith("__"):
            continue
        if isinstance(value, Dispatcher):
            module = value.py_func.__module__
            if module != function.__module__:
                parts.append(f"{name} {_digests.get(value) or _source(module)}")
        elif isinstance(value, type) and issubclass(value, tuple):
            parts.append(f"{name} {getattr(value, '_fields', ())}")
        elif isinstance(value, (int, float, str, tuple, np.generic)):
            parts.append(f"{name} {value!r}")
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


@lru_cache
def _source(module: str) -> str:
    found = find_spec(module)
    loader = found.loader if found else None
    return (loader.get_source(module) or "") if isinstance(loader, InspectLoader) else ""


@lru_cache
def _cache_home() -> str:
    """Beside the sources, or in the user's cache where these can't be written to (or are in an archive)."""
    beside = Path(__file__).parent / "__pycache__"
    if os.access(beside if beside.exists() else beside.parent, os.W_OK):
        return str(beside)
    return str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unskew")
