"""TPC-H's query 5: the tables are what they say, DuckDB's answer is plain Python's, and all ways give it."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence.papers.mixed.q5 import query, runs
from evidence.papers.mixed.q5.oracle import compute_revenue
from evidence.papers.mixed.q5.query import read_revenue
from evidence.papers.mixed.q5.workload import (
    CHANGE_MS,
    CUSTOMERS,
    HOUR_MS,
    LINEITEMS,
    REGION,
    START_MS,
    SUPPLIERS,
    WINDOW_MS,
    Z,
    make_warehouse,
)
from evidence.papers.page import Sizing
from evidence.papers.stage import Course, Stage, write_batches
from unskew import create

WORKERS = 10
TINY = Sizing(scale=0.0001)


@pytest.fixture(scope="module")
def warehouse():
    return make_warehouse(Sizing(scale=1), WORKERS)


def column(table, name):
    return table[name].to_numpy()


def share_of_first(keys, z=Z):
    """The share of the hottest of so many keys by Zipf's law."""
    return 1 / (np.arange(1, keys + 1) ** -z).sum()


def test_foreign_keys_lead_to_a_row(warehouse):
    assert warehouse.lineitem.num_rows == LINEITEMS == 4 * warehouse.orders.num_rows
    for table, key, of in (
        (warehouse.lineitem, "orderkey", warehouse.orders),
        (warehouse.lineitem, "suppkey", warehouse.supplier),
        (warehouse.orders, "custkey", warehouse.customer),
        (warehouse.supplier, "nationkey", warehouse.nation),
        (warehouse.customer, "nationkey", warehouse.nation),
        (warehouse.nation, "regionkey", warehouse.region),
    ):
        found = column(of, key)
        assert len(np.unique(found)) == len(found)
        assert np.isin(column(table, key), found).all()
    assert [len(np.unique(column(warehouse.nation, name))) for name in ("name", "regionkey")] == [25, 5]


def test_times_are_in_order_and_items_come_within_the_window(warehouse):
    assert START_MS % WINDOW_MS == 0
    ordered, at = column(warehouse.orders, "at"), column(warehouse.lineitem, "at")
    for times in (ordered, at):
        assert (np.diff(times) >= 0).all()
        assert times[0] >= START_MS
        assert times[-1] < START_MS + HOUR_MS
    delay = at - ordered[column(warehouse.lineitem, "orderkey")]  # an order's key is its row
    assert 0 <= delay.min() < delay.max() <= WINDOW_MS


