"""The rows of both sides that a worker keeps, and the search for new rows' partners among them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.apps.operators.errors import StateFault, describe_raised, find_cause
from unskew.apps.operators.time_pairs import count_groups, find_close_pairs, number_by_group
from unskew.apps.worker.joining.config import JoinConfig
from unskew.apps.worker.joining.row_table import (
    MATCHED,
    NUMBER,
    TIME,
    FetchedSlice,
    RowTable,
    find_codes,
    hash_keys_of,
    set_matched,
)
from unskew.apps.worker.stateful.operator_output import FRAGMENTS, RESULTS, Parcel, pack_rows
from unskew.apps.worker.stateful.store import KEY, Store
from unskew.grouping.keys import Keys, encode_keys
from unskew.grouping.split_join.controller import make_report
from unskew.grouping.split_join.plan import LEFT, RIGHT, JoinTable

SIDES = (LEFT, RIGHT)
#: The bytes of pairs made at a time, by the rows' mean size. (An array of strings has less than 2 GiB.)
_PORTION_BYTES = 256 << 20


@dataclass
class JoinLoad:
    """A worker's load in a batch, per key."""

    #: uint64[k]: The keys' hashes, ascending.
    keys: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    #: int64[k, 2]: Each key's rows of each side.
    rows: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 2), np.int64))
    #: int64[k]: The pairs of these rows.
    pairs: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    late: list[int] = field(default_factory=lambda: [0, 0])  #: int[2]: The late rows of each side.

    def add(self, side: int, keys: Keys, pairs: NDArray[np.int64]) -> None:
        """Add a side's rows, by key, and the pairs of each distinct key."""
        all_keys, at = np.unique(np.concatenate([self.keys, keys.hashes]), return_inverse=True)
        rows, found = np.zeros((len(all_keys), 2), np.int64), np.zeros(len(all_keys), np.int64)
        old, new = at[: len(self.keys)], at[len(self.keys) :]
        rows[old], found[old] = self.rows, self.pairs
        np.add.at(rows[:, side], new, np.bincount(keys.codes, minlength=len(keys.hashes)))
        np.add.at(found, new, pairs)
        self.keys, self.rows, self.pairs = all_keys, rows, found

    def report(self, table: JoinTable, plan: int, empty: NDArray[np.uint64]) -> dict[str, object]:
        """The report for the driver's plans."""
        return dict(make_report(table, plan, self.keys, self.rows, self.pairs, empty))


