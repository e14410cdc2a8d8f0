"""DYNAMIC_KEY_DECAY: DYNAMIC_KEY with decaying load shares."""

from unskew.durations import Duration, parse_milliseconds
from unskew.grouping.dynamic.dynamic_key import DynamicKey


class DynamicKeyDecay(DynamicKey):
    """Route as DYNAMIC_KEY, but let each tuple count half as much after each ``half_life``.

    In DYNAMIC_KEY shares count from the start. A worker that joins a hot key's pool gets nearly all of that key's
    tuples until its total has caught up, which takes as long as the stream has run. Until then the whole stream's load
    looks balanced, but the last minute's isn't. Here a worker catches up after a few half-lives, whenever it joins.
    Keys' frequencies also decay, so a formerly hot key leaves the old space to one that is hot.

    Guarantees
    ----------
    * A key is only on the workers of its ring slice. These are 2 while the key isn't among the most frequent ones.
    * A worker that joins a pool catches up with the others after O(log r) half-lives, where r is the ratio of their
      loads to its own, however long the stream has run.

    Time O(pool) a tuple, and memory as in DYNAMIC_KEY.

    Parameters
    ----------
    half_life : timedelta, number (s) or str, default 15
        At least 0.001. Ours: the default is the length of a window of the original topology. Shorter: pools follow a
        drifting load, and chance, sooner. A half-life should have many tuples of each worker.
    distinct_keys, warm_up, check_interval, promotion_period, periods_to_old, evict_after
        As in DYNAMIC_KEY.

    Notes
    -----
    This scheme is not in the paper. Because only proportions matter, a tuple at time t weighs 2^(t / ``half_life``),
    instead of shrinking all loads.

    References
    ----------
    DYNAMIC_KEY's; Cormode et al., *Forward Decay: A Practical Time Decay Model for Streaming Systems*, ICDE 2009.

    Examples
    --------
    >>> router = DynamicKeyDecay(10)
    >>> for second in range(400):
    ...     workers = router.route(["tr"] * 80 + ["de", "fr"] * 10, times=1000 * second)
    >>> router.internals()["old"][0]["key"]
    'tr'

    """

    name = "DYNAMIC_KEY_DECAY"
    short = "dkgd"

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        half_life: Duration = 15.0,
        distinct_keys: int = 100,
        warm_up: Duration = 15.0,
        check_interval: Duration = 60.0,
        promotion_period: Duration = 15.0,
        periods_to_old: int = 4,
        evict_after: Duration = 3600.0,
    ) -> None:
        super().__init__(
            workers,
            seed=seed,
            distinct_keys=distinct_keys,
            warm_up=warm_up,
            check_interval=check_interval,
            promotion_period=promotion_period,
            periods_to_old=periods_to_old,
            evict_after=evict_after,
        )
        self.rules = self.rules._replace(half_life=parse_milliseconds("half_life", half_life, least=1))
