"""Versioned values beside a query's checkpoint: what makes a replayed batch see what its first run saw.

Version ``b`` is what holds at the start of batch ``b``. It is written by batch ``b - 1``, whole or not at all, and a
second attempt writes the same bytes; so attempts may race, and a reader of batch ``b`` never sees what batch ``b``
itself wrote.
"""

import contextlib
import os
import posixpath
import uuid

from pyarrow import fs

_DIGITS = 12
#: More batches than a run will have: the newest version of all is the newest up to this one.
ANY_BATCH = 1 << 40
# A replay needs the newest version ≤ b; one more is kept for whoever looks at a checkpoint by hand.
_KEEP = 3


class Versions:
    """One value's versions in one folder, on any file system that ``pyarrow.fs`` speaks (local, S3, HDFS, GCS).

    Parameters
    ----------
    location : str
        A folder as a path or URI; created by the first ``write``.

    """

    def __init__(self, location: str) -> None:
        self.location = location
        self._fs, self._folder = filesystem(location)

    def newest(self, at_most: int) -> tuple[int, bytes] | None:
        """The newest version ≤ ``at_most`` and its bytes, or None where there is none."""
        versions = [v for v in self._versions() if v <= at_most]
        if not versions:
            return None
        with self._fs.open_input_stream(self._path(max(versions))) as stream:
            return max(versions), stream.read()

    def write(self, version: int, data: bytes) -> None:
        """Write a version atomically, then remove what no replay can ask for any more."""
        self._fs.create_dir(self._folder, recursive=True)
        write_whole(self._fs, self._path(version), data)
        for old in sorted(v for v in self._versions() if v < version)[: -(_KEEP - 1)]:
            # Another attempt of the same task may be tidying too.
            with contextlib.suppress(FileNotFoundError):
                self._fs.delete_file(self._path(old))

    def _versions(self) -> list[int]:
        files = self._fs.get_file_info(fs.FileSelector(self._folder, allow_not_found=True))
        return [int(f.base_name) for f in files if f.base_name.isdigit()]

    def _path(self, version: int) -> str:
        return posixpath.join(self._folder, f"{version:0{_DIGITS}d}")


def write_whole(files: fs.FileSystem, path: str, data: bytes) -> None:
    """Write a file whole or not at all; when it is there, it is on the disk."""
    folder, name = posixpath.split(path)
    # Not seen by readers until it is whole: its name is no number.
    partial = posixpath.join(folder, f".{name}-{uuid.uuid4().hex}")
    with files.open_output_stream(partial) as stream:
        stream.write(data)
    local = isinstance(files, fs.LocalFileSystem)
    if local:
        _sync(partial)
    files.move(partial, path)
    if local:
        _sync(folder)


def _sync(path: str) -> None:
    """Return when the disk has what was written to a file, or to a folder's list of files."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def filesystem(location: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URI, and the path in it."""
    if "://" in location or location.startswith("file:"):
        # Spark also writes file:/path, which is the same as file:///path
        uri = (
            location.replace("file:/", "file:///", 1)
            if location.startswith("file:/") and "///" not in location
            else location
        )
        return fs.FileSystem.from_uri(uri)
    return fs.LocalFileSystem(), posixpath.abspath(location)
