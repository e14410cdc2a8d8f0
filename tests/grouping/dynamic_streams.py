"""Streams and routers that the tests of DYNAMIC_KEY share: short periods, a hot key, the plain version beside it."""

import numpy as np

from tests.grouping.plain_dynamic_key import PlainDynamicKey
from unskew.grouping import create

SHORT = {"warm_up": 1, "check_interval": 0.5, "promotion_period": 0.5, "periods_to_old": 2}


def both(workers, keys, times, **options):
    fast = create("DYNAMIC_KEY", workers, **options)
    slow = PlainDynamicKey(workers, **options)
    return (
        fast,
        slow,
        fast.route(keys, times=times).tolist(),
        slow.route(keys, np.broadcast_to(times, len(keys)).tolist()),
    )


def hot_stream(seconds, hot="tr", share=0.8, per_second=100):
    """A batch a second: ``share`` of one key, the rest of 40 others."""
    rng = np.random.default_rng(5)
    for second in range(seconds):
        others = [f"k{i}" for i in rng.integers(0, 40, per_second)]
        yield (
            1000 * second,
            [hot if u < share else other for u, other in zip(rng.random(per_second), others, strict=True)],
        )


def pool_of(router, key):
    return next((item["pool"] for item in router.internals()["old"] if item["key"] == key), 2)
