"""`unskew simulate` as users call it."""

import csv

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.pictures import figures, lines, panels  # noqa: F401
from unskew.apps.cli import app
from unskew.apps.whatif.command import numbers
from unskew.errors import UserError


def run(*arguments):
    return CliRunner().invoke(app, ["simulate", *arguments])


@pytest.mark.slow
def test_table_series_and_pictures(tmp_path, figures):
    out = tmp_path / "out"
    groupings = "SHUFFLE,PARTIAL_KEY,PARTIAL_KEY:choices=4,POSG:window=64:settle=clock,CONSISTENT_HASH"
    result = run(
        "zipf:z=1.5,k=500", "--tuples", "6000", "--workers", "4,8", "--groupings", groupings, "--cost", "1..8",
        "--factors", "1,1,2", "--factors-end", "1", "--feedback-interval", "0.05", "--feedback-delay", "0.01",
        "--window", "0.5", "--poisson", "--samples", "20", "--output", str(out),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    for part in ("choices=4", "replication", "W = 8", "keys moved"):
        assert part in result.output
    series = pq.read_table(out / "series.parquet")
    assert series.num_rows == 5 * 2 * 20
    assert set(series["grouping"].to_pylist()) == set(groupings.split(","))
    with (out / "figures.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    assert all(int(row["tuples"]) == 6000 for row in rows)
    names = {path.name for path in out.iterdir()}
    assert names == {"series.parquet", "figures.csv", "over-time-w4.png", "over-time-w8.png", "by-workers.png"}
    over_time = {workers: panels(figure) for workers, figure in zip((4, 8), figures, strict=False)}
    for workers, drawn in over_time.items():
        for label, (tuples, imbalance) in lines(drawn["imbalance since the start (tuples)"]).items():
            found = series.filter((pc.field("grouping") == label) & (pc.field("workers") == workers))
            assert (tuples, imbalance) == (found["tuples"].to_pylist(), found["imbalance"].to_pylist())
    by_workers = lines(panels(figures[2])["replication (workers a key)"])
    assert by_workers.keys() == set(groupings.split(","))
    for row in rows:
        counts, replication = by_workers[row["label"]]
        assert replication[counts.index(int(row["workers"]))] == pytest.approx(float(row["replication"]))


def test_recorded_arrivals(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("time,key\n" + "".join(f"{i * 10},k{i % 3}\n" for i in range(100)))
    result = run(f"{path}:key", "--recorded", "--groupings", "KEY", "--workers", "2")
    assert result.exit_code == 0, result.output
    assert "100 tuples of 3 keys" in result.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--groupings", "NONE"], "unknown grouping 'NONE'"),
        (["--groupings", ","], "--groupings is empty"),
        (["--groupings", "PARTIAL_KEY:choices=many"], "choices is 'many'"),
        (["--groupings", "PARTIAL_KEY:choices=1"], "choices is 1"),
        (["--workers", "ten"], "--workers is 'ten'"),
        (["--workers", "0"], "--workers is '0'"),
        (["--cost", "-1"], "--cost is '-1'"),
        (["--load", "0"], "load is 0"),
        (["--split", "odd"], "split is 'odd'"),
        (["--feedback-interval", "0"], "interval is 0"),
        (["--recorded"], "--recorded"),
    ],
)
def test_bad_options_are_named(arguments, says):
    result = run("zipf", "--tuples", "100", *arguments)
    assert isinstance(result.exception, UserError)
    assert says in str(result.exception)


def test_numbers():
    assert numbers("x", "1,2.5") == [1, 2.5]
    assert numbers("x", "1..4") == [1, 2, 3, 4]
