"""INTERVAL_JOIN: pairs of a key's tuples whose times are close."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.apps.operators.interface import KeyedOperator, Now, ResultsAndStates, make_results
from unskew.apps.operators.list_columns import build_lists, combine_column, flatten_lists
from unskew.apps.operators.time_pairs import find_close_pairs, number_by_group
from unskew.durations import Duration, parse_milliseconds
from unskew.errors import UsageError
from unskew.grouping.arguments import check_choice

#: Which pairs count: batches of n left and n right tuples → bool[n].
Condition: TypeAlias = Callable[[pa.RecordBatch, pa.RecordBatch], pa.Array]

HOW = ("inner", "left", "right", "full")


class IntervalJoin(KeyedOperator):
    """Join tuples of two streams that have the same key and close times.

    ``keyed_map`` takes both streams, ``[left, right]``, whose rows have a column (``side``) that says which stream they
    belong to. Without it, the join is a self-join of one stream. A pair is published once, in the batch in which its
    second tuple comes. A tuple is kept until the watermark rules out any further partner.

    Only groupings that keep a key at one worker run the operator, such as KEY and MIXED.

    A pair costs some 0.3 µs. A batch with a tuple of a key reads and writes all kept tuples of the key: 10 ms for
    10,000, 70 ms for 100,000.

    Parameters
    ----------
    within : timedelta, number (s) or str
        The most by which the times of a pair may differ.
    after : timedelta, number (s) or str, optional
        With a ``side``: the right tuple's time is at most the left one's plus ``after``, and at least the left one's
        less ``within``. Default: ``within``.
    left, right : str
        The columns of each side that a pair has, with their types in Arrow, such as ``"price double, size int64"``. In
        the results they are called ``left_price`` or ``right_price``.
    id : str
        The column that distinguishes a tuple from the key's others of its side.
    kind : str
        The id's type in Arrow: ``int64`` or ``string``.
    side : str, optional
        The boolean column that is true for tuples of the right stream. None: a self-join. Left is then the earlier
        tuple, or at equal times the one with the smaller id.
    equal : str
        Columns of both sides that must be equal besides the key, such as ``"player int64"``. Null equals nothing.
    where : callable, optional
        Which of n pairs count: (n left tuples, n right tuples) → bool[n]. The tuples have the columns ``time``, ``id``
        and those of their side. It is called with at most a million pairs at a time.
    how : str
        ``inner``; or ``left``, ``right``, ``full``: tuples of that side without a partner are published, too, when the
        watermark rules one out. A self-join is ``inner``.

    Notes
    -----
    The columns of a result are ``left_id``, ``left_time``, ``right_id``, ``right_time`` (times in ms since the epoch),
    and those of the sides. The slower stream decides how long tuples are kept: if it pauses, the other's states grow.

    Raises
    ------
    UsageError
        A parameter is invalid.

    References
    ----------
    Fang et al., *Parallel Stream Processing Against Workload Skewness and Variance*, section 5: the windowed self-join
    of stock trades.

    Examples
    --------
    A click is joined to the impressions of the ten seconds before it:

    >>> tuples = pa.RecordBatch.from_pydict(
    ...     {
    ...         "slot": pa.array([0, 0, 0], pa.int32()),
    ...         "time": [1_000, 9_000, 12_000],
    ...         "id": [1, 2, 3],
    ...         "click": [False, False, True],
    ...         "ad": ["a", "b", None],
    ...     }
    ... )
    >>> work = IntervalJoin("0 s", after="10 s", left="ad string", side="click")
    >>> new = pa.RecordBatch.from_pylist([{}], work.state)  # of a new key: all null
    >>> results, states = work.update(tuples, new, Now(batch_ms=12_000, watermark_ms=5_000))
    >>> results.to_pylist()
    [{'slot': 0, 'left_id': 2, 'left_time': 9000, 'right_id': 3, 'right_time': 12000, 'left_ad': 'b'}]

    """

    identity = ("left_id", "right_id")

    def __init__(
        self,
        within: Duration = 30.0,
        after: Duration | None = None,
        left: str = "",
        right: str = "",
        id: str = "id",  # noqa: A002
        kind: str = "int64",
        side: str | None = None,
        equal: str = "",
        where: Condition | None = None,
        how: str = "inner",
    ) -> None:
        self.before_ms = parse_milliseconds("within", within)
        self.after_ms = self.before_ms if after is None else parse_milliseconds("after", after)
        self.how, self.where, self.side = check_choice("how", how, HOW), where, side
        if side is None and (how != "inner" or after is not None):
            given = "after" if after is not None else f"how={how!r}"
            raise UsageError(f"{given} is given for a self-join; valid: with a side, the column that tells two streams")
        self.ttl_ms = max(self.before_ms, self.after_ms) + 1
        self._equal = _parse_types(equal)
        self._sides = {"left": _parse_types(left), "right": _parse_types(right)}
        of_id = pa.type_for_alias(check_choice("kind", kind, ("int64", "string")))
        travelling = {**self._sides["left"], **self._sides["right"], **self._equal}
        for name, own in {**self._sides["left"], **self._equal}.items():
            if own != travelling[name] or own != self._sides["right"].get(name, own):
                raise UsageError(f"column {name!r} has two types; valid: one")
        self.id = id
        self.columns = (id, *(() if side is None else (side,)), *(name for name in travelling if name != id))
        self.types = {**travelling, id: of_id, **({} if side is None else {side: pa.bool_()})}
        own = (pa.field(f"c{n}", of) for n, of in enumerate(travelling.values()))
        self._names = dict(zip(travelling, (f"c{n}" for n in range(len(travelling))), strict=True))
        entry = [("time", pa.int64()), ("right", pa.bool_()), ("id", of_id), ("matched", pa.bool_())]
        self._entries = pa.list_(pa.struct([*(pa.field(*each) for each in entry), *own]))
        self.state = pa.schema([pa.field("tuples", self._entries)])
        named = ((f"{of}_{name}", kind) for of, columns in self._sides.items() for name, kind in columns.items())
        ids = [(f"{of}_{what}", each) for of in self._sides for what, each in (("id", of_id), ("time", pa.int64()))]
        self.results = pa.schema([*ids, *named])
        self.parameters = {
            "before_ms": self.before_ms,
            "after_ms": self.after_ms,
            "how": how,
            "self": int(side is None),
        }

    def update(self, tuples: pa.RecordBatch, states: pa.RecordBatch, now: Now) -> ResultsAndStates:
        """Find the pairs of the new tuples, with each other and with kept ones."""
        old = flatten_lists(states.column(0))
        rows = pa.concat_tables([old, self._read(tuples)]).combine_chunks()
        fresh = np.arange(rows.num_rows) >= old.num_rows
        results, matched = [], combine_column(rows, "matched").to_numpy(zero_copy_only=False).copy()
        for left, right in self._find_pairs(rows, fresh):
            matched[left] = matched[right] = True
            results.append(self._publish(rows, left, right))
        rows = rows.set_column(rows.column_names.index("matched"), "matched", pa.array(matched))
        pairs = pa.concat_batches(results) if results else None
        return pairs, self._keep(rows, states.num_rows, empty=True)

    def on_merge(self, before: pa.RecordBatch, after: pa.RecordBatch, now: Now) -> ResultsAndStates:
        """Forget the tuples that can get no more partners, and publish those that an outer join has without one."""
        rows = flatten_lists(after.column(0))
        over = self._find_ends(rows) < now.watermark_ms
        kept = rows.filter(pa.array(~over))
        return self._publish_alone(rows.filter(pa.array(over))), self._keep(kept, after.num_rows, empty=False)

    def due(self, states: pa.RecordBatch) -> pa.Array | None:
        """When the first tuple may be published without a partner; None: never."""
        if self.how == "inner":
            return None
        rows = flatten_lists(states.column(0))
        first = np.full(states.num_rows, np.iinfo(np.int64).max)
        np.minimum.at(first, combine_column(rows, "slot").to_numpy(), self._find_ends(rows) + 1)
        return pa.array(first, mask=first == np.iinfo(np.int64).max)

    def on_close(self, states: pa.RecordBatch, now: Now) -> pa.RecordBatch | None:
        """Publish the tuples that an outer join has without a partner."""
        return self._publish_alone(flatten_lists(states.column(0)))

    @property
    def emits_on_close(self) -> bool:
        """Whether tuples without a partner are published."""
        return self.how != "inner"

    @property
    def settles_later(self) -> bool:
        return self.how != "inner"

    def _read(self, tuples: pa.RecordBatch) -> pa.Table:
        """The tuples as entries of the state."""
        n = tuples.num_rows
        right = (
            pa.array(np.zeros(n, np.bool_)) if self.side is None else self.column(tuples, self.side).fill_null(False)
        )
        columns = [tuples.column("slot"), tuples.column("time"), right, self.column(tuples, self.id)]
        columns += [pa.array(np.zeros(n, np.bool_)), *(self.column(tuples, name) for name in self._names)]
        return pa.table(columns, names=["slot", *(field.name for field in self._entries.value_type)])

    def _find_pairs(
        self, rows: pa.Table, fresh: NDArray[np.bool_]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """The rows of the left and right tuples of pairs with a fresh tuple, at most a million pairs at a time."""
        group, comparable = self._number_groups(rows)
        time = combine_column(rows, "time").to_numpy()
        right = combine_column(rows, "right").to_numpy(zero_copy_only=False) & (self.side is not None)
        line = number_by_group(group, time, self.before_ms + self.after_ms)
        lefts, rights = (comparable & ~right, comparable & (right | (self.side is None)))
        back = 0 if self.side is None else self.before_ms
        # Fresh left tuples pair with all right ones, and kept left tuples with fresh right ones.
        for mine, theirs in ((lefts & fresh, rights), (lefts & ~fresh, rights & fresh)):
            one, other = np.flatnonzero(mine), np.flatnonzero(theirs)
            for left, found in find_close_pairs(line[one], line[other], back, self.after_ms):
                yield self._select_pairs(rows, one[left], other[found], time)

    def _number_groups(self, rows: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The group of each tuple, of equal keys and ``equal`` columns; and which tuples are in a group at all."""
        group = combine_column(rows, "slot").to_numpy().astype(np.int64)
        comparable = np.ones(len(group), np.bool_)
        for name in self._equal:
            codes = combine_column(rows, self._names[name]).dictionary_encode()
            comparable &= codes.is_valid().to_numpy(zero_copy_only=False)
            number = codes.indices.fill_null(0).to_numpy().astype(np.int64)
            _, group = np.unique(group * max(1, len(codes.dictionary)) + number, return_inverse=True)
        return group, comparable

    def _select_pairs(
        self, rows: pa.Table, left: NDArray[np.int64], right: NDArray[np.int64], time: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The pairs that ``where`` accepts, and of a self-join only those in order."""
        if self.side is None:
            ids = combine_column(rows, "id")
            smaller = pc.call_function("less", [ids.take(pa.array(left)), ids.take(pa.array(right))])
            ordered = (time[left] < time[right]) | smaller.fill_null(False).to_numpy(zero_copy_only=False)
            left, right = left[ordered], right[ordered]
        if self.where is not None and len(left):
            sides = (self._show(rows, of, at) for of, at in (("left", left), ("right", right)))
            counts = pa.array(self.where(*sides), pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False)
            left, right = left[counts], right[counts]
        return left, right

    def _show(self, rows: pa.Table, side: str, at: NDArray[np.int64]) -> pa.RecordBatch:
        """A side's tuples, as passed to ``where``."""
        names = {"time": "time", "id": "id"} | {name: self._names[name] for name in self._sides[side]}
        taken = {shown: combine_column(rows, name).take(pa.array(at)) for shown, name in names.items()}
        return pa.RecordBatch.from_pydict(taken)

    def _publish(self, rows: pa.Table, left: NDArray[np.int64], right: NDArray[np.int64]) -> pa.RecordBatch:
        """The results for pairs. −1: there is no partner."""
        slot = combine_column(rows, "slot").to_numpy()[np.where(left >= 0, left, right)]
        at = {"left": pa.array(left, mask=left < 0), "right": pa.array(right, mask=right < 0)}
        ids = (combine_column(rows, what).take(at[of]) for of in self._sides for what in ("id", "time"))
        own = (
            combine_column(rows, self._names[name]).take(at[of]) for of, names in self._sides.items() for name in names
        )
        return make_results(self, pa.array(slot), *ids, *own)

    def _publish_alone(self, rows: pa.Table) -> pa.RecordBatch | None:
        """The results of tuples without a partner, of the sides that publish them."""
        if self.how == "inner":
            return None
        right, matched = (combine_column(rows, name).to_numpy(zero_copy_only=False) for name in ("right", "matched"))
        wanted = np.where(right, self.how in ("right", "full"), self.how in ("left", "full"))
        alone = np.flatnonzero(~matched.astype(np.bool_) & wanted)
        left = ~right.astype(np.bool_)[alone]
        return self._publish(rows, np.where(left, alone, -1), np.where(left, -1, alone))

    def _find_ends(self, rows: pa.Table) -> NDArray[np.int64]:
        """The latest time of a partner of each tuple, int64[n], ms."""
        right = combine_column(rows, "right").to_numpy(zero_copy_only=False).astype(np.bool_)
        return combine_column(rows, "time").to_numpy() + np.where(right, self.before_ms, self.after_ms)

    def _keep(self, rows: pa.Table, keys: int, *, empty: bool) -> pa.RecordBatch:
        """The states of k keys, with tuples in an order independent of batches."""
        names = ["slot", "time", "right", "id", *(name for name in rows.column_names if name.startswith("c"))]
        ordered = rows.sort_by([(name, "ascending") for name in names])
        return pa.RecordBatch.from_arrays([build_lists(ordered, keys, self._entries, empty=empty)], schema=self.state)


def _parse_types(columns: str) -> dict[str, pa.DataType]:
    """Parse columns with Arrow's types, such as ``"price double, size int64"``.

    Raises ``UsageError`` if the syntax is different, or a type isn't one of Arrow's.
    """
    found = {}
    for column in filter(None, (each.strip() for each in columns.split(","))):
        name, _, kind = column.partition(" ")
        try:
            found[name] = pa.type_for_alias(kind.strip())
        except ValueError:
            valid = "its name and a type of Arrow's, such as 'price double'"
            raise UsageError(f"the column {column!r} is no name with a type; valid: {valid}") from None
    return found
