"""What a load must remember to go on after a crash: little, as the topic itself says how far it came."""

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from unskew.deploy.home import home
from unskew.errors import EnvironmentFault, UsageError
from unskew.producers.dataset import Dataset

_EVERY = 5.0  # seconds between two noted places
_PLACES = 20  # the last ones: what is missing begins no further back than what was under way


class Journal:
    """A load's file: where the topic's partitions ended when it began, and some places of its way through the dataset.

    Each partition gets its records in order, and delivery leaves no gap. So the partition's first records after the
    begin are the load's first records of that partition, as many as there are now: this tells what is missing.

    Parameters
    ----------
    topic : str
        Where the load goes.
    dataset : Dataset
        What is loaded; it must have an ``identity``.
    directory : Path, optional
        Where journals are; by default with the project's other files.

    Raises
    ------
    UsageError
        The dataset can't be read a second time.

    """

    def __init__(self, topic: str, dataset: Dataset, directory: Path | None = None) -> None:
        identity = dataset.identity()
        if identity is None:
            raise UsageError("--resume needs files or generated records: standard input can't be read again")
        self._identity = {"topic": topic, **identity}
        digest = hashlib.sha256(orjson.dumps(self._identity, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
        self._path = (directory or home() / "loads") / f"{topic}-{digest}.json"
        self._dataset = dataset
        self._state: dict[str, Any] = {}
        self._noted = 0.0

    @property
    def begun(self) -> list[int]:
        """Offset of each partition when the load began."""
        return self._state["begin"]

    @property
    def rule(self) -> str:
        """What chose the records' partitions."""
        return self._state["rule"]

    @property
    def finished(self) -> bool:
        """All was delivered."""
        return bool(self._state.get("finished"))

    def load(self) -> bool:
        """Take up what an earlier load wrote down; False if there was none of this dataset to this topic.

        Raises
        ------
        UsageError
            The file can't be understood.

        """
        try:
            self._state = orjson.loads(self._path.read_bytes())
        except FileNotFoundError:
            return False
        except (OSError, orjson.JSONDecodeError) as error:
            raise UsageError(f"{self._path} can't be read ({error}); load without --resume") from None
        return True

    def begin(self, offsets: Sequence[int], rule: str) -> None:
        """A new load begins where the topic's partitions end at these offsets; ``rule`` chooses among them."""
        self._state = {"load": self._identity, "begin": list(offsets), "rule": rule, "places": []}
        self._write()

    def note(self) -> None:
        """Remember the dataset's place, now and then."""
        place = self._dataset.place()
        if place is None or time.monotonic() - self._noted < _EVERY:
            return
        self._noted = time.monotonic()
        self._state["places"].append(place)
        del self._state["places"][:-_PLACES]
        self._write()

    def recall(self, position: int) -> None:
        """Show the dataset the last known place that is not behind this position."""
        known: list[Mapping[str, Any]] = [place for place in self._state["places"] if place["position"] <= position]
        if known:
            self._dataset.recall(known[-1])

    def finish(self) -> None:
        """All is delivered."""
        self._state["finished"] = True
        self._write()

    def _write(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            new = self._path.with_suffix(".new")
            with new.open("wb") as file:
                file.write(orjson.dumps(self._state))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            raise EnvironmentFault(f"{self._path} can't be written: {error.strerror}") from None