class JoinState:
    """A worker's rows of both sides."""

    def __init__(self, config: JoinConfig, store: Store, worker: int) -> None:
        self._config, self._worker = config, worker
        self.tables = tuple(RowTable(store, side, config.row_schema(side), config.slice_us) for side in SIDES)

    @property
    def rows(self) -> int:
        """The number of kept rows."""
        return sum(table.rows for table in self.tables)

    @property
    def size(self) -> int:
        """Their size in bytes."""
        return sum(table.size for table in self.tables)

    def add(self, side: int, rows: pa.RecordBatch, load: JoinLoad | None = None) -> Iterator[Parcel]:
        """Yield the pairs of these rows with the other side's kept rows, and keep these rows, too.

        A null key equals nothing: rows of an outer side with one are only kept.
        """
        if rows.column(KEY).null_count:
            null = rows.filter(rows.column(KEY).is_null())
            self.tables[side].add(null, hash_keys_of(null))
            rows = rows.filter(rows.column(KEY).is_valid())
        if not rows.num_rows:
            return
        keys, times, outer = encode_keys(rows.column(KEY)), rows.column(TIME).to_numpy(), self._config.outer
        back, ahead = self._config.reach(side)
        pairs, alone = np.zeros(len(keys.hashes), np.int64), np.ones(rows.num_rows, np.bool_)
        kept = self.tables[1 - side]
        for piece in kept.find(keys.hashes, int(times.min()) - back, int(times.max()) + ahead):
            found = np.zeros(piece.rows.num_rows, np.bool_)
            for i, j in self._find_partners(side, rows, keys, piece):
                batch, counted = self._make_pairs(side, rows.take(pa.array(i)), piece.rows.take(pa.array(j)))
                alone[i[counted]], found[j[counted]] = False, True
                pairs += np.bincount(keys.codes[i[counted]], minlength=len(pairs))
                yield from pack_rows(RESULTS, self._worker, [(0, batch)])
            if outer[1 - side]:
                kept.mark(piece, found)
        self.tables[side].add(set_matched(rows, ~alone) if outer[side] else rows, keys.hashes[keys.codes])
        if load is not None:
            load.add(side, keys, pairs)

    def _find_partners(
        self, side: int, rows: pa.RecordBatch, keys: Keys, piece: FetchedSlice
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """The positions of rows, and of their partners in a slice of the other side."""
        times = rows.column(TIME).to_numpy()
        back, ahead = self._config.reach(side)
        codes = find_codes(piece.rows, keys.distinct)
        theirs = np.flatnonzero(codes >= 0)
        mine = np.flatnonzero((times + ahead >= piece.start) & (times - back < piece.start + self._config.slice_us))
        if not len(theirs) or not len(mine):
            return
        groups = np.concatenate([keys.codes[mine].astype(np.int64), codes[theirs]])
        moments = np.concatenate([times[mine], piece.rows.column(TIME).to_numpy()[theirs]])
        portion = max(1, int(_PORTION_BYTES // (rows.nbytes / rows.num_rows + piece.rows.nbytes / piece.rows.num_rows)))
        rows_of, most = np.concatenate([mine, theirs]), count_groups(moments, back + ahead)
        for first in range(0, len(keys.hashes), most):  # rarely more than once: with very long bounds and many keys
            some = np.flatnonzero((groups >= first) & (groups < first + most))
            lines, own = number_by_group(groups[some] - first, moments[some], back + ahead), some < len(mine)
            for i, j in find_close_pairs(lines[own], lines[~own], back, ahead):
                for start in range(0, len(i), portion):
                    those = slice(start, start + portion)
                    yield rows_of[some[own][i[those]]], rows_of[some[~own][j[those]]]

    def _make_pairs(
        self, side: int, own: pa.RecordBatch, partners: pa.RecordBatch
    ) -> tuple[pa.RecordBatch, NDArray[np.bool_]]:
        """The results of those of n pairs that count, and which these are, bool[n]."""
        left, right = (own, partners) if side == LEFT else (partners, own)
        counted = np.ones(own.num_rows, np.bool_)
        if self._config.where is not None:
            counts = self._ask(left, right)
            counted = counts.to_numpy(zero_copy_only=False)
            left, right = left.filter(counts), right.filter(counts)
        return make_results(left.column(KEY), self._get_columns(left, LEFT), self._get_columns(right, RIGHT)), counted

    def _ask(self, left: pa.RecordBatch, right: pa.RecordBatch) -> pa.BooleanArray:
        """Which pairs the user's condition accepts."""
        assert self._config.where is not None
        sides = (
            pa.RecordBatch.from_arrays(self._get_columns(rows, side)[: len(names)], names)
            for side, rows, names in zip(SIDES, (left, right), self._config.names, strict=True)
        )
        try:
            counts = pa.array(self._config.where(*sides), pa.bool_()).fill_null(False)
        except Exception as error:  # noqa: BLE001  whatever it may raise
            raise StateFault(f"where failed: {describe_raised(error)}") from find_cause(error)
        if len(counts) != left.num_rows:
            raise StateFault(f"where gave {len(counts)} answers for {left.num_rows} pairs; valid: one each")
        return counts

    def _get_columns(self, rows: pa.RecordBatch, side: int) -> list[pa.Array]:
        """The user's columns of a side's rows."""
        return rows.columns[rows.num_columns - len(self._config.columns[side]) :]

    def publish_alone(self, watermark_us: int, table: JoinTable) -> Iterator[Parcel]:
        """Yield the outer rows that ``drop_over`` removes and that have no partner.

        Rows with copies at other workers go to a merger, whether they have a partner or not.
        """
        for side in SIDES:
            if not self._config.outer[side]:
                continue
            for rows in self.tables[side].read_before(watermark_us - self._config.reach(side)[1]):
                of = table.find(hash_keys_of(rows))
                copied = (of >= 0) & (np.append(table.split, 0)[of] != side)
                alone = ~rows.column(MATCHED).to_numpy(zero_copy_only=False).astype(np.bool_) & ~copied
                results = make_alone(rows.filter(pa.array(alone)), side, self._config)
                yield from pack_rows(RESULTS, self._worker, [(0, results)])
                # A row's merger is chosen by its number, because hot keys have many rows.
                mergers = rows.column(NUMBER).to_numpy() % self._config.mergers
                for merger in np.unique(mergers[copied]).tolist():
                    part = rows.filter(pa.array(copied & (mergers == merger)))
                    yield from pack_rows(FRAGMENTS, merger, [(side, part)])

    def select_live(self, side: int, rows: pa.RecordBatch, watermark_us: int) -> pa.RecordBatch:
        """A side's rows that ``drop_over`` keeps."""
        return self.tables[side].select_live(rows, watermark_us - self._config.reach(side)[1])

    def drop_over(self, watermark_us: int) -> None:
        """Remove the rows that can get no more partners."""
        for side, table in enumerate(self.tables):
            table.drop_before(watermark_us - self._config.reach(side)[1])

    def leave(self, hashes: NDArray[np.uint64]) -> None:
        """Remove all rows of the keys with these hashes."""
        if len(hashes):
            for table in self.tables:
                table.remove_keys(hashes)

    def find_empty(self, table: JoinTable, worker: int) -> NDArray[np.uint64]:
        """The hashes of keys that this worker may give up.

        It gets and has no rows of their split side. No outer row has its partner only here.
        """
        entries = np.repeat(np.arange(len(table.keys)), np.diff(table.starts))
        found = []
        for entry in entries[(table.places == worker) & (table.weights == 0)].tolist():
            hashes, split = table.keys[entry : entry + 1], int(table.split[entry])
            needed = self.tables[split].has_keys(hashes)
            if not needed and self._config.outer[1 - split]:
                needed = self.tables[1 - split].has_keys(hashes, matched=True)
            if not needed:
                found.append(table.keys[entry])
        return np.array(found, np.uint64)

    def close(self) -> None:
        """Store the metadata of the rows."""
        for table in self.tables:
            table.close()


def make_results(keys: pa.Array, left: Sequence[pa.Array], right: Sequence[pa.Array]) -> pa.RecordBatch:
    """Result rows: the key, and both sides' columns."""
    columns = [keys, *left, *right]
    return pa.RecordBatch.from_arrays(columns, [KEY, *(f"c{n}" for n in range(1, len(columns)))])


def make_alone(rows: pa.RecordBatch, side: int, config: JoinConfig) -> pa.RecordBatch:
    """The results of a side's rows without a partner: the other side's columns are null."""
    own = rows.columns[rows.num_columns - len(config.columns[side]) :]
    others = [pa.nulls(rows.num_rows, each.type) for each in config.columns[1 - side]]
    return make_results(rows.column(KEY), *((own, others) if side == LEFT else (others, own)))
