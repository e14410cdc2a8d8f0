"""Folders of a checkpoint: what each kind of store must be able to do, and the files of this machine."""

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from unskew.errors import EnvironmentFault


class Folder(Protocol):
    """A folder of files that are written whole.

    Attributes
    ----------
    costly : bool
        Whether each request costs money, and none should be made that isn't needed.

    """

    costly: bool

    def names(self) -> list[str]:
        """The names of what lies in it; none if there is no such folder."""
        ...

    def read(self, name: str) -> bytes:
        """A file's bytes; ``FileNotFoundError`` if there is none."""
        ...

    def open(self, name: str) -> pa.NativeFile:
        """A file to read parts of."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write a file, in place of the one that may be there, whole or not at all; when it is there, it lasts.

        The folder is made if need be. A reader, or who comes after a crash, finds the old file or the new one.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is still there."""
        ...

    def clear(self) -> None:
        """Remove the folder with all that lies in it, if it is there."""
        ...


def numbers(folder: Folder) -> list[int]:
    """What files and folders are named by numbers, ascending: versions, batches, plans."""
    return sorted(int(name) for name in folder.names() if name.isdigit())


def partial(name: str) -> str:
    """A name for what isn't whole yet; no reader takes it for a number."""
    return f".{name}-{uuid.uuid4().hex}"


class LocalFolder:
    """A folder of this machine, or of a network file system that is mounted here.

    Parameters
    ----------
    path : str
        Absolute.

    """

    costly = False

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def names(self) -> list[str]:
        """As ``Folder``."""
        try:
            return [path.name for path in self._path.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, name: str) -> bytes:
        """As ``Folder``."""
        return (self._path / name).read_bytes()

    def open(self, name: str) -> pa.NativeFile:
        """As ``Folder``."""
        return pa.OSFile(str(self._path / name))

    def write(self, name: str, data: bytes) -> None:
        """As ``Folder``."""
        self._path.mkdir(parents=True, exist_ok=True)
        unfinished = self._path / partial(name)
        with unfinished.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._path / name)
        folder = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(folder)  # the list of its files, too
        finally:
            os.close(folder)

    def remove(self, name: str) -> None:
        """As ``Folder``."""
        (self._path / name).unlink(missing_ok=True)

    def clear(self) -> None:
        """As ``Folder``."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._path)


class ToldFolder:
    """A folder whose faults are told in a line, wherever it is used: on the driver, or in a task.

    Parameters
    ----------
    folder : Folder
        Any.
    address : str
        Where it is, for the reader.

    Raises
    ------
    EnvironmentFault
        By each method: it can't be reached, or refuses.

    """

    def __init__(self, folder: Folder, address: str) -> None:
        self.costly = folder.costly
        self._folder = folder
        self._address = address

    def names(self) -> list[str]:
        """As ``Folder``."""
        with told(self._address, "read"):
            return self._folder.names()

    def read(self, name: str) -> bytes:
        """As ``Folder``."""
        with told(self._address, "read", FileNotFoundError):
            return self._folder.read(name)

    def open(self, name: str) -> pa.NativeFile:
        """As ``Folder``."""
        with told(self._address, "read", FileNotFoundError):
            return self._folder.open(name)

    def write(self, name: str, data: bytes) -> None:
        """As ``Folder``."""
        with told(self._address, "written"):
            self._folder.write(name, data)

    def remove(self, name: str) -> None:
        """As ``Folder``."""
        with told(self._address, "written"):
            self._folder.remove(name)

    def clear(self) -> None:
        """As ``Folder``."""
        with told(self._address, "written"):
            self._folder.clear()


@contextlib.contextmanager
def told(address: str, done: str, *but: type[Exception]) -> Iterator[None]:
    """Tell in a line what goes wrong, but for errors of some kinds.

    Raises
    ------
    EnvironmentFault
        It can't be done.

    """
    try:
        yield
    except but:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise EnvironmentFault(f"the checkpoint location {address} can't be {done} ({said})") from error
