"""TPC-H's query 5 by DuckDB, over the whole tables at once."""

import duckdb

from evidence.papers.mixed.q5.workload import REGION, WINDOW_MS, Warehouse

#: (Beginning of a window in ms, nation) → its revenue, in hundredths of a cent: price in cents · (100 − discount in %).
Revenue = dict[tuple[int, str], int]

_QUERY = f"""
SELECT l.at // {WINDOW_MS} * {WINDOW_MS}, n.name, sum(l.extendedprice * (100 - l.discount))::BIGINT
FROM customer c, orders o, lineitem l, supplier s, nation n, region r
WHERE c.custkey = o.custkey AND l.orderkey = o.orderkey AND l.suppkey = s.suppkey AND c.nationkey = s.nationkey
  AND s.nationkey = n.nationkey AND n.regionkey = r.regionkey AND r.name = '{REGION}'
  AND l.at BETWEEN o.at AND o.at + {WINDOW_MS}
GROUP BY ALL
"""  # TPC-H's text, with the window instead of the date


def compute_revenue(warehouse: Warehouse) -> Revenue:
    """The revenue of the region's nations, by windows of the items' times."""
    with duckdb.connect() as database:
        for name in ("customer", "orders", "lineitem", "supplier", "nation", "region"):
            database.register(name, getattr(warehouse, name))
        return {(window, nation): revenue for window, nation, revenue in database.execute(_QUERY).fetchall()}
