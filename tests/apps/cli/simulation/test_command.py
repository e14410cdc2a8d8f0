"""`unskew simulate` as users call it."""

import csv
import json
import subprocess
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.commands import UNSKEW, unskew
from tests.pictures import figures, lines, panels  # noqa: F401


@pytest.mark.slow
def test_table_series_and_pictures(tmp_path, figures):
    out = tmp_path / "out"
    groupings = "SHUFFLE,PARTIAL_KEY,PARTIAL_KEY:choices=4,POSG:window=64:settle=clock,CONSISTENT_HASH"
    result = unskew(
        "simulate",
        *("zipf:z=1.5,k=500", "--tuples", "6000", "--workers", "4,8", "--groupings", groupings, "--cost", "1..8"),
        *("--factors", "1,1,2", "--factors-end", "1", "--feedback-interval", "0.05", "--feedback-delay", "0.01"),
        *("--window", "0.5", "--poisson", "--samples", "20", "--details", "--output", str(out)),
    )
    assert result.returncode == 0, result.stderr
    for part in ("choices=4", "replication", "W = 8", "keys moved"):
        assert part in result.stdout
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


@pytest.mark.parametrize(("tuples", "says"), [(79_980, "Few tuples: 999 a worker in a tenth."), (80_000, "")])
def test_the_table_says_where_tuples_are_too_few(tuples, says):
    result = unskew("simulate", "zipf:z=1,k=100", "--groupings", "KEY", "--workers", "4", "--tuples", str(tuples))
    text = " ".join(result.stdout.split())
    assert says in text
    assert ("Few tuples" in text) == bool(says)


def test_one_table_sorted_by_cost_below_the_bound(tmp_path):
    """A histogram: 80 % of one key, 20 others; with ten workers ⌈8/1.1⌉ + 20 places are the fewest."""
    path = tmp_path / "keys.csv"
    path.write_text("key,count\nhot,80000\n" + "".join(f"k{i},1000\n" for i in range(20)))
    groupings = ["SHUFFLE", "KEY", "BOUNDED_LOAD", "D_CHOICES", "PARTIAL_KEY"]
    arguments = ("--groupings", ",".join(groupings), "--workers", "10", "--sources", "1")
    result = unskew("simulate", f"counts:{path}", *arguments)
    assert result.returncode == 0, result.stderr
    assert "100,000 tuples of 21 keys, S = 1, W = 10" in result.stdout
    rows = [line.replace("■", "").split("│")[1:-1] for line in result.stdout.splitlines() if line.startswith("│")]
    names = [row[0].strip() for row in rows]
    assert names[0] == "bound"
    assert rows[0][5].strip() == "28"
    assert set(names[1:]) == set(groupings)
    assert names[1:3] == ["BOUNDED_LOAD", "D_CHOICES"]
    scores = [float(row[1]) for row in rows[1:]]
    assert scores == sorted(scores)
    by_name = dict(zip(names, rows, strict=True))
    assert by_name["KEY"][5].strip() == "21"
    assert float(by_name["KEY"][2]) > 8
    assert "Hottest keys: hot 80.0%, k" in result.stdout
    best = "Best score with max/mean of at most 1.1: BOUNDED_LOAD, with the hottest key at 10 workers."
    assert f"An even worker has 10.0%. {best}" in result.stdout
    described = json.loads(unskew("simulate", f"counts:{path}", *arguments, "--json").stdout)
    assert [each["grouping"] for each in described["groupings"]] == names[1:]
    assert described["hottest"][0] == {"key": "hot", "share": 0.8}
    assert described["best_even"] == "BOUNDED_LOAD"
    hottest = {each["grouping"]: each["hottest"] for each in described["groupings"]}
    assert hottest == {"KEY": 1, "PARTIAL_KEY": 2, "SHUFFLE": 10, "BOUNDED_LOAD": 10, "D_CHOICES": 10}
    assert by_name["SHUFFLE"][5].strip() == "210"
    assert by_name["SHUFFLE"][6].strip() == "21"


@pytest.mark.parametrize("batch", [700, 15_000, 90_000, 100_000])
def test_planned_is_as_even_as_its_batches_whatever_their_size(batch, tmp_path):
    path = tmp_path / "keys.csv"
    path.write_text("key,count\nhot,40000\n" + "".join(f"k{i},100\n" for i in range(600)))
    given = ("--groupings", "PLANNED", "--workers", "10", "--batch", str(batch), "--json")
    [found] = json.loads(unskew("simulate", f"counts:{path}", *given).stdout)["groupings"]
    assert 1 < found["lasting"] <= found["worst"] <= 1.06


