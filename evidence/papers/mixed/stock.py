"""Stock: three days of trades, and the self-join that finds who buys and sells a stock within a day.

The paper's records aren't available. It says of them: over 6,000,000 tuples, 1,036 stocks, three days, each of which is
an interval, a window of 24 hours, and "abrupt and unexpected bursts on certain keys". It doesn't print the condition of
the join, which finds "potential high-frequency players with dense buying and selling behavior". Here it is: a player
buys a stock, and sells it again within the window.

The operator travels to Spark's Python workers by value.
"""

from collections.abc import Sequence
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evidence.papers.mixed.q5.operators import PacedJoin
from evidence.papers.page import Sizing

STOCKS, DAYS, BATCHES_A_DAY = 1_036, 3, 8
DAY_MS = 86_400_000
_START_MS = 1_700_006_400_000  # a midnight
_Z = 0.5  # the paper doesn't say how skewed the records are
_BURSTS, _SHARE = 5, 0.3  # stocks that burst in a day, and their share of its trades besides their usual one


def draw_trades(settings: Sizing) -> list[pa.Table]:
    """The trades, a table for each batch, with the columns stock, at, id, player and purchase.

    Ids ascend with time. Within a batch trades come in any order.
    """
    random = np.random.default_rng((settings.seed, 14))
    size = max(1, settings.of(6_000_000, least=60_000) // (DAYS * BATCHES_A_DAY))
    players = settings.of(10_000, least=100)  # so many that a trade has as many partners at each scale
    usual = random.permutation(np.arange(1.0, STOCKS + 1) ** -_Z)
    batches: list[pa.Table] = []
    for _ in range(DAYS):
        bursting = np.isin(np.arange(STOCKS), random.choice(STOCKS, _BURSTS, replace=False))
        shares = (1 - _SHARE) * usual / usual.sum() + _SHARE * bursting / _BURSTS
        batches += [
            _draw_batch(random, len(batches) + number, size, players, shares) for number in range(BATCHES_A_DAY)
        ]
    return batches


def _draw_batch(
    random: np.random.Generator, number: int, size: int, players: int, shares: NDArray[np.float64]
) -> pa.Table:
    length = DAY_MS // BATCHES_A_DAY
    at, order = _START_MS + number * length + np.sort(random.integers(0, length, size)), random.permutation(size)
    return pa.table(
        {
            "stock": random.choice(STOCKS, size, p=shares),
            "at": pa.array(at[order] * 1000, pa.timestamp("us", "UTC")),
            "id": number * size + order,
            "player": random.integers(0, players, size),
            "purchase": random.random(size) < 0.5,
        }
    )


def is_round_trip(earlier: pa.RecordBatch, later: pa.RecordBatch) -> pa.Array:
    """Which pairs are a purchase and a later sale."""
    return pc.call_function("and_not", [earlier.column("purchase"), later.column("purchase")])


#: Ids ascend with time.
_PAIRS = f"""
SELECT bought.id AS bought, sold.id AS sold
FROM trades bought JOIN trades sold ON bought.stock = sold.stock AND bought.player = sold.player AND bought.id < sold.id
WHERE bought.purchase AND NOT sold.purchase AND epoch_ms(sold.at) - epoch_ms(bought.at) <= {DAY_MS}
ORDER BY ALL
"""


class TradeJoin(PacedJoin):
    """Pairs of a purchase and a sale of a stock by one player within a day.

    ``cost_ms``: How long a trade keeps its worker, besides the join itself, ms.
    """

    def __init__(self, cost_ms: float = 0.0) -> None:
        super().__init__(
            "1 day", left="purchase bool", right="purchase bool", equal="player int64", where=is_round_trip
        )
        self.cost_ms = cost_ms


def find_pairs(batches: Sequence[pa.Table]) -> NDArray[np.int64]:
    """All pairs of trades, by DuckDB: int64[p, 2], the purchase's id and the sale's, ascending."""
    with duckdb.connect() as database:
        database.register("trades", pa.concat_tables(batches))
        found = database.execute(_PAIRS).fetchnumpy()
    return np.stack([found["bought"], found["sold"]], axis=1)


class PairFaults(NamedTuple):
    """How many pairs are missing, are no pairs, and come more than once."""

    missing: int
    wrong: int
    twice: int


def compare_pairs(found: pa.Table, wanted: NDArray[np.int64]) -> PairFaults:
    """Compare a query's results with the pairs that ``find_pairs`` finds."""
    ids = np.stack([found[name].to_numpy() for name in ("left_id", "right_id")], axis=1).reshape(-1, 2)
    base = 1 + max(ids.max(initial=0), wanted.max(initial=0))
    (codes, times), truth = np.unique(ids @ [base, 1], return_counts=True), wanted @ [base, 1]
    return PairFaults(
        len(np.setdiff1d(truth, codes, assume_unique=True)),
        len(np.setdiff1d(codes, truth, assume_unique=True)),
        int((times - 1).sum()),
    )
