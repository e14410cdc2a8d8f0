"""The operator of ``balanced_lookup``: joins rows to what a function looks up of their key."""

import logging
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tenacity
from numpy.typing import NDArray

from unskew.apps.operators.errors import StateFault, describe_keys, find_cause, locate_error
from unskew.apps.operators.interface import KeyedOperator, Now, ResultsAndStates, make_results
from unskew.grouping.arguments import check_choice, check_integer

log = logging.getLogger(__name__)

#: n distinct keys → a row for each that exists: the column ``key``, and the columns looked up.
LookupFunction: TypeAlias = Callable[[pa.Array], pa.RecordBatch | pa.Table]

#: Which rows are in the result, and what happens if a lookup fails.
JOINS, REACTIONS = ("left", "inner"), ("fail", "ignore")

_LONGEST_WAIT = 5.0  # s, between attempts


class Lookup(KeyedOperator):
    """Join rows to what a function looks up of their key. Each worker caches what it has looked up.

    All workers' states of a key are copies of the same row (``local_state``). So any grouping runs the operator, and
    nothing is merged.

    Parameters
    ----------
    fetch : LookupFunction
        Looks up keys. It is called once per batch, with the keys that the worker hasn't cached, or that have expired.
    carried, found : Schema
        The rows' columns besides the key, and the columns looked up.
    ttl_ms, missing_ttl_ms : int
        How long a found row, or the absence of one, stays valid (ms).
    how : str
        ``left``: all rows; ``inner``: those that have a match.
    on_error : str
        ``fail``, or ``ignore``: rows then get what the worker last cached of their key, if anything.
    retries : int
        How often a failed lookup is retried, with pauses that double from 0.2 s to 5 s.

    Notes
    -----
    The columns of a result are those of ``carried``, then those of ``found``, as ``v0``, ``v1`` and so on. A batch that
    runs again may look up again.

    """

    local_state = True

    def __init__(
        self,
        fetch: LookupFunction,
        carried: pa.Schema,
        found: pa.Schema,
        ttl_ms: int,
        missing_ttl_ms: int,
        how: str = "left",
        on_error: str = "fail",
        retries: int = 4,
    ) -> None:
        self.fetch, self.found = fetch, found
        # Named by position, because the user's names may clash with others of the state or the results.
        self._values = pa.schema([pa.field(f"v{n}", kind) for n, kind in enumerate(found.types)])
        self.columns = ("key", *carried.names)
        self.types = dict(zip(carried.names, carried.types, strict=True))
        self.state = pa.schema([("fetched", pa.int64()), ("matched", pa.bool_()), *self._values])
        self.results = pa.schema([*carried, *self._values])
        self.ttl_ms, self.missing_ttl_ms = ttl_ms, missing_ttl_ms
        self.how, self.on_error = check_choice("how", how, JOINS), check_choice("on_error", on_error, REACTIONS)
        self.retries = check_integer("retries", retries, 0)

    def update(self, tuples: pa.RecordBatch, states: pa.RecordBatch, now: Now) -> ResultsAndStates:
        """Look up the keys that aren't cached, and join each row to its key's."""
        slots = tuples.column("slot")
        unknown = self._find_unknown(states, now.batch_ms)
        keys = self._read_keys(tuples, states.num_rows)
        unknown &= keys.is_valid().to_numpy(zero_copy_only=False)  # null matches nothing
        after = self._refresh(states, keys, unknown, now.batch_ms) if unknown.any() else states
        rows = tuples
        if self.how == "inner":
            matches = after.column("matched").fill_null(False).take(slots)
            rows, slots = tuples.filter(matches), slots.filter(matches)
        carried = (self.column(rows, name) for name in self.columns[1:])
        values = (after.column(name).take(slots) for name in self._values.names)
        return make_results(self, slots, *carried, *values), after

    def _find_unknown(self, states: pa.RecordBatch, now_ms: int) -> NDArray[np.bool_]:
        """Which of k keys must be looked up, bool[k]."""
        fetched = states.column("fetched")
        matched = states.column("matched").fill_null(False).to_numpy(zero_copy_only=False)
        ends = fetched.fill_null(0).to_numpy() + np.where(matched, self.ttl_ms or 0, self.missing_ttl_ms)
        return fetched.is_null().to_numpy(zero_copy_only=False) | (ends <= now_ms)

    def _read_keys(self, tuples: pa.RecordBatch, keys: int) -> pa.Array:
        """The key of each of k slots."""
        first = np.zeros(keys, np.int64)
        first[tuples.column("slot").to_numpy()] = np.arange(tuples.num_rows)
        return self.column(tuples.select(["key"]).take(pa.array(first)), "key")

    def _refresh(
        self, states: pa.RecordBatch, keys: pa.Array, unknown: NDArray[np.bool_], now_ms: int
    ) -> pa.RecordBatch:
        """The states after a lookup of the unknown keys."""
        wanted = keys.filter(pa.array(unknown))
        answer = self._ask(wanted)
        if answer is None:
            return states
        at, rows = answer
        # Each key's row among the old states followed by the new ones. Null: none.
        position = np.arange(states.num_rows)
        position[unknown] = np.where(at >= 0, states.num_rows + at, -1)
        of = pa.array(position, mask=position < 0)
        values = [pa.concat_arrays([states.column(name), rows.column(name)]).take(of) for name in self._values.names]
        fetched = states.column("fetched").fill_null(0).to_numpy().copy()
        fetched[unknown] = now_ms
        matched = states.column("matched").fill_null(False).to_numpy(zero_copy_only=False).copy()
        matched[unknown] = at >= 0
        known = ~unknown & states.column("fetched").is_null().to_numpy(zero_copy_only=False)  # a null key's
        none = pa.array(fetched, mask=known), pa.array(matched, mask=known)
        return pa.RecordBatch.from_arrays([*none, *values], schema=self.state)

    def _ask(self, wanted: pa.Array) -> tuple[NDArray[np.int64], pa.RecordBatch] | None:
        """The row of each of n keys, int64[n] (−1: there is none), and the rows. None: the lookup failed."""
        trying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(1 + self.retries),
            wait=tenacity.wait_exponential(0.1, _LONGEST_WAIT),
            reraise=True,
        )
        try:
            answer = trying(self.fetch, wanted)
        except Exception as error:  # noqa: BLE001  whatever it may raise
            codes = (getattr(each, "__code__", None) for each in (self.fetch, type(self.fetch).__call__))
            files = {code.co_filename for code in codes if code is not None}
            reason = f"the lookup of {describe_keys(wanted)} failed ({locate_error(error, files, 'it')})"
            if self.on_error == "fail":
                raise StateFault(reason) from find_cause(error)
            log.warning("%s; their rows get what is known from before", reason)
            return None
        return self._match(wanted, answer)

    def _match(self, wanted: pa.Array, answer: pa.RecordBatch | pa.Table) -> tuple[NDArray[np.int64], pa.RecordBatch]:
        """As ``_ask``, from the lookup's answer."""
        if not isinstance(answer, pa.RecordBatch | pa.Table):
            raise StateFault(f"the lookup gives {type(answer).__name__}; valid: RecordBatch, Table")
        valid = ["key", *self.found.names]
        missing = [name for name in valid if name not in answer.schema.names]
        if missing:
            names = ", ".join(answer.schema.names) or "none"
            raise StateFault(f"the lookup gives no column {missing[0]!r}, but {names}; valid: {', '.join(valid)}")
        columns = {}
        for name, kind in zip(valid, [wanted.type, *self.found.types], strict=True):
            column = answer.column(name)
            chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
            try:
                columns[name] = pa.chunked_array([_cast(chunk, kind) for chunk in chunks], kind).combine_chunks()
            except pa.ArrowException:
                raise StateFault(f"the lookup gives the column {name!r} as {column.type}; valid: {kind}") from None
        keys = columns.pop("key")
        counts = keys.value_counts()
        twice = counts.field("values").filter(pa.array(counts.field("counts").to_numpy() > 1))
        if len(twice):
            raise StateFault(f"the lookup answers twice for {describe_keys(twice)}; valid: at most one row a key")
        strange = keys.filter(_find_positions(keys, wanted).is_null())
        if len(strange):
            raise StateFault(f"the lookup answers for {describe_keys(strange)}, which nobody has asked for")
        at = _find_positions(wanted, keys).fill_null(-1).to_numpy().astype(np.int64)
        return at, pa.RecordBatch.from_arrays(list(columns.values()), schema=self._values)


def _find_positions(keys: pa.Array, among: pa.Array) -> pa.Array:
    """The position of each key among others; null if it isn't."""
    return pc.call_function("index_in", [keys], pc.SetLookupOptions(among))


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return (array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array).cast(kind)