def test_one_table_of_streams_workers_and_values(tmp_path, figures):
    """Each cell has what a simulation by itself has; seeds give a range."""
    streams = ("uniform:k=50", "hot:share=0.5,k=20")
    given = (*streams, "--tuples", "4000", "--workers", "2,4", "--groupings", "KEY,PARTIAL_KEY")
    swept = (*given, "--sweep", "choices=2,4", "--sweep", "sources=1,3", "--sweep", "seed=0,1", "--show", "worst,added")
    result = unskew("simulate", *swept, "--output", str(tmp_path))
    assert result.returncode == 0, result.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in result.stdout.splitlines() if "|" in line]
    assert rows[0] == ["stream", "W", "sources", "bound", "KEY", "PARTIAL_KEY:choices=2", "PARTIAL_KEY:choices=4"]
    assert len(rows) == 2 + 2 * 2 * 2
    found = [json.loads(line) for line in unskew("simulate", *swept, "--json").stdout.splitlines()]
    assert len(found) == 2 * 2 * 2 * 2 * 3
    of = [each for each in found if (each["stream"], each["workers"], each["sources"]) == ("hot:share=0.5,k=20", 4, 3)]
    for label, cell in zip(
        rows[0][4:], next(row for row in rows if row[:3] == [of[0]["stream"], "4", "3"])[4:], strict=True
    ):
        mine = [each for each in of if each["grouping"] == label]
        low, high = (f"{end(each['worst'] for each in mine):.2f}" for end in (min, max))
        assert cell.split(", ")[0] == (low if low == high else f"{low}–{high}")
        alone = ("--sources", "3", "--groupings", label, "--workers", "4", "--seed", "1", "--json")
        single = json.loads(unskew("simulate", streams[1], "--tuples", "4000", *alone).stdout)["groupings"][0]
        assert single.items() <= mine[1].items()
    with (tmp_path / "figures.csv").open() as file:
        assert [float(row["worst"]) for row in csv.DictReader(file)] == [each["worst"] for each in found]
    assert set(panels(figures[0])) >= {*streams}


def test_a_change_of_the_hot_key_counts_for_the_bound(tmp_path):
    """Two keys, each alone in half of the stream: with two workers each needs both, but none has half of all."""
    path = tmp_path / "keys.csv"
    path.write_text("key\n" + "a\n" * 100 + "b\n" * 100)
    given = (f"{path}:key", "--workers", "2", "--groupings", "SHUFFLE", "--sources", "1", "--json")
    for more, excess in (((), 2), (("--stretches", "2"), 1)):
        assert json.loads(unskew("simulate", *given, *more).stdout)["groupings"][0]["excess"] == excess


def test_a_reader_that_goes_is_no_error():
    command = [*UNSKEW, "simulate", "--tuples", "1000"]
    for arguments in ([], ["--json"]):
        with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.close()
            assert process.wait(120) == 0, process.stderr.read()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
def test_an_output_without_room_is_named_in_one_line():
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command = [*UNSKEW, "simulate", "zipf", "--tuples", "100", "--groupings", "KEY", "--json"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "unskew: the output can't be written (No space left on device): make room for it\n"


@pytest.mark.parametrize("more", [(), ("--cost", "1")], ids=["loads", "times"])
def test_a_narrow_terminal_has_all_columns(more):
    arguments = ("zipf", "--tuples", "1000", "--groupings", "KEY", *more)
    tables = [
        [line for line in unskew("simulate", *arguments, COLUMNS=columns).stdout.splitlines() if line[:1] in "┃│├"]
        for columns in ("40", "200")
    ]
    assert tables[0] == tables[1]


def test_a_parameter_may_be_several_numbers():
    groupings = "KEY,BOUNDED_LOAD:weights=1,1,2.5:slack=0.1,PLANNED:weights=1,2,3"
    result = unskew("simulate", "zipf", "--tuples", "100", "--workers", "3", "--groupings", groupings)
    assert result.returncode == 0, result.stderr


def test_recorded_arrivals(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("time,key\n" + "".join(f"{i * 10},k{i % 3}\n" for i in range(100)))
    result = unskew("simulate", f"{path}:key", "--recorded", "--groupings", "KEY", "--workers", "2")
    assert result.returncode == 0, result.stderr
    assert "100 tuples of 3 keys" in result.stdout


def test_moving_states_may_take_time(tmp_path):
    """MIXED's plans cost its workers time; KEY has none."""
    p99 = {}
    for transfer in ("0", "0.5"):
        out = tmp_path / transfer
        result = unskew(
            "simulate",
            *("zipf:z=1.2,k=500", "--tuples", "10000", "--workers", "5", "--sources", "1", "--groupings", "MIXED,KEY"),
            *("--load", "0.6", "--feedback-interval", "0.3", "--feedback-transfer", transfer, "--output", str(out)),
        )
        assert result.returncode == 0, result.stderr
        with (out / "figures.csv").open() as file:
            p99[transfer] = {row["label"]: float(row["p99_completion"]) for row in csv.DictReader(file)}
    assert p99["0.5"]["MIXED"] > 1.2 * p99["0"]["MIXED"]
    assert p99["0.5"]["KEY"] == p99["0"]["KEY"]


@pytest.mark.parametrize("more", [(), ("--sweep", "seed=0,1"), ("--cost", "1")], ids=["one", "many", "times"])
def test_only_objects_are_on_the_standard_output_with_json(tmp_path, more):
    folder = tmp_path / "out[a]"
    stream = ("zipf", "--groupings", "KEY", "--tuples", "100")
    done = unskew("simulate", *stream, "--json", "--output", folder, *more)
    assert all(json.loads(line) for line in done.stdout.splitlines())
    assert done.stderr.splitlines()[0].startswith(f"wrote {folder}/")


def test_a_stream_s_name_stands_in_the_table_as_it_is(tmp_path, monkeypatch):
    (tmp_path / "a[b].csv").write_text("user\nu\nv\n")
    monkeypatch.chdir(tmp_path)
    assert "| a[b].csv:user |" in unskew("simulate", "a[b].csv:user", "--groupings", "KEY", "--show", "score").stdout
