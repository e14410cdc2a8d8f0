"""The benchmark of writes without Spark: what it reads of files, and its table."""

import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence.speed import writes
from evidence.speed.writes import BALANCED, WAYS, TaskFiles, Written
from tests.commands import with_spark


def write_file(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": list(range(rows))}), path)


def test_files_are_counted_by_their_tasks(tmp_path):
    """As Spark, Delta and Iceberg name them. Delta's log has Parquet files, too."""
    write_file(tmp_path / "place=a" / "part-00003-1b2c-99999.c000.snappy.parquet", 5)
    write_file(tmp_path / "place=b" / "part-00003-1b2c.c000.snappy.parquet", 2)
    write_file(tmp_path / "data" / "place=a" / "00012-7-1b2c-0-00001.parquet", 4)
    write_file(tmp_path / "_delta_log" / "00000000000000000010.checkpoint.parquet", 9)
    files = writes.find_files(tmp_path)
    assert len(files) == 3
    found = writes.measure_files(files)
    assert (found.rows, found.files) == ((7, 4), 3)
    assert sum(found.sizes) == sum(file.stat().st_size for file in files)
    written = Written(1.0, (found,))
    assert (written.files, written.find_fullest(4)) == (3, 7 * 4 / 11)
    assert written.megabytes == pytest.approx(sum(found.sizes) / 1e6)


def test_a_streams_fullest_is_the_median_of_its_batches():
    batches = (TaskFiles((3, 1), (1, 1), 2), TaskFiles((2, 2), (1, 1), 2), TaskFiles((4,), (1,), 1))
    assert Written(1.0, batches).find_fullest(2) == 1.5


def test_uploads_take_the_time_of_the_fullest_of_16_at_a_time():
    sizes = (1_000_000,) * 32
    assert Written(2.0, (TaskFiles((1,) * 32, sizes, 32),) * 3).add_uploads(10) == pytest.approx(2.06)


def test_what_would_write_too_many_files_is_left_out_and_said():
    assert writes.choose_ways(200, 16, 1) == [*WAYS]
    assert "none" not in writes.choose_ways(200, 64, 1)
    assert "none" not in writes.choose_ways(200, 16, 8)
    files = TaskFiles((3, 1), (1_000_000, 500_000), 7)
    runs = {way: [Written(seconds, (files,)) for seconds in (2.0, 1.0)] for way in WAYS if way != "none"}
    runs[BALANCED] = [Written(3.0, (files,)), Written(1.0, (files,))]
    rows = writes.make_rows(["static", "200", "64"], 2, runs, 1000, 12_800)
    assert rows[0] == ["static", "200", "64", "hash", "7", "1.5", "1.50", "1.5", "1.00", "1.00"]
    assert rows[1] == ["static", "200", "64", "none", "12,800", *["–"] * 5]
    assert rows[3][3:] == [BALANCED, "7", "1.5", "1.50", "2.0", "1.25", "1.17"]
    assert {len(row) for row in writes.make_rows(["static", "200", "64"], 2, runs, 0.0, 1)} == {9}


def test_the_rows_are_skewed_and_all_partitions_can_have_some(tmp_path):
    writes.write_source(tmp_path / "source", 4_800, 24)
    places = pq.read_table(tmp_path / "source")["place"].value_counts().to_pylist()
    counts = sorted(each["counts"] for each in places)
    assert (len(counts), sum(counts)) == (24, 4_800)
    assert counts[-1] > 4_800 / 4
    assert len([*(tmp_path / "source").iterdir()]) == writes.SOURCES


def test_arguments(capsys):
    small = writes.parse_arguments(["stream", "--small"])
    assert (small.parts, small.partitions, small.writers, small.repeats) == (["stream"], [24], [4], 1)
    with pytest.raises(SystemExit):
        writes.parse_arguments(["sideways"])
    assert "unknown part 'sideways'; valid: static, stream" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.takes(90)
@pytest.mark.timeout(900)
def test_a_small_run_prints_the_table():
    command = [sys.executable, "-m", "evidence.speed.writes", "--small", "--upload-ms-per-mb", "100"]
    done = subprocess.run(command, env=with_spark(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    rows = [[*map(str.strip, line.strip("| ").split("|"))] for line in done.stdout.splitlines() if "|" in line]
    for part in ("static", "stream"):
        files = {row[3]: int(row[4].replace(",", "")) for row in rows if row[0] == part}
        assert files.keys() == WAYS.keys()
        assert files["hash"] <= files[BALANCED] <= files["hash"] + (1 if part == "static" else 8) * 3
        assert files["none"] > files[BALANCED]
        fullest = {row[3]: float(row[6]) for row in rows if row[0] == part}
        assert fullest[BALANCED] < 1.2 < fullest["hash"]
        assert all(re.fullmatch(r"\d+\.\d\d", row[9]) for row in rows if row[0] == part)
