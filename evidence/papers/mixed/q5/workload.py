"""TPC-H's tables as streams: DBGen's columns that query 5 needs, with skewed foreign keys whose skew changes.

DBGen draws foreign keys evenly. The paper has them Zipf's, and changes them every 15 minutes. All columns are integers
or names: prices are in cents, discounts in percent, times in ms since the epoch. So sums are exact.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evidence.papers.mixed.follow import Workload
from evidence.papers.page import Sizing
from evidence.papers.stage import write_batches
from unskew.grouping import create
from unskew.grouping.keys import hash_keys
from unskew.grouping.table.router import TableRouter

#: Scale factor 0.1. The streams are scaled further; the tables of keys aren't, whose skew depends on their sizes.
LINEITEMS, CUSTOMERS, SUPPLIERS = 600_000, 15_000, 1_000
ITEMS_PER_ORDER = 4
#: The foreign keys' skew, which the paper's text has lost, and their fluctuation.
Z, F = 0.8, 1.0
#: A window is the query's, and a change the workload's. ``START_MS`` begins a window.
WINDOW_MS, CHANGE_MS, HOUR_MS, START_MS = 300_000, 900_000, 3_600_000, 1_700_000_100_000
REGION = "ASIA"
_REGIONS = ("AFRICA", "AMERICA", REGION, "EUROPE", "MIDDLE EAST")
# In the order of their keys, each with its region's.
_NATIONS = (
    *(("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0), ("FRANCE", 3)),
    *(("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4)),
    *(("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3)),
    *(("SAUDI ARABIA", 4), ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1)),
)
_PRICES, _MOST_DISCOUNT = (90_100, 10_494_950), 10  # DBGen's, of 1 to 50 parts


@dataclass(frozen=True)
class Warehouse:
    """The tables. ``orders`` and ``lineitem`` are streams in the order of their times, ``at``.

    ``count``: The number of batches, which are equally long by the tuples' times.
    """

    customer: pa.Table
    supplier: pa.Table
    nation: pa.Table
    region: pa.Table
    orders: pa.Table
    lineitem: pa.Table
    count: int

    def batches(self, stream: pa.Table) -> Iterator[pa.Table]:
        """The batches of one of the streams."""
        at = stream["at"].to_numpy()
        edges = np.searchsorted(at, START_MS + np.arange(self.count + 1) * HOUR_MS // self.count)
        return (stream.slice(first, stop - first) for first, stop in pairwise(edges))

    def write(self, folder: Path) -> None:
        """Write the tables, each as a folder of files in Parquet: the streams' files are batches."""
        for name in ("customer", "supplier", "nation", "region"):
            write_batches(folder / name, [getattr(self, name)])
        for name in ("orders", "lineitem"):
            write_batches(folder / name, self.batches(getattr(self, name)))


def make_warehouse(settings: Sizing, workers: int) -> Warehouse:
    """Draw the tables. ``workers`` is N_D: changes are between keys that hash to different workers."""
    rng = np.random.default_rng((settings.seed, 5))
    lineitems, quarter = settings.of(LINEITEMS, least=60_000), settings.of(15, least=8)
    nation, region = zip(*_NATIONS, strict=True)
    orders = _draw_orders(rng, lineitems // ITEMS_PER_ORDER, settings.seed, workers)
    keys = {"custkey": CUSTOMERS, "suppkey": SUPPLIERS}
    customer, supplier = (
        pa.table({key: np.arange(n), "nationkey": rng.integers(0, len(nation), n)}) for key, n in keys.items()
    )
    return Warehouse(
        customer,
        supplier,
        pa.table({"nationkey": np.arange(len(nation)), "name": nation, "regionkey": region}),
        pa.table({"regionkey": np.arange(len(_REGIONS)), "name": _REGIONS}),
        orders,
        _draw_lineitem(rng, orders, lineitems, settings.seed, workers),
        HOUR_MS // CHANGE_MS * quarter,
    )


def _draw_orders(rng: np.random.Generator, n: int, seed: int, workers: int) -> pa.Table:
    """Orders that come evenly through the hour, of customers of whom some have many."""
    at = np.sort(rng.integers(0, HOUR_MS, n))
    custkey = _draw_keys(rng, at, Workload(CUSTOMERS, Z, F, seed), workers)
    return pa.table({"orderkey": np.arange(n), "custkey": custkey, "at": START_MS + at})


def _draw_lineitem(rng: np.random.Generator, orders: pa.Table, n: int, seed: int, workers: int) -> pa.Table:
    """Items that come within a window after their orders.

    An order is new, and is over after a window. So the orders' skew is that of the orders of a window, by Zipf's law,
    and changes all the time. What comes after the hour comes sooner instead.
    """
    ordered = orders["at"].to_numpy() - START_MS
    window = ordered // WINDOW_MS
    share = np.empty(len(ordered))
    for number in np.unique(window):
        (own,) = np.nonzero(window == number)
        weight = np.arange(1, len(own) + 1) ** -Z
        share[own] = rng.permutation(weight) / weight.sum() * len(own)
    order = np.repeat(np.arange(len(ordered)), rng.multinomial(n, share / share.sum()))
    longest = np.minimum(WINDOW_MS, HOUR_MS - 1 - ordered[order])
    at = ordered[order] + rng.integers(0, longest, endpoint=True)
    by_time = np.argsort(at, kind="stable")
    order, at = order[by_time], at[by_time]
    return pa.table(
        {
            "orderkey": orders["orderkey"].to_numpy()[order],
            "id": np.arange(n),
            "suppkey": _draw_keys(rng, at, Workload(SUPPLIERS, Z, F, seed + 1), workers),
            "extendedprice": rng.integers(*_PRICES, n, endpoint=True),
            "discount": rng.integers(0, _MOST_DISCOUNT, n, endpoint=True),
            "at": START_MS + at,
        }
    )


def _draw_keys(rng: np.random.Generator, at: NDArray[np.int64], workload: Workload, workers: int) -> NDArray[np.int64]:
    """A foreign key for each time (ms from the start), by frequencies that change every ``CHANGE_MS``."""
    router = create("MIXED", workers)
    assert isinstance(router, TableRouter)
    home = router.home(hash_keys(pa.array(np.arange(workload.keys))))
    keys, change = np.empty(len(at), np.int64), at // CHANGE_MS
    for number, frequency in enumerate(islice(workload.intervals(home, workers), HOUR_MS // CHANGE_MS)):
        own = change == number
        keys[own] = rng.choice(workload.keys, int(own.sum()), p=frequency / frequency.sum())
    return keys
