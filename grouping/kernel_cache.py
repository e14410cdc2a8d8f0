"""Compiles kernels, and caches them on disk until any of their sources changes.

Numba's cache checks only a function's file. If a kernel calls one of another file, which is updated, numba would
silently run the old code. Here a kernel's cache folder is named after the sources of its file and of all kernels that
it can call, and the constants that its file imports.

The folder's name doesn't depend on the sources' path. Executors of a cluster have separate copies of the archive with
the sources, but on one machine they share its compiled kernels.
"""

import hashlib
import logging
import os
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numba import config, njit
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

_settings: Any = config
_digests: dict[Dispatcher, str] = {}  # the kernels' so far


def kernel(function: F) -> F:
    """Compile a function on its first call, or load it from the cache, like numba's ``njit``.

    ``NUMBA_CACHE_DIR`` moves this cache, like numba's. Each process compiles the function itself if the cache isn't
    writable, or the function's source isn't found.
    """
    digest = _digest_sources(function)
    before = _settings.CACHE_DIR, getattr(_settings, "CACHE_LOCATOR_CLASSES", "")
    folder = Path(before[0] or cache_home()) / f"kernels-{digest}"
    _settings.CACHE_DIR = str(folder)
    _settings.CACHE_LOCATOR_CLASSES = f"{__name__}.{SourceCacheLocator.__name__}"
    try:
        compiled: Any = njit(function)
        if _read_source(function.__module__) and _is_writable(folder):
            compiled._cache = _Cache(function)  # noqa: SLF001  as numba's ``enable_caching`` does
    finally:
        _settings.CACHE_DIR, _settings.CACHE_LOCATOR_CLASSES = before
    _digests[compiled] = digest
    return compiled


class _Cache(FunctionCache):
    """Numba's cache, tolerating files truncated by a full disk or a crash."""

    _told = False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # noqa: BLE001  a pickle that isn't whole may raise any kind
            level = logging.INFO if _Cache._told else logging.WARNING  # once: a full disk truncates many
            _Cache._told = True
            log.log(level, "a compiled file in %s is damaged (%s): it is compiled again", self.cache_path, error)
            try:
                self.flush()
            except OSError:
                self.disable()
            return None


class SourceCacheLocator:
    """Lets numba cache a function in the folder of ``kernel``, wherever the function's source is."""

    def __init__(self, folder: str, line: int) -> None:
        self._folder = folder
        self._line = line

    @classmethod
    def from_function(cls, function: Callable[..., Any], _: str) -> "SourceCacheLocator":
        """The cache of one function."""
        return cls(_settings.CACHE_DIR, function.__code__.co_firstlineno)

    def get_cache_path(self) -> str:
        """The folder of the cache."""
        return self._folder

    def ensure_cache_path(self) -> None:
        """Make the folder."""
        Path(self._folder).mkdir(parents=True, exist_ok=True)

    def get_source_stamp(self) -> str:
        """The folder's name. Numba uses only cached functions with the same stamp."""
        return Path(self._folder).name

    def get_disambiguator(self) -> str:
        """The function's first line, which distinguishes functions of the same name."""
        return str(self._line)


def _digest_sources(function: Callable[..., Any]) -> str:
    """A digest of a function's file, and of the kernels, records and numbers that it imports."""
    parts = [_read_source(function.__module__)]
    for name, value in sorted(function.__globals__.items()):
        if name.startswith("__"):
            continue
        if isinstance(value, Dispatcher):
            module = value.py_func.__module__
            if module != function.__module__:
                parts.append(f"{name} {_digests.get(value) or _read_source(module)}")
        elif isinstance(value, type) and issubclass(value, tuple):
            parts.append(f"{name} {getattr(value, '_fields', ())}")
        elif isinstance(value, (int, float, str, tuple, np.generic)):
            parts.append(f"{name} {value!r}")
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


@lru_cache
def _read_source(module: str) -> str:
    found = find_spec(module)
    get = getattr(found.loader if found else None, "get_source", lambda _: None)  # also an archive's loader has it
    return get(module) or ""


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


@lru_cache
def cache_home() -> str:
    """The folder of the cache.

    It is next to the sources, or in the user's cache if that isn't writable or is in an archive.
    """
    beside = Path(__file__).parent / "__pycache__"
    if os.access(beside if beside.exists() else beside.parent, os.W_OK):
        return str(beside)
    return str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unskew")
