"""The blobs of a task that are more than Spark takes at once: they lie beside the checkpoint.

pyspark makes one Arrow batch of all rows that an operator of states gives in one call, and an Arrow column of blobs
ends at 2 GiB. (The timers of all groups of a task are one call.) An operator can't divide them. And the driver takes
1 GiB of results from a job, by default. So a task gives blobs up to a bound. A further blob is written as a file, and
its row has the file's name instead. Whoever opens the row reads the file.

The files of a batch are ``unskew/overflow/<sender>/<batch>/<number>``. Another attempt writes the same files again.
When the sender works on a later batch, Spark has committed this one, so nobody reads the files any more, and the
sender removes them.
"""

from unskew.apps.checkpoint.folders import list_numbers, read_patiently, should_tidy
from unskew.apps.checkpoint.location import Location, Where
from unskew.errors import EnvironmentFault

#: The most bytes of blobs that one call of an operator gives through Spark.
MOST = 1 << 30

# No Arrow stream begins like this, and no heartbeat's blob does.
_FILE = b"file:"
# Where each request costs money, old files are looked for in one of so many batches.
_SELDOM = 64


class Overflow:
    """What one call of an operator gives: at most ``most`` bytes of blobs through Spark, and the others as files.

    Without the query's checkpoint location there are no files, and no bound.
    """

    def __init__(self, where: Where | None, most: int = MOST) -> None:
        self._location = None if where is None else _locate_overflow(where)
        self._room = most

    def put(self, sender: str, batch: int, number: int, blob: bytes) -> bytes:
        """The blob itself for a row, or the name of its file. ``number`` is the row's among the sender's rows."""
        if self._location is None or len(blob) <= self._room:
            self._room -= len(blob)
            return blob
        self._room = 0  # a later blob that fits becomes a file too, so that luck doesn't decide
        self._location.folder(sender, str(batch)).write(str(number), blob)
        return _FILE + f"{sender}/{batch}/{number}".encode()

    def forget(self, sender: str, batch: int) -> None:
        """Remove the files of a sender from batches before this one."""
        if self._location is None:
            return
        folder = self._location.folder(sender)
        if not should_tidy(folder, f"{sender} {batch}", _SELDOM):
            return
        for old in list_numbers(folder):
            if old < batch:
                self._location.folder(sender, str(old)).clear()


def fetch_blob(blob: bytes, where: Where | None) -> bytes:
    """The blob that ``Overflow.put`` was given. ``where`` is the query's checkpoint location.

    Raises ``EnvironmentFault`` if its file isn't there.
    """
    if where is None or not blob.startswith(_FILE):
        return blob
    sender, batch, number = blob.removeprefix(_FILE).decode().split("/")
    location = _locate_overflow(where)
    try:
        return read_patiently(lambda: location.folder(sender, batch).read(number))
    except FileNotFoundError as error:
        raise EnvironmentFault(
            f"what {sender} gave in batch {batch} is not in {location.below(sender, batch, number)}: "
            "does every machine see the checkpoint?"
        ) from error


def _locate_overflow(where: Where) -> Location:
    return Location.of(where).below("unskew", "overflow")
