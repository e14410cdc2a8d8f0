"""Plans split joins: which keys are split, over which places, with what weights.

A plan depends only on the previous one and on the workers' reports. The expected load of keys and workers is that of
the newest batch, or half of what was expected then, if that is more, because streams may take turns, so that a batch
has hardly any rows, or of only one side. A place is given up only if its worker has reported a batch in which it got no
more rows of the split side. So old or lost reports only delay plans.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import check_integer
from unskew.grouping.feedback import Plan, Reports
from unskew.grouping.feedback_loop import Interval, PlanState
from unskew.grouping.hashing import choose_homes, hash_function
from unskew.grouping.planned.assignment import AllowedWorkers, assign_batch
from unskew.grouping.split_join.plan import LEFT, PAIR_COST, RIGHT, Copies, JoinTable
from unskew.grouping.state import Value

#: A key is planned above the first share of the mean load, and sent home below the second.
_WORTH, _OVER = 1 / 8, 1 / 32
#: The table's most keys per worker.
_KEYS_PER_WORKER = 4
#: A batch with less load per worker changes no plan, because it is short, however uneven.
_LEAST_LOAD = 50
#: The heaviest keys that a worker reports besides the table's.
_NAMED = 32


def make_report(
    table: JoinTable,
    plan: int,
    keys: NDArray[np.uint64],
    rows: NDArray[np.int64],
    pairs: NDArray[np.int64],
    empty: NDArray[np.uint64],
) -> Mapping[str, Value]:
    """A worker's report of a batch, by the batch's table and the number of its plan.

    ``keys``, uint64[k], are the distinct hashes of the batch's keys, ``rows``, int64[k, 2], their rows on each side,
    and ``pairs``, int64[k], these rows' pairs. ``empty``, uint64[e], are the table's keys with a place here without a
    weight, and without a row of their split side.
    """
    named = table.find(keys) >= 0
    named[np.argsort(-(rows.sum(axis=1) + pairs), kind="stable")[:_NAMED]] = True
    return {
        "plan": plan,
        "keys": keys[named],
        "left": rows[named, LEFT],
        "right": rows[named, RIGHT],
        "pairs": pairs[named],
        "rest_rows": int(rows[~named].sum()),
        "rest_pairs": int(pairs[~named].sum()),
        "empty": empty,
    }


@dataclass
class _JoinKey:
    """A key of the reports or the table."""

    #: float[2]: The rows of each side, of a copied side at one place.
    rows: list[float] = field(default_factory=lambda: [0, 0])
    pairs: float = 0.0  #: The pairs.
    split: int | None = None  #: Its split side, if in the table.
    #: As in ``JoinTable``.
    places: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    since: list[int] = field(default_factory=list)

    @property
    def cost(self) -> float:
        """The part of its load that can be divided, or all if it isn't split."""
        rows = sum(self.rows) if self.split is None else self.rows[self.split]
        return rows + PAIR_COST * self.pairs


