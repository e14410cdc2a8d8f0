"""`unskew compare`: which options go where, what is computed of a run, what is written, and the command itself."""

import csv
import json
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from tests.apps.conftest import by_key, final_counts
from tests.apps.local_settings import settings
from tests.commands import UNSKEW
from tests.pictures import figures, lines, panels  # noqa: F401
from tests.waiting import PATIENCE
from unskew.apps.cli.comparison import tables
from unskew.apps.cli.comparison.picture import draw_comparison
from unskew.apps.cli.comparison.run_record import BatchTimes, RunRecord, WindowBalance, measure_straggling
from unskew.apps.cli.main import app
from unskew.apps.cli.option_groups import GroupingOptions
from unskew.apps.driver.job_summary import JobSummary
from unskew.errors import EnvironmentFault, UsageError
from unskew.grouping import GROUPINGS, measures
from unskew.kafka.topics import ensure_topic
from unskew.producers.datasets.registry import create_dataset
from unskew.producers.publish import publish_dataset


def course(grouping="KEY", sizes=(100, 100, 100, 100), loads=(300, 100)):
    counts = {"tuples": sum(sizes), "rejected": 0, "late": 0, "loads": list(loads), "dist_cost": 1.0, "straggling": 1.5}
    balance = {"std_dev": measures.std_dev(loads), "imbalance_fraction": measures.imbalance_fraction(loads)}
    times = {"tuples_per_second": 10.0, "first_batch_seconds": 1.0, "first_result_seconds": 2.0}
    summary = JobSummary(grouping=grouping, last_std_dev=0.0, **counts, **balance, **times)
    batches = [BatchTimes(n, 2.0 * i + 1, 1.0) for i, n in enumerate(sizes)]
    windows = [WindowBalance(1000 * i, n, float(i), 1.0, i) for i, n in enumerate(sizes)]
    return RunRecord("run", summary, {}, batches, windows, [1.0] * len(loads))


def test_options_go_to_the_groupings_that_have_them():
    own = GroupingOptions(grouping_option=["warm_up=2.0", "periods_to_old=2"]).of(["KEY", "DYNAMIC_KEY"])
    assert own == {"KEY": {}, "DYNAMIC_KEY": {"warm_up": 2.0, "periods_to_old": 2}}
    with pytest.raises(UsageError, match="none of KEY, SHUFFLE has"):
        GroupingOptions(grouping_option=["periods_to_old=2"]).of(["KEY", "SHUFFLE"])


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30))
def test_settled_is_the_least_end_of_the_stream_with_a_quarter_of_the_tuples(sizes):
    run = course(sizes=sizes)
    starts = [i for i in range(len(sizes)) if sum(sizes[i:]) >= sum(sizes) / 4]
    last = max(starts)
    wanted = sum(i * sizes[i] for i in range(last, len(sizes))) / sum(sizes[last:])
    assert run.last_quarter_std_dev == pytest.approx(wanted)
    assert run.last_quarter_straggling == pytest.approx(measure_straggling(run.batches[last:]))


def test_the_last_quarter_of_sliding_windows_is_one_of_all_that_they_have():
    run = course(sizes=[1] * 8)
    sliding = replace(run, windows=[window for window in run.windows for _ in range(2)])  # each tuple is in two
    assert sliding.last_quarter_std_dev == run.last_quarter_std_dev == 6.5


def test_files_and_table_say_the_same(tmp_path):
    runs = [course("KEY"), course("DYNAMIC_KEY", loads=(220, 180))]
    run = settings(sources=2, workers=2, checkpoint=str(tmp_path), max_tuples=100)
    files = tables.save_comparison(runs, run, tmp_path)
    assert [file.name for file in files] == ["comparison.csv", "comparison.json", "comparison.png"]
    rows = list(csv.DictReader(files[0].open()))
    document = json.loads(files[1].read_text())
    assert [row["grouping"] for row in rows] == ["KEY", "DYNAMIC_KEY"]
    for row, run in zip(rows, document["runs"], strict=True):
        for name in tables.MEASURES:
            assert float(row[name]) == pytest.approx(run[name])
    assert document["runs"][1]["loads"] == [220, 180]
    assert document["settings"]["max_tuples"] == 100
    assert files[2].read_bytes().startswith(b"\x89PNG")


def test_table_fits_the_terminal():
    for width in (80, 120):
        console = Console(width=width)
        with console.capture() as capture:
            console.print(tables.format_tables([course(name) for name in GROUPINGS], width))
        assert max(map(len, capture.get().splitlines())) <= width
        assert all(f"■ {name} " in capture.get() for name in GROUPINGS)


