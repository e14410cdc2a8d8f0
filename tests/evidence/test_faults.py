"""The parts of the campaign of faults: its plan, its records, its slopes, its lists, its two drivers."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import islice

import orjson
import psutil
import pytest

from evidence.faults.contestants import CONTESTANTS, contestant
from evidence.faults.course import Course, together
from evidence.faults.driver import BatchLog, Driver
from evidence.faults.faults import KINDS, plan
from evidence.faults.preloaded import Listing, Preloaded
from evidence.faults.samples import Sample, trends
from tests.waiting import PATIENCE, awaited

ROUND = sum(kind.times for kind in KINDS.values())


def test_a_seed_has_one_plan_and_another_another():
    first, same, other = (list(islice(plan(seed), 100)) for seed in (3, 3, 4))
    assert first == same != other


def test_each_round_has_all_kinds():
    faults = [fault.kind for fault in islice(plan(1), 2 * ROUND)]
    for half in (faults[:ROUND], faults[ROUND:]):
        assert Counter(half) == {name: kind.times for name, kind in KINDS.items()}
    assert "disk" not in {fault.kind for fault in islice(plan(1, ("disk",)), 2 * ROUND)}


def test_neighbouring_seeds_have_all_contestants():
    assert {contestant(seed) for seed in range(5, 5 + len(CONTESTANTS))} == {*CONTESTANTS}
    assert len({each.name for each in CONTESTANTS}) == len(CONTESTANTS)
    assert all(KINDS.keys() >= {*each.lacks} for each in CONTESTANTS)


@pytest.mark.skipif(not Preloaded.possible(), reason="there is no C compiler, or no Linux")
def test_lists_show_no_new_names_for_a_while(tmp_path):
    own = tmp_path / "checkpoint" / "unskew" / "states"
    own.mkdir(parents=True)
    listing = Listing(tmp_path, tmp_path / "checkpoint")

    def listed():
        """The names that another process finds in the folder, and whether it finds the newest by its name."""
        code = "import os, sys; print(*sorted(os.listdir(sys.argv[1])), os.path.exists(sys.argv[1] + '/2'))"
        command = [sys.executable, "-c", code, own]
        environment = {**os.environ, **listing.environment}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()

    (own / "1").touch()
    time.sleep(0.05)  # the file system's clock may be behind by a tick
    listing.keep()
    time.sleep(0.05)
    (own / "2").touch()
    assert listed() == ["1", "True"]
    listing.renew()
    assert listed() == ["1", "2", "True"]


@pytest.mark.parametrize(("holder", "code", "taken_back"), [("two", 0, 0), ("driver-1", 0, 1), ("two", 1, 1)])
def test_a_first_driver_that_is_started_again_has_to_wait(tmp_path, holder, code, taken_back):
    (tmp_path / "unskew").mkdir()
    (tmp_path / "unskew" / "holder.json").write_bytes(orjson.dumps({"name": holder}))
    program = f"""
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit({code}))
signal.signal(signal.SIGINT, lambda *_: sys.exit(3))
print(os.environ["UNSKEW_DRIVER"], "started", flush=True)
if os.path.exists("{tmp_path}/lost") and os.environ["UNSKEW_DRIVER"] == "driver-1":
    print("another driver (x) has the checkpoint", flush=True)
time.sleep(600)
"""
    one = Driver([sys.executable, "-c", program], tmp_path, tmp_path, {})
    try:
        one.tend()
        awaited((tmp_path / "driver-1.log").read_text, "the first one's line")
        first = psutil.Process(one.pid)
        one.supplant()()
        assert not one.bring_back(), "it goes on"
        (tmp_path / "lost").touch()
        first.send_signal(signal.SIGINT)

        def waits():
            one.tend()
            return one.bring_back()

        awaited(waits, "the first one's wait")
        one.end_returned()
        assert one.taken_back == taken_back
        assert [end.code for end in one.ends] == [3, code]
        assert (tmp_path / "driver-2.log").read_text() == "driver-2 started\n"
        assert (tmp_path / "driver-3.log").read_text().startswith("driver-1 started\nanother driver (")
        one.end_returned()  # there is none
        assert len(one.ends) == 2
    finally:
        one.kill()
        one.wait(PATIENCE)


def test_batches_are_read_from_the_checkpoint(tmp_path):
    log = BatchLog(tmp_path, "t")
    for folder in ("offsets", "commits", "unskew/clock"):
        (tmp_path / folder).mkdir(parents=True)
    for batch, ends in enumerate([{"0": 3}, {"0": 3}, {"0": 5, "1": 2}]):
        metadata = orjson.dumps({"batchTimestampMs": 100 * batch}).decode()
        offsets = orjson.dumps({"t": ends}).decode()
        (tmp_path / "offsets" / str(batch)).write_text(f"v1\n{metadata}\n{offsets}\n7")
    (tmp_path / "unskew" / "clock" / f"{2:012d}").write_bytes(b"5000")
    for batch in (0, 1):
        (tmp_path / "commits" / str(batch)).touch()
    log.follow()
    assert log.committed == 2
    assert log.time_of(0, 3) is None
    (tmp_path / "commits" / "2").touch()
    log.follow()
    times = [log.time_of(0, 0), log.time_of(0, 2), log.time_of(0, 3), log.time_of(0, 5), log.time_of(1, 1)]
    assert times == [0, 0, 5200, None, 5200]
    assert [log.number_of(0, offset) for offset in (0, 2, 3, 5)] == [0, 0, 2, None]


def test_a_slope_is_that_within_the_parts():
    """Two parts, the second far above the first: what a restart changes is no slope."""
    first = [Sample(at, "JVM", 1, "MiB", 100 + at / 3600) for at in range(0, 700, 10)]
    second = [Sample(at, "JVM", 2, "MiB", 900 + at / 3600) for at in range(800, 1500, 10)]
    short = [Sample(at, "JVM", 3, "MiB", at) for at in range(2000, 2150, 10)]
    found = trends([*first, *second, *short])["JVM", "MiB"]
    assert found.parts == 2
    assert found.slope == pytest.approx(1.0)
    assert found.longest == 510


def test_runs_are_kept_and_put_together(tmp_path):
    course = Course(["1: KEY, batch time"], 60.0, Counter(jvm=2), {"jvm": [1.5, 2.5]}, batches=7, ends=Counter(x=1))
    course.catch_ups, course.behind = {"jvm": [9.0]}, Counter(jvm=1)
    course.verdict.rejected["not JSON"] = course.verdict.lost = 3
    course.refusals["it is another topic"] = course.unrefused = course.taken_back = 1
    course.samples = [Sample(float(at), "JVM", 5, "MiB", 10.0 + at) for at in range(0, 400, 10)]
    course.save(tmp_path)
    assert Course.load(tmp_path) == course
    both = together([course, Course.load(tmp_path)])
    assert both.recoveries == {"jvm": [1.5, 2.5, 1.5, 2.5]}
    assert (both.catch_ups, both.behind) == ({"jvm": [9.0, 9.0]}, {"jvm": 2})
    assert (both.inflicted, both.batches, both.verdict.lost) == ({"jvm": 4}, 14, 6)
    assert both.verdict.rejected == {"not JSON": 6}
    assert (both.refusals, both.unrefused, both.checked, both.good) == ({"it is another topic": 2}, 2, True, False)
    assert both.taken_back == 2
    assert trends(both.samples)["JVM", "MiB"].parts == 2
