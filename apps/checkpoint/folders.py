"""Folders of a checkpoint: the interface of all kinds of stores, and the files of this machine."""

import contextlib
import errno
import os
import re
import shutil
import time
import uuid
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from unskew.errors import EnvironmentFault, UserError

T = TypeVar("T")
PATIENCE = 90.0  # s
_LOOK_EVERY = 0.5  # s
# The errors of file systems without links.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class Folder(ABC):
    """A folder of files, each of which is written as a whole."""

    costly: bool  #: Whether each request costs money, so that needless ones should be avoided.

    @abstractmethod
    def names(self) -> list[str]:
        """The names of the files and folders in it. If there is no such folder, there are none."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """A file's bytes. Raises ``FileNotFoundError`` if there is no such file."""

    @abstractmethod
    def open(self, name: str) -> pa.NativeFile:
        """A file to read parts of."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Write a file, or replace the one of that name. After the call the file survives a crash.

        A missing folder is made. A reader finds the whole old file or the whole new one, even after a crash.
        """

    @abstractmethod
    def create(self, name: str, data: bytes) -> bool:
        """Write a file as ``write`` does, unless there is one of that name. Return whether it was written.

        If several callers create the same file at the same moment, one of them writes it. A store without such an
        operation says so.
        """

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, if it is still there."""

    @abstractmethod
    def clear(self) -> None:
        """Remove the folder and everything in it, if it exists."""


def read_patiently(read: Callable[[], T]) -> T:
    """What ``read`` returns as soon as it finds a file that another machine has written.

    A network file system may remember for a minute that a file was missing. Raises ``FileNotFoundError`` if it isn't
    there after ``PATIENCE``.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return read()
        except FileNotFoundError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_LOOK_EVERY)


def should_tidy(folder: Folder, what: str, seldom: int) -> bool:
    """Whether to look for a folder's old files now. Where requests cost money, that is once in ``seldom`` times.

    ``what`` names the write after which to look, so that the writes of many folders don't look at the same moment.
    """
    return not (folder.costly and zlib.crc32(what.encode()) % seldom)


def list_numbers(folder: Folder) -> list[int]:
    """The names in a folder that are numbers, ascending: numbers of versions, batches or plans."""
    return filter_numbers(folder.names())


def filter_numbers(names: Iterable[str]) -> list[int]:
    """The names that are numbers, ascending.

    >>> filter_numbers(["10", "9", "²"])
    [9, 10]
    """
    return sorted(int(name) for name in names if name.isdecimal() and name.isascii())


def list_just_below(folder: str, paths: Iterable[str]) -> list[str]:
    """The names of files and folders right below a folder of a store that has only paths.

    Paths of folders have a slash at the end. The folder's own may be among them: others mark folders so.

    >>> list_just_below("a/", ["a/", "a/1", "a/b/"])
    ['1', 'b']
    """
    names = dict.fromkeys(path.removeprefix(folder).rstrip("/") for path in paths)
    return [name for name in names if name]


def find_unlisted(newest: int, there: Callable[[int], bool]) -> list[int]:
    """The numbers that exist after the newest number in a list, because a list may lack what was written lately.

    >>> find_unlisted(3, {1, 2, 3, 4, 5, 9}.__contains__)
    [4, 5]
    """
    found: list[int] = []
    while (number := next((n for n in (newest + 1, newest + 2) if there(n)), None)) is not None:
        found.append(newest := number)
    return found


def name_partial(name: str) -> str:
    """A name for an incomplete file. No reader takes this name for a number."""
    return f".{name}-{uuid.uuid4().hex}"


def find_partials(names: Iterable[str]) -> dict[str, str]:
    """Those names that ``name_partial`` has made, each with the name of the complete file."""
    found = ((name, re.fullmatch(r"\.(.+)-[0-9a-f]{32}", name)) for name in names)
    return {name: match[1] for name, match in found if match}