@dataclass(frozen=True)
class SplitJoinLoop:
    """Makes plan states, as ``FeedbackLoop`` does for groupings.

    ``seed`` is that of the homes' hash function, ``slack`` the share of the mean load by which a worker may exceed it,
    and ``most_workers`` the most places of a key: ``UsageError`` if it isn't an integer of at least 1.
    """

    workers: int
    seed: int = 0
    slack: float = 0.05
    most_workers: int | None = None

    def __post_init__(self) -> None:
        if self.most_workers is not None:
            check_integer("most_workers", self.most_workers, 1)

    def after(self, before: PlanState, interval: Interval) -> PlanState:
        """The plan state after an interval."""
        number = before.active.number if before.active is not None else 0
        table = JoinTable.of(before.active)
        new = self.plan(table, interval.monitors, number + 1) if interval.tuples else None
        if new is None:
            return before
        return replace(before, active=Plan(number + 1, number, self.identity, new.values()), files={})

    @property
    def identity(self) -> str:
        """The identity of the plans' routers."""
        return f"split join workers={self.workers} seed={self.seed}"

    def plan(self, table: JoinTable, reports: Reports, number: int) -> JoinTable | None:
        """The table of plan ``number``, after ``table``, or None if nothing changes."""
        if not reports:
            return None
        size = sum(_sum_load(report) for report in reports.values())
        if size < _LEAST_LOAD * self.workers:
            return None
        kept = 0.5 ** min(1.0, size / table.size) if table.size else 0.0
        keys = self._gather(table, reports, kept)
        rest = self._find_rest(table, reports, keys, kept)
        planned = {key: each for key, each in keys.items() if each.split is not None}
        copies = self._count_copies(planned)
        mean = (rest.sum() + copies.sum() + sum(each.cost for each in planned.values())) / self.workers
        # The keys heavy enough for the table, heaviest first, and those that no longer are.
        room = max(0, _KEYS_PER_WORKER * self.workers - len(planned))
        heavy = sorted(keys.keys() - planned.keys(), key=lambda key: (-keys[key].cost, key))
        worth = [key for key in heavy if keys[key].cost >= _WORTH * mean][:room]
        light = {key for key, each in planned.items() if each.cost < _OVER * mean}
        for key in worth:
            rest[keys[key].places[0]] -= keys[key].cost
        rest = np.maximum(rest, 0.0)
        targets = self._assign([*worth, *(planned.keys() - light)], keys, rest + copies)
        targets |= {key: {self._find_home(key): 1.0} for key in light}
        if not planned and all([*target] == keys[key].places for key, target in targets.items()):
            return None
        for key in targets:
            _choose_split_side(keys[key], alone=[*targets[key]] == keys[key].places)
        split = {key: each for key, each in keys.items() if each.split is not None}
        new = self._write(split, targets, table, reports, number)
        return replace(new, rest=rest, size=max(size, kept * table.size))

    def _find_home(self, key: int) -> int:
        return int(choose_homes(np.array([key], np.uint64), hash_function(self.seed), self.workers)[0])

    def _gather(self, table: JoinTable, reports: Reports, kept: float) -> dict[int, _JoinKey]:
        """All keys of the table and the reports by hash, ascending.

        The share ``kept`` of the table's expected loads is still expected.
        """
        found: dict[int, _JoinKey] = {}
        for entry, key in enumerate(table.keys.tolist()):
            own = slice(table.starts[entry], table.starts[entry + 1])
            columns = (column[own].tolist() for column in (table.places, table.weights, table.since))
            found[key] = _JoinKey([0, 0], 0.0, int(table.split[entry]), *columns)
        for _, report in sorted(reports.items()):
            columns = (np.asarray(report[name]).tolist() for name in ("keys", "left", "right", "pairs"))
            for key, left, right, pairs in zip(*columns, strict=True):
                each = found.setdefault(key, _JoinKey(places=[self._find_home(key)], weights=[1.0], since=[0]))
                for side, rows in ((LEFT, left), (RIGHT, right)):
                    copied = each.split is not None and side != each.split
                    each.rows[side] = max(each.rows[side], rows) if copied else each.rows[side] + rows
                each.pairs += pairs
        for key, rows, pairs in zip(table.keys.tolist(), table.rows.tolist(), table.pairs.tolist(), strict=False):
            each = found[key]
            each.rows = [max(now, kept * before) for now, before in zip(each.rows, rows, strict=True)]
            each.pairs = max(each.pairs, kept * pairs)
        return dict(sorted(found.items()))

    def _find_rest(
        self, table: JoinTable, reports: Reports, keys: Mapping[int, _JoinKey], kept: float
    ) -> NDArray[np.float64]:
        """Each worker's load of keys outside the table, float64[W], which no plan divides yet."""
        rest = np.zeros(self.workers)
        for worker, report in reports.items():
            given: Mapping[str, Any] = report
            rest[worker] = given["rest_rows"] + PAIR_COST * given["rest_pairs"]
        for each in keys.values():
            if each.split is None:
                rest[each.places[0]] += each.cost
        return np.maximum(rest, kept * table.rest) if len(table.rest) else rest

    def _count_copies(self, planned: Mapping[int, _JoinKey]) -> NDArray[np.float64]:
        """The rows of copied sides that come to each worker, float64[W]."""
        copies = np.zeros(self.workers)
        for each in planned.values():
            assert each.split is not None
            copies[each.places] += each.rows[1 - each.split]
        return copies

    def _assign(
        self, moving: list[int], keys: Mapping[int, _JoinKey], fixed: NDArray[np.float64]
    ) -> dict[int, dict[int, float]]:
        """How much of each key's load goes to which worker: keys stay where they are if the load fits there."""
        if not moving:
            return {}
        ordered = sorted(moving)
        loads = np.array([keys[key].cost for key in ordered])
        places = [keys[key].places for key in ordered]
        starts = np.cumsum([0, *map(len, places)])
        hashes = np.array(ordered, np.uint64)
        allowed = AllowedWorkers(
            buckets=hashes,
            homes=choose_homes(hashes, hash_function(self.seed), self.workers),
            number=hash_function(self.seed, 1),
            most=min(self.most_workers or self.workers, self.workers),
        )
        replicas = np.array([place for each in places for place in each], np.int32)
        found = assign_batch(loads, 0, starts, replicas, self._find_caps(fixed, loads.sum()), False, allowed)
        targets: dict[int, dict[int, float]] = {}
        for item, worker, amount in zip(found.item.tolist(), found.worker.tolist(), found.amount.tolist(), strict=True):
            if amount > 0:
                targets.setdefault(ordered[item], {})[worker] = amount
        return {key: targets.get(key) or dict.fromkeys(keys[key].places[:1], 1.0) for key in ordered}

    def _find_caps(self, fixed: NDArray[np.float64], divided: float) -> NDArray[np.float64]:
        """How much of the divisible load each worker may have, float64[W].

        Even loads fill all workers to one level, which some may already exceed.
        """
        ascending = np.sort(fixed)
        levels = (divided + np.cumsum(ascending)) / np.arange(1, len(fixed) + 1)
        level = float(levels[ascending <= levels][-1])
        return np.maximum((1 + self.slack) * level - fixed, 0.0)

    def _write(
        self,
        keys: Mapping[int, _JoinKey],
        targets: Mapping[int, Mapping[int, float]],
        table: JoinTable,
        reports: Reports,
        number: int,
    ) -> JoinTable:
        """The table of the keys with these targets."""
        grow: list[tuple[int, int, int, int]] = []
        leave: list[tuple[int, int]] = []
        entries: list[tuple[int, _JoinKey]] = []
        for key, each in keys.items():
            target = targets[key]
            new = [worker for worker in target if worker not in each.places]
            assert each.split is not None
            grow += [(key, each.places[0], worker, 1 - each.split) for worker in new]
            # A plan that adds places to a key removes none.
            left = [] if new else [worker for worker in each.places if _is_empty(key, worker, each, target, reports)]
            leave += [(key, worker) for worker in left]
            after = _place_key(each, target, new, left, number)
            if after.places != [self._find_home(key)]:
                entries.append((key, after))
        return JoinTable(
            keys=np.array([key for key, _ in entries], np.uint64),
            split=np.array([each.split for _, each in entries], np.int8),
            starts=np.cumsum([0, *(len(each.places) for _, each in entries)]).astype(np.int64),
            places=np.array([place for _, each in entries for place in each.places], np.int32),
            weights=np.array([weight for _, each in entries for weight in each.weights], np.float64),
            since=np.array([since for _, each in entries for since in each.since], np.int64),
            grow=_make_copies(grow),
            grown=table.grow,
            leave_keys=np.array([key for key, _ in leave], np.uint64),
            leave_places=np.array([worker for _, worker in leave], np.int32),
            rows=np.array([each.rows for _, each in entries], np.float64).reshape(-1, 2),
            pairs=np.array([each.pairs for _, each in entries], np.float64),
        )


