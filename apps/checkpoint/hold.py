"""A driver's hold on a checkpoint: of two drivers, the one that began last has it, and the other one ends.

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

import orjson

from unskew.apps.checkpoint.location import Location, Where
from unskew.errors import EnvironmentFault, TakenOver

_HOLDER = "holder.json"


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

    def take(self) -> None:
        """Take the checkpoint. The driver that had it before ends at its next check.

        Raises
        ------
        EnvironmentFault
            The checkpoint can't be written.

        """
        since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
        record = {"driver": self._driver, "process": os.getpid(), "host": socket.gethostname(), "since": since}
        self._folder.write(_HOLDER, orjson.dumps(record, option=orjson.OPT_INDENT_2))

    def require(self) -> None:
        """Check whether this driver still has the checkpoint.

        Raises
        ------
        TakenOver
            Another driver has it.
        EnvironmentFault
            The checkpoint can't be read.

        """
        try:
            holder = orjson.loads(self._folder.read(_HOLDER))
        except (FileNotFoundError, orjson.JSONDecodeError) as error:
            record = self._location.below("unskew", _HOLDER)
            raise EnvironmentFault(f"{record} names the checkpoint's driver, but can't be read ({error})") from error
        if holder["driver"] != self._driver:
            raise TakenOver(
                f"another driver (process {holder['process']} on {holder['host']}, since {holder['since']} UTC) goes "
                f"on with the checkpoint {self._location}: this one ends"
            )