class LocalFolder(Folder):
    """A folder on this machine, or on a network file system that is mounted here."""

    costly = False

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def names(self) -> list[str]:
        try:
            return [path.name for path in self._path.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()

    def open(self, name: str) -> pa.NativeFile:
        return pa.OSFile(str(self._path / name))

    def write(self, name: str, data: bytes) -> None:
        self._write_unfinished(name, data).replace(self._path / name)
        self._sync()

    def create(self, name: str, data: bytes) -> bool:
        """It makes a link, which fails if there is a file of that name."""
        if (self._path / name).exists():
            return False
        unfinished = self._write_unfinished(name, data)
        try:
            (self._path / name).hardlink_to(unfinished)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            unfinished.replace(self._path / name)
        finally:
            unfinished.unlink(missing_ok=True)
        self._sync()
        return True

    def _write_unfinished(self, name: str, data: bytes) -> Path:
        """Write a file under a name that no reader takes for a number."""
        self._path.mkdir(parents=True, exist_ok=True)
        unfinished = self._path / name_partial(name)
        try:
            with unfinished.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:  # for example, the disk is full: leave nothing half-written on it
            unfinished.unlink(missing_ok=True)
            raise
        return unfinished

    def _sync(self) -> None:
        """Let the list of the folder's files survive a crash, too."""
        folder = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)

    def clear(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._path)


class ObjectFolder(Folder):
    """A folder of a store of objects: those whose paths begin with its own. The client's errors are those of a disk."""

    costly = True

    def __init__(self, path: str) -> None:
        self._start = f"{path.strip('/')}/".lstrip("/")

    @abstractmethod
    def _list_paths(self, *, recursive: bool) -> list[str]: ...

    @abstractmethod
    def _upload(self, path: str, data: bytes, *, replace: bool) -> None: ...

    @abstractmethod
    def _delete(self, path: str) -> None: ...

    def names(self) -> list[str]:
        return list_just_below(self._start, self._list_paths(recursive=False))

    def write(self, name: str, data: bytes) -> None:
        self._upload(self._start + name, data, replace=True)

    def create(self, name: str, data: bytes) -> bool:
        """An upload on the condition that there is no object of that name.

        If the answer is lost, the client sends the request again, and finds what the first one has written.
        """
        try:
            self._upload(self._start + name, data, replace=False)
        except FileExistsError:
            return False
        return True

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._delete(self._start + name)

    def clear(self) -> None:
        """It takes the requests to list and to delete each object."""
        for path in reversed(self._list_paths(recursive=True)):  # a data lake also lists folders, which must be empty
            self.remove(path.removeprefix(self._start))


class AddressedFolder(Folder):
    """A folder whose errors are one line with its address, on the driver as in a task.

    Each method raises ``EnvironmentFault`` if the store can't be reached, or refuses the request.
    """

    def __init__(self, folder: Folder, address: str) -> None:
        self.costly = folder.costly
        self._folder = folder
        self._address = address

    def names(self) -> list[str]:
        with report_store_errors(self._address, "read"):
            return self._folder.names()

    def read(self, name: str) -> bytes:
        with report_store_errors(self._address, "read", FileNotFoundError):
            return self._folder.read(name)

    def open(self, name: str) -> pa.NativeFile:
        with report_store_errors(self._address, "read", FileNotFoundError):
            return self._folder.open(name)

    def write(self, name: str, data: bytes) -> None:
        with report_store_errors(self._address, "written"):
            self._folder.write(name, data)

    def create(self, name: str, data: bytes) -> bool:
        with report_store_errors(self._address, "written"):
            return self._folder.create(name, data)

    def remove(self, name: str) -> None:
        with report_store_errors(self._address, "written"):
            self._folder.remove(name)

    def clear(self) -> None:
        with report_store_errors(self._address, "written"):
            self._folder.clear()


@contextlib.contextmanager
def report_store_errors(address: str, done: str, *unchanged: type[Exception]) -> Iterator[None]:
    """Turn an error of the store into one line. Errors of the kinds ``unchanged`` are raised as they are.

    Raises
    ------
    EnvironmentFault
        The location can't be ``done``, such as read or written. The message says why.

    """
    try:
        yield
    except (UserError, *unchanged):
        raise
    except (OSError, RuntimeError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise EnvironmentFault(f"the checkpoint location {address} can't be {done} ({reason})") from error