@pytest.mark.parametrize("count", [1, len(GROUPINGS)])
def test_any_number_of_groupings_is_drawn(count, tmp_path, figures):
    names = list(GROUPINGS)[:count]
    # the last batch and window have next to no tuples, as they often do
    batches, windows = [BatchTimes(90, 1.0, 0.5), BatchTimes(1, 0.1, 0.1)], [(90, 2.0), (1, 50.0)]
    runs = [
        replace(
            course(name, loads=(3, 1)),
            batches=batches,
            windows=[WindowBalance(0, tuples, std_dev, 1.0, 1) for tuples, std_dev in windows],
        )
        for name in names
    ]
    draw_comparison(runs, tmp_path / "picture.png", "a subtitle")
    (figure,) = figures
    drawn = panels(figure)
    for name in names:
        assert [bar.get_height() for bar in drawn[name].patches] == [75, 25]
    assert lines(drawn["STD_DEV of each window (%)"]) == dict.fromkeys(names, ([90], [2.0]))
    times = lines(drawn["slowest worker's time in each batch (s)"])
    assert times == {**dict.fromkeys(names, ([90], [1.0])), f"mean worker ({names[0]})": ([90], [0.5])}
    assert [bar.get_width() for bar in drawn["STD_DEV (%)"].patches] == [25.0] * count
    assert [text.get_text() for text in drawn["STD_DEV (%)"].get_yticklabels()] == names


def test_unwritable_output(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFault, match=r"--output .*file/out can't be written"):
        tables.prepare_folder(tmp_path / "file" / "out")


def start(connection, topic, folder, records, groupings, *more):
    """Publish records, and start the command; and what was published."""
    ensure_topic(connection, topic, 2)
    sent = publish_dataset(connection, topic, create_dataset("COUNTRY_SKEW_R80", records=records))
    command = [
        *(*UNSKEW, "compare", "COUNTRY_SKEW_R80", topic, "2", "4", "x0", "--groupings", groupings, "--window", "0.5"),
        *("--trigger", "0.1", "--output", folder / "out", "--checkpoint", folder / "checkpoints", *more),
        *("--bootstrap-servers", connection.bootstrap_servers),
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, start_new_session=True, **pipes), sent


def test_nothing_starts_without_messages_to_compare_with(connection, topic):
    def run(sources):
        command = ["COUNTRY_SKEW_R80", topic, sources, "4", "x0", "--bootstrap-servers", connection.bootstrap_servers]
        result = CliRunner().invoke(app, ["compare", *command])
        assert result.exception
        raise result.exception

    for _ in range(2):  # no topic, then an empty one
        with pytest.raises(UsageError, match="no messages to compare with; publish some: unskew produce COUNTRY_SKEW"):
            run("2")
        ensure_topic(connection, topic, 2)
    with pytest.raises(UsageError, match="has 2 partitions, not the 3 asked for"):
        run("3")


@pytest.mark.spark
@pytest.mark.nightly(group="groupings")
def test_compares_two_groupings(connection, topic, tmp_path):
    started, sent = start(connection, topic, tmp_path, 4_000, "key,shuffle", "--max-tuples", "1000")
    with started as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "waiting, first batch" in err
    runs = {run["grouping"]: run for run in json.loads((tmp_path / "out" / "comparison.json").read_text())["runs"]}
    assert list(runs) == ["KEY", "SHUFFLE"]
    for short, run in zip(("kg", "sg"), runs.values(), strict=True):
        assert by_key(final_counts(connection, f"{topic}-s2-w4-{short}-aggregator")) == dict(sent.keys.top(1000))
        assert run["tuples"] == sum(run["loads"]) == 4_000
        assert run["std_dev"] == pytest.approx(measures.std_dev(run["loads"]))
        assert f"{topic}-s2-w4-{short}-distribution" in out
    assert runs["SHUFFLE"]["std_dev"] < 1 < runs["KEY"]["std_dev"]
    assert (runs["KEY"]["dist_cost"], runs["KEY"]["hot_key_workers"]) == (1, 1)
    assert runs["SHUFFLE"]["hot_key_workers"] == 4
    assert f"{runs['KEY']['std_dev']:.2f}" in out
    assert not list((tmp_path / "checkpoints").iterdir())


@pytest.mark.spark
@pytest.mark.nightly(group="groupings")
def test_interrupted_it_keeps_what_is_finished(connection, topic, tmp_path):
    started, _ = start(connection, topic, tmp_path, 2_000, "KEY,SHUFFLE,PARTIAL_KEY")
    with started as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("■ KEY"):
                break
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    document = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert [run["grouping"] for run in document["runs"]] == ["KEY"]
    assert "comparison.png" in out
    assert not list(Path(tmp_path / "checkpoints").iterdir())