def _sum_load(report: Mapping[str, Any]) -> float:
    rows = report["rest_rows"] + np.sum(report["left"]) + np.sum(report["right"])
    return float(rows + PAIR_COST * (report["rest_pairs"] + np.sum(report["pairs"])))


def _choose_split_side(key: _JoinKey, *, alone: bool) -> None:
    """Choose the split side of a key that gets its second place: the one with more rows."""
    if key.split is None and not alone:
        key.split = LEFT if key.rows[LEFT] >= key.rows[RIGHT] else RIGHT


def _is_empty(key: int, worker: int, of: _JoinKey, target: Mapping[int, float], reports: Reports) -> bool:
    """Whether a key's place surely has and gets no row of its split side."""
    since = of.since[of.places.index(worker)]
    report: Mapping[str, Any] = reports.get(worker, {})
    if worker in target or not since or report.get("plan", 0) < since:
        return False
    return key in np.asarray(report["empty"]).tolist()


def _place_key(
    key: _JoinKey, target: Mapping[int, float], new: Iterable[int], left: list[int], number: int
) -> _JoinKey:
    """A key in plan ``number``, with its new places and without those it leaves."""
    before = dict(zip(key.places, key.since, strict=True))
    places = [*(worker for worker in key.places if worker not in left), *new]
    return replace(
        key,
        places=places,
        weights=[target.get(place, 0.0) for place in places],
        since=[0 if place in target else before[place] or number for place in places],
    )


def _make_copies(entries: list[tuple[int, int, int, int]]) -> Copies:
    keys, senders, receivers, sides = zip(*entries, strict=True) if entries else ((), (), (), ())
    return Copies(
        np.array(keys, np.uint64), np.array(senders, np.int32), np.array(receivers, np.int32), np.array(sides, np.int8)
    )