def test_batches_are_minutes_and_hold_all_rows(warehouse):
    for stream in (warehouse.orders, warehouse.lineitem):
        batches = list(warehouse.batches(stream))
        assert len(batches) == 60
        assert pa.concat_tables(batches).equals(stream)
        for number, batch in enumerate(batches):
            assert set((column(batch, "at") - START_MS) // 60_000) == {number}


def test_keys_are_zipf_and_change_every_quarter(warehouse):
    for stream, key, keys in ((warehouse.orders, "custkey", CUSTOMERS), (warehouse.lineitem, "suppkey", SUPPLIERS)):
        home, quarter = create("KEY", WORKERS).route(np.arange(keys)), (column(stream, "at") - START_MS) // CHANGE_MS
        loads = []
        for number in range(HOUR_MS // CHANGE_MS):
            frequency = np.bincount(column(stream, key)[quarter == number], minlength=keys)
            loads.append(np.bincount(home, frequency, WORKERS) / frequency.sum() * WORKERS)
            assert frequency.max() / frequency.sum() == pytest.approx(share_of_first(keys), rel=0.15)
        # The drawn keys follow frequencies between which some worker's load changes by the mean load.
        assert all(np.abs(after - before).max() > 0.9 for before, after in pairwise(loads))


def test_orders_are_zipf_in_each_window(warehouse):
    order, ordered = column(warehouse.lineitem, "orderkey"), column(warehouse.orders, "at")
    window = (ordered[order] - START_MS) // WINDOW_MS
    for number in range(HOUR_MS // WINDOW_MS):
        items = np.bincount(order[window == number])
        orders = int((ordered // WINDOW_MS == START_MS // WINDOW_MS + number).sum())
        assert items.max() / items.sum() == pytest.approx(share_of_first(orders), rel=0.15)


def test_the_seed_decides():
    first, again, other = (make_warehouse(Sizing(scale=0.0001, seed=seed), WORKERS) for seed in (3, 3, 4))
    for name in ("customer", "supplier", "orders", "lineitem"):
        assert getattr(first, name).equals(getattr(again, name))
        assert not getattr(first, name).equals(getattr(other, name))


def test_files_are_read_in_their_order(tmp_path):
    warehouse = make_warehouse(TINY, WORKERS)
    warehouse.write(tmp_path)
    files = sorted((tmp_path / "orders").glob("*.parquet"), key=lambda file: file.stat().st_mtime)
    assert [file.name for file in files] == ["0.parquet", "1.parquet", "2.parquet", "3.parquet"]
    assert pa.concat_tables([pq.read_table(file) for file in files]).equals(warehouse.orders)


@pytest.mark.parametrize("seed", range(3))
def test_duckdb_computes_what_plain_python_does(seed):
    warehouse = make_warehouse(Sizing(scale=0.0005, seed=seed), WORKERS)
    rows = {name: getattr(warehouse, name).to_pylist() for name in ("nation", "region", "orders", "lineitem")}
    nation_of = {
        key: dict(zip(*(table[name].to_pylist() for name in (key, "nationkey")), strict=True))
        for key, table in (("custkey", warehouse.customer), ("suppkey", warehouse.supplier))
    }
    region = next(row["regionkey"] for row in rows["region"] if row["name"] == REGION)
    names = {row["nationkey"]: row["name"] for row in rows["nation"] if row["regionkey"] == region}
    orders, wanted = {row["orderkey"]: row for row in rows["orders"]}, {}
    for item in rows["lineitem"]:
        order = orders[item["orderkey"]]
        nation = nation_of["suppkey"][item["suppkey"]]
        near = order["at"] <= item["at"] <= order["at"] + 300_000
        if near and nation in names and nation == nation_of["custkey"][order["custkey"]]:
            key = item["at"] // 300_000 * 300_000, names[nation]
            wanted[key] = wanted.get(key, 0) + item["extendedprice"] * (100 - item["discount"])
    assert wanted
    assert compute_revenue(warehouse) == wanted


def test_revenue_is_the_sum_over_batches(tmp_path):
    make_warehouse(TINY, WORKERS).write(tmp_path)
    batches = [[{"window": 5, "nation": 8, "revenue": 3}], [], [{"window": 5, "nation": 8, "revenue": 4}]]
    schema = pa.schema([(name, pa.int64()) for name in ("window", "nation", "revenue")])
    for _ in range(2):  # a batch that runs again replaces what it wrote
        write_batches(tmp_path / "revenue", (pa.Table.from_pylist(rows, schema) for rows in batches))
    assert read_revenue(tmp_path / "revenue", tmp_path) == {(5, "INDIA"): 7}


def test_what_a_run_says():
    """By hand: three batches of two workers, of which the first is left out; 2 ms a tuple."""
    loads = {"orderkey": [(9, 9), (30, 10), (20, 20)], "suppkey": [(9, 9), (20, 10), (10, 20)], "custkey": [(1, 0)] * 3}
    operators = {key: Course(np.array(each), np.zeros((3, 2)), moved=np.full(3, 2)) for key, each in loads.items()}
    run = runs.summarise(
        query.Measured(operators, {(0, "INDIA"): 1, (0, "CHINA"): 2}), {(0, "INDIA"): 1, (5, "CHINA"): 2}
    )
    assert run.throughputs.tolist() == pytest.approx([30 / 0.102, 30 / 0.082])
    assert (run.moved, run.wrong) == (18, 2)
    assert isinstance(run.operators["orderkey"], Course)


@pytest.mark.parametrize("scheme", [runs.STORM, runs.MIXED.format(runs.THETAS[0]), runs.OURS])
def test_every_way_computes_duckdbs_revenue(spark, tmp_path, monkeypatch, scheme):
    """At the smallest scale: each batch is a quarter of the hour."""
    for module in (query, runs):
        monkeypatch.setattr(module, "WORKERS", 4)
    only = {scheme: runs.make_schemes()[scheme]}
    monkeypatch.setattr(runs, "make_schemes", lambda: only)
    (run,) = runs.run_all(TINY, Stage(spark, None, tmp_path)).values()
    warehouse = make_warehouse(TINY, 4)
    assert compute_revenue(warehouse)
    assert run.wrong == 0
    items, orders = (
        [batch.num_rows for batch in warehouse.batches(of)] for of in (warehouse.lineitem, warehouse.orders)
    )
    joined, supplied, ordered = run.operators.values()
    sent = [sum(each) for each in zip(items, orders, strict=True)][1:]
    # Split keys' orders are copied.
    assert joined.tuples.sum(axis=1).tolist() == sent or scheme == runs.OURS
    assert supplied.tuples.sum(axis=1).tolist() == items[1:]
    assert 0 < ordered.tuples.sum() < supplied.tuples.sum()
    assert run.throughputs.shape == (3,)
