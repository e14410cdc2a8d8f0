"""A driver's hold on a checkpoint: of two drivers, the one that began last has it, and the other one ends.

A driver that has lost its hold doesn't take it back, however often its service manager starts it again, as long as the
other one is at work.

Two drivers may use one checkpoint. An update may start the new driver before the old one has ended. Or a driver that
stood still, because of a suspended machine or a long pause of its store, wakes up after another one was started. So
each driver writes its name into the checkpoint when it begins. Before any other write it checks whether the name there
is still its own.

Another driver may begin between a check and the write that follows it. evidence/faults/checkpoints.md says what such a
late write can do, and why it does no harm.
"""

import os
import re
import socket
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from unskew.apps.checkpoint.location import Location, Where
from unskew.errors import EnvironmentFault, LeaseLost

#: The environment variable with a driver's name. A service manager that starts the driver again gives the same name.
NAME_VARIABLE = "UNSKEW_DRIVER"

_HOLDER, _ENDED = "holder.json", "ended.json"
_CONTROL_GROUPS = Path("/proc/self/cgroup")
_REMEMBERED = 20  # drivers that have lost the checkpoint


def get_driver_name() -> str:
    """The name of this driver, the same after each restart.

    By default it is the name of the host, and that of systemd's service if there is one. A container has a host name of
    its own, which it keeps when it is started again.
    """
    groups = _CONTROL_GROUPS.read_text() if _CONTROL_GROUPS.exists() else ""
    service = re.search(r"/([^/\n]+\.service)$", groups, re.MULTILINE)
    return os.environ.get(NAME_VARIABLE) or " ".join([socket.gethostname(), *(service.groups() if service else ())])


class Lease:
    """One driver's hold on a checkpoint.

    The record has one name, which the last writer sets, so no list of files is needed. If two drivers begin at the same
    moment, one sees the other's name at its next check, on any store.
    """

    def __init__(self, checkpoint: Where) -> None:
        self._location = Location.of(checkpoint)
        self._folder = self._location.folder("unskew")
        self._driver = uuid.uuid4().hex

    def successor(self) -> dict[str, Any] | None:
        """The record of the driver that has taken the checkpoint from this one. None: there is none, or it has ended.

        A driver that was started again is the same driver if it has the same name.
        """
        holder = self._read(_HOLDER)
        if holder is None or get_driver_name() not in holder["lost"]:
            return None
        ended = self._read(_ENDED)
        return None if ended is not None and ended["driver"] == holder["driver"] else holder

    def acquire(self) -> None:
        """Take the checkpoint. The driver that had it before ends at its next check.

        Raises ``EnvironmentFault`` if the checkpoint can't be written.
        """
        name, before = get_driver_name(), self._read(_HOLDER)
        lost = dict.fromkeys([*before["lost"], before["name"]] if before else ())
        lost.pop(name, None)
        self._write(
            _HOLDER,
            {
                "driver": self._driver,
                "process": os.getpid(),
                "host": socket.gethostname(),
                "since": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
                "name": name,
                "lost": [*lost][-_REMEMBERED:],
            },
        )

    def release(self) -> None:
        """Record that this driver has ended, in a separate file, because the holder may be another one by now."""
        self._write(_ENDED, {"driver": self._driver})

    def require(self) -> None:
        """Check whether this driver still has the checkpoint.

        Raises ``LeaseLost`` if another driver has it; ``EnvironmentFault`` if the checkpoint can't be read.
        """
        holder = self._read(_HOLDER)
        if holder is None:
            record = self._location.below("unskew", _HOLDER)
            raise EnvironmentFault(f"{record} names the checkpoint's driver, but can't be read")
        if holder["driver"] != self._driver:
            raise LeaseLost(
                f"another driver ({describe_holder(holder)}) goes on with the checkpoint {self._location}: "
                "this one ends"
            )

    def _read(self, name: str) -> dict[str, Any] | None:
        """A record. None: there is none that can be read."""
        try:
            return orjson.loads(self._folder.read(name))
        except (FileNotFoundError, orjson.JSONDecodeError):
            return None

    def _write(self, name: str, record: dict[str, Any]) -> None:
        self._folder.write(name, orjson.dumps(record, option=orjson.OPT_INDENT_2))


def describe_holder(holder: dict[str, Any]) -> str:
    """Where the driver of a record is, and since when."""
    return f"process {holder['process']} on {holder['host']}, since {holder['since']} UTC"
