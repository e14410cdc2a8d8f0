"""What becomes of states: they begin with a key's first tuple, change, meet, and leave when their time is over."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.apps.keyed.calls import Calls
from unskew.apps.keyed.table import KEY, LAST, Table, Touched, known
from unskew.grouping.keys import Keys, encode
from unskew.works.interface import Now

_LONG_AGO = np.iinfo(np.int64).min


class Keeper:
    """The states of one work in one table; what it tells is gathered in ``told``.

    Parameters
    ----------
    table : Table
        Where they are.
    calls : Calls
        The work.
    ttl_ms : int, optional
        How long after its last tuple a state leaves.

    Attributes
    ----------
    told : list of (window, RecordBatch)
        Results: the key and the work's columns. Whoever takes them empties the list.
    finished : int
        States that have left.

    """

    def __init__(self, table: Table, calls: Calls, ttl_ms: int | None = None) -> None:
        self.table = table
        self.told: list[tuple[int, pa.RecordBatch]] = []
        self.finished = 0
        self._calls = calls
        self._ttl = ttl_ms

    def update(
        self, window: int, keys: Keys, tuples: pa.RecordBatch, now: Now, *, over_ms: int | None, whole: bool
    ) -> None:
        """Take in tuples.

        Parameters
        ----------
        window : int
            The window that they are of.
        keys : Keys
            Their k keys, all of which occur.
        tuples : RecordBatch
            ``time`` and the work's columns.
        now : Now
            The time.
        over_ms : int, optional
            Keys that had expired before this have a new beginning.
        whole : bool
            Whether this is all there is of the keys: then results are certain.

        """
        touched, before, last = self._begin(window, keys, over_ms, now)
        given = pa.RecordBatch.from_arrays(
            [pa.array(keys.codes), *tuples.columns], ["slot", *tuples.schema.names]
        )  # fmt: skip
        results, after = self._calls.update(given, before, now, keys.distinct)
        if whole:
            self._tell(window, keys.distinct, results)
            results, after = self._calls.settle(before, after, now, keys.distinct)
            self._tell(window, keys.distinct, results)
        np.maximum.at(last, keys.codes, tuples.column("time").to_numpy())
        self.table.put(window, touched, last, after)

    def merge(self, window: int, fragments: pa.RecordBatch, now: Now, over_ms: int | None) -> None:
        """Take in states that workers have handed over: rows of the table's schema, several a key."""
        keys = encode(fragments.column(KEY))
        touched, before, last = self._begin(window, keys, over_ms, now)
        old = known(before)
        states = pa.concat_batches([before.filter(pa.array(old)), fragments.select(self.table.state.names)])
        slots = np.concatenate([np.flatnonzero(old).astype(np.int32), keys.codes])
        merged = self._calls.merge(states, pa.array(slots), keys.distinct)
        results, after = self._calls.settle(before, merged, now, keys.distinct)
        self._tell(window, keys.distinct, results)
        np.maximum.at(last, keys.codes, fragments.column(LAST).to_numpy())
        self.table.put(window, touched, last, after)

    def close(self, window: int, now: Now) -> None:
        """Let all states of a window leave."""
        self._finish(window, self.table.take(window), now)

    def expire(self, at_ms: int, now: Now) -> None:
        """Let the states leave whose TTL is over."""
        self._finish(0, self.table.expired(at_ms), now)

    def _begin(
        self, window: int, keys: Keys, over_ms: int | None, now: Now
    ) -> tuple[Touched, pa.RecordBatch, NDArray[np.int64]]:
        """The keys' buckets, their states (null: none), and when they had their last tuple."""
        touched = self.table.touch(window, keys)
        last = np.full(len(touched.at), _LONG_AGO)
        there = touched.at >= 0
        last[there] = touched.rows.column(LAST).to_numpy()[touched.at[there]]
        if self._ttl is not None and over_ms is not None:
            over = there & (last + self._ttl * there <= over_ms)
            if over.any():
                self._finish(window, touched.rows.take(pa.array(touched.at[over])), now)
                there &= ~over
                last[over] = _LONG_AGO
        at = pa.array(touched.at, mask=~there)
        return touched, touched.rows.select(self.table.state.names).take(at), last

    def _finish(self, window: int, rows: pa.RecordBatch, now: Now) -> None:
        if rows.num_rows:
            keys = rows.column(KEY)
            self.finished += rows.num_rows
            self._tell(window, keys, self._calls.finish(rows.select(self.table.state.names), now, keys))

    def _tell(self, window: int, keys: pa.Array, results: pa.RecordBatch | None) -> None:
        if results is not None:
            of = keys.take(results.column("slot"))
            names = results.schema.names[1:]
            self.told.append((window, pa.RecordBatch.from_arrays([of, *results.columns[1:]], [KEY, *names])))
