"""Versioned values beside a query's checkpoint: what makes a replayed batch see what its first run saw.

Version ``b`` is what holds at the start of batch ``b``. It is written by batch ``b - 1``, whole or not at all, and a
second attempt writes the same bytes; so attempts may race, and a reader of batch ``b`` never sees what batch ``b``
itself wrote.
"""

import contextlib
import zlib

from unskew.apps.checkpoint.folders import numbers
from unskew.apps.checkpoint.place import Place, Where

_DIGITS = 12
#: More batches than a run will have: the newest version of all is the newest up to this one.
ANY_BATCH = 1 << 40
# A replay needs the newest version ≤ b; one more is kept for whoever looks at a checkpoint by hand.
_KEEP = 3
# Where each request costs money, old versions are looked for after one write of so many.
_SELDOM = 8


class Versions:
    """One value's versions in one folder, wherever a checkpoint may lie.

    Parameters
    ----------
    where : str or Place
        The folder; created by the first ``write``.

    """

    def __init__(self, where: Where) -> None:
        place = Place.of(where)
        self._address = place.address
        self._folder = place.folder()

    def newest(self, at_most: int) -> tuple[int, bytes] | None:
        """The newest version ≤ ``at_most`` and its bytes, or None where there is none."""
        # As a rule there is this very one, and to read it is cheaper than to look for the newest.
        if self._folder.costly and at_most != ANY_BATCH:
            with contextlib.suppress(FileNotFoundError):
                return at_most, self._folder.read(_name(at_most))
        versions = [v for v in numbers(self._folder) if v <= at_most]
        return (versions[-1], self._folder.read(_name(versions[-1]))) if versions else None

    def write(self, version: int, data: bytes) -> None:
        """Write a version atomically, then remove what no replay can ask for any more."""
        self._folder.write(_name(version), data)
        if self._folder.costly and zlib.crc32(f"{self._address} {version}".encode()) % _SELDOM:
            return
        for old in [v for v in numbers(self._folder) if v < version][: -(_KEEP - 1)]:
            self._folder.remove(_name(old))  # another attempt of the same task may be tidying too


def _name(version: int) -> str:
    return f"{version:0{_DIGITS}d}"
