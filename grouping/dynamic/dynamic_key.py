"""DYNAMIC_KEY (DKG): each key has a pool of workers that grows with its load."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.durations import Duration, parse_milliseconds
from unskew.grouping.arguments import check_integer
from unskew.grouping.dynamic.pools import (
    BABY,
    DOWNS,
    OLD,
    TEENAGE,
    UNSET,
    UPS,
    DynamicKeyParameters,
    follow_pools,
    key_spaces,
    rebuild_spaces,
    tuple_weight,
)
from unskew.grouping.hashing import choose_homes, hash_function
from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.keys import Keys
from unskew.grouping.state import Value

# The saved fields of the key spaces. The others are computed from them.
_WATCHED = ("space", "key", "frequency", "born", "seen", "checked", "pool")
_HOTTEST = 100


class DynamicKey(Grouping):
    """Send each tuple to the least loaded worker of its key's pool, and give hot keys a larger pool.

    A pool is a contiguous slice of the ring of workers. It starts at the key's home, with 2 workers. Let ideal = 100/W,
    and let the share of a worker be 100 · its tuples / all tuples so far. A pool grows by the ring's next worker when
    all of these hold:

    * the stream is past its warm-up,
    * the share of the pool's least loaded worker is above ideal + √ideal,
    * the key is old,
    * the new worker is less loaded than all of the pool.

    A pool of more than 2 workers shrinks by its last worker when at least two of its workers have a share below
    ideal − √ideal. A key is checked at most once in each ``check_interval``.

    Keys grow old by frequency. A new key is a baby. After every ``promotion_period`` the most frequent babies become
    teenagers. Every ``periods_to_old``-th time the most frequent teenagers become old (see
    ``unskew.grouping.dynamic.pools``).

    Guarantees
    ----------
    * A key is only on the workers of its ring slice. These are 2 while the key isn't among the most frequent ones.
    * No bound on imbalance is known. Shares count from the start, so a worker that joins a hot key's pool gets nearly
      all of that key's tuples until its total has caught up. The last minute can then be far less balanced than the
      whole stream. DYNAMIC_KEY_DECAY avoids this.

    Time O(pool) a tuple, and a sort of the watched keys each period. Memory: W counters and at most
    1.5 · ``distinct_keys`` watched keys with their text.

    Parameters
    ----------
    distinct_keys : int, default 100
        A hint that sizes the key spaces: 50 % of it for babies, 40 % for teenagers, 10 % for old keys. So 10 keys can
        have more than 2 workers. The authors use 100.
    warm_up, check_interval, promotion_period : timedelta, number (s) or str, default 15, 60, 15
        The authors' values. ``promotion_period`` is at least 0.001 s, the others at least 0. Shorter: pools follow the
        load, and chance, sooner.
    periods_to_old : int, default 4
        The number of promotions after which teenagers grow old, at least 1. The authors' value.
    evict_after : timedelta, number (s) or str, default 3600
        Old and teenage keys that haven't been seen for so long leave their space, at the next promotion. The authors'
        value.

    Notes
    -----
    Time is ``times`` in ms, and the first tuple's time is its origin. A promotion happens when time passes its period.
    A time that is earlier than one already seen counts as that one. Where the authors' README leaves a choice open, or
    their code differs from it:

    * Shares are real numbers, and two candidates must be below the *lower* threshold to scale down, as in the README.
      The code truncates shares to whole per cent, and counts the candidates below the upper threshold.
    * The first promotion is one period after the first tuple, so keys are old after 60 s, as in the README. In the code
      it is 45 s.
    * Unseen keys are evicted, as in the README. The code never starts the eviction.
    * Between promotions the babies may grow to twice their room, and then no more are admitted. The code has no bound.
    * A key that is in no space has its two initial workers, because a pool is forgotten with its key. The code keeps a
      pool for ever.
    * A pool never has more than W workers. The code has no such bound.

    References
    ----------
    Dalabasmaz and Can, *Dynamic Key Grouping: A Load Balancing Algorithm for Distributed Stream Processing Engines*;
    the authors' README, "The DKG Algorithm".

    Examples
    --------
    >>> router = DynamicKey(10)
    >>> for second in range(400):
    ...     _ = router.route(["tr"] * 80 + ["de", "fr"] * 10, times=1000 * second)
    >>> router.internals()["old"][0]
    {'key': 'tr', 'frequency': 32000, 'pool': 8}

    """

    name = "DYNAMIC_KEY"
    short = "dkg"
    uses_time = True
    state_fields = ("loads", "total", "clock", "tally")

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        distinct_keys: int = 100,
        warm_up: Duration = 15.0,
        check_interval: Duration = 60.0,
        promotion_period: Duration = 15.0,
        periods_to_old: int = 4,
        evict_after: Duration = 3600.0,
    ) -> None:
        super().__init__(workers, seed=seed)
        ideal = 100 / self.workers
        self.rules = DynamicKeyParameters(
            workers=self.workers,
            warm_up=parse_milliseconds("warm_up", warm_up),
            check_interval=parse_milliseconds("check_interval", check_interval),
            period=parse_milliseconds("promotion_period", promotion_period, least=1),
            periods_to_old=check_integer("periods_to_old", periods_to_old, 1),
            evict_after=parse_milliseconds("evict_after", evict_after),
            scale_up=ideal + ideal**0.5,
            scale_down=ideal - ideal**0.5,
            half_life=0,
        )
        self.distinct_keys = check_integer("distinct_keys", distinct_keys, 1)
        self.spaces = key_spaces(self.distinct_keys)
        self.loads = np.zeros(self.workers)
        self.total = np.zeros(1)
        self.clock = np.full(3, UNSET)
        self.tally = np.zeros(4, np.int64)
        self._texts: list[str | None] = [None] * len(self.spaces.space)

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        if times is None or not len(keys):
            return np.empty(0, np.int32)
        admitted = np.full(len(self._texts), -1, np.int32)
        home = choose_homes(keys.hashes, hash_function(self.seed), self.workers)
        state = self.spaces, self.loads, self.total, self.clock, self.tally
        workers = follow_pools(keys.codes, keys.hashes, home, times, self.rules, *state, admitted)
        slots = np.flatnonzero(admitted >= 0).tolist()
        for slot, text in zip(slots, keys.texts(admitted[slots].tolist()), strict=True):
            self._texts[slot] = text
        return workers

    def internals(self) -> Mapping[str, Any]:
        """Show at most 100 old keys, most frequent first, the spaces' sizes, and how often pools grew and shrank."""
        spaces = self.spaces
        old = np.flatnonzero(spaces.space == OLD)
        old = old[np.argsort(-spaces.frequency[old], kind="stable")][:_HOTTEST].tolist()
        weight = tuple_weight(self.clock, self.rules)
        return {
            "old": [
                {
                    "key": self._texts[slot],
                    "frequency": round(float(spaces.frequency[slot]) / weight),
                    "pool": int(spaces.pool[slot]),
                }
                for slot in old
            ],
            "sizes": {
                "baby": int(spaces.size[BABY]),
                "teenage": int(spaces.size[TEENAGE]),
                "old": int(spaces.size[OLD]),
            },
            "scale_ups": int(self.tally[UPS]),
            "scale_downs": int(self.tally[DOWNS]),
        }

    def _state(self) -> dict[str, Value]:
        watched: dict[str, Value] = {field: getattr(self.spaces, field) for field in _WATCHED}
        return {**super()._state(), **watched, "texts": pa.array(self._texts, pa.string())}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self.spaces = self.spaces._replace(**{field: state[field] for field in _WATCHED})
        rebuild_spaces(self.spaces)
        self._texts = state["texts"].to_pylist()

    def _identity(self) -> str:
        return f"{super()._identity()} distinct_keys={self.distinct_keys} {self.rules}"
