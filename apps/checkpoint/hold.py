"""A driver's hold on a checkpoint: of two drivers, the one that began last has it, and the other one ends.

Two drivers may be at work on one checkpoint: in an update that starts the new one before the old one has ended, or when
one that stood still (a suspended machine, a long pause of its store) wakes up after another has been started in its
place. Each driver writes its name into the checkpoint when it begins, and looks before it writes anything else whether
the name there is still its own.

Between a look and the write that follows it another driver may come. What such a late write can do, and why it does no
harm, docs/checkpoints says.
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

    The record has one name, and the last writer has it: no list is asked, and of two that begin at the same moment one
    sees the other's name at its next look, on any store.

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
        """Take the checkpoint; the driver that had it before ends at its next look.

        Raises
        ------
        EnvironmentFault
            The checkpoint can't be written.

        """
        since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
        record = {"driver": self._driver, "process": os.getpid(), "host": socket.gethostname(), "since": since}
        self._folder.write(_HOLDER, orjson.dumps(record, option=orjson.OPT_INDENT_2))

    def require(self) -> None:
        """Look whether this driver still has the checkpoint.

        Raises
        ------
        TakenOver
            Another one has it.
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
