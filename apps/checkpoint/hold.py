"""A driver's hold on a checkpoint: of two drivers, the one that began last has it, and the other one ends.

A driver that has lost its hold doesn't take it back, however often its service manager starts it again, as long as the
other one is at work.

Two drivers may use one checkpoint. An update may start the new driver before the old one has ended. Or a driver that
stood still, because of a suspended machine or a long pause of its store, wakes up after another one was started. So
each driver writes its name into the checkpoint when it begins. Before any other write it checks whether the name there
is still its own.

Another driver may begin between a check and the write that follows it. docs/checkpoints says what such a late write can
do, and why it does no harm.
"""

import os
import socket
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from unskew.apps.checkpoint.location import Location, Where
from unskew.errors import EnvironmentFault, TakenOver

#: The variable by which a driver is told from others. It is the same when a service manager starts the driver again.
NAME_VARIABLE = "UNSKEW_DRIVER"

_HOLDER = "holder.json"
_CONTROL_GROUP = Path("/proc/self/cgroup")
_REMEMBERED = 20  # drivers that have lost the checkpoint


def driver_name() -> str:
    """The name of this driver, the same after each restart: by default of the host, and of the control group.

    A container has a host name of its own. A service of systemd has a control group of its own.
    """
    group = _CONTROL_GROUP.read_text().strip() if _CONTROL_GROUP.exists() else ""
    return os.environ.get(NAME_VARIABLE) or f"{socket.gethostname()} {group}".strip()


class Hold:
    """One driver's hold on a checkpoint.

    The record has one name, which the last writer sets, so no list of files is needed. If two drivers begin at the same
    moment, one sees the other's name at its next check, on any store.

    Parameters
    ----------
    checkpoint : str or Location
        The query's checkpoint location.

    """

    def __init__(self, checkpoint: Where) -> None:
        self._location = Location.of(checkpoint)
        self._folder = self._location.folder("unskew")
        self._driver = uuid.uuid4().hex

    def lost_to(self) -> dict[str, Any] | None:
        """The record of the driver that has taken the checkpoint from this one. None: there is none, or it has ended.

        This driver is the one that had it if it has the same name.
        """
        holder = self._holder()
        return holder if holder and driver_name() in holder.get("lost", ()) and not holder.get("ended") else None

    def take(self) -> None:
        """Take the checkpoint. The driver that had it before ends at its next check.

        Raises
        ------
        EnvironmentFault
            The checkpoint can't be written.

        """
        name, before = driver_name(), self._holder() or {}
        lost = dict.fromkeys([*before.get("lost", []), *([before["name"]] if "name" in before else [])])
        lost.pop(name, None)
        self._write(
            {
                "driver": self._driver,
                "process": os.getpid(),
                "host": socket.gethostname(),
                "since": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
                "name": name,
                "lost": [*lost][-_REMEMBERED:],
            }
        )

    def end(self) -> None:
        """Say that this driver has come to its end, if it still has the checkpoint."""
        holder = self._holder()
        if holder and holder["driver"] == self._driver:
            self._write(holder | {"ended": True})

    def require(self) -> None:
        """Check whether this driver still has the checkpoint.

        Raises
        ------
        TakenOver
            Another driver has it.
        EnvironmentFault
            The checkpoint can't be read.

        """
        holder = self._holder()
        if holder is None:
            record = self._location.below("unskew", _HOLDER)
            raise EnvironmentFault(f"{record} names the checkpoint's driver, but can't be read")
        if holder["driver"] != self._driver:
            raise TakenOver(
                f"another driver ({described(holder)}) goes on with the checkpoint {self._location}: this one ends"
            )

    def _holder(self) -> dict[str, Any] | None:
        """The record of the driver that has the checkpoint. None: there is none that can be read."""
        try:
            return orjson.loads(self._folder.read(_HOLDER))
        except (FileNotFoundError, orjson.JSONDecodeError):
            return None

    def _write(self, record: dict[str, Any]) -> None:
        self._folder.write(_HOLDER, orjson.dumps(record, option=orjson.OPT_INDENT_2))


def described(holder: dict[str, Any]) -> str:
    """Where the driver of a record is, and since when."""
    return f"process {holder['process']} on {holder['host']}, since {holder['since']} UTC"
