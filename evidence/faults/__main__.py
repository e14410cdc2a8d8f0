"""A campaign of faults: runs on a real cluster with a real broker, and whatever can go wrong does.

    python -m evidence.faults [--minutes N] [--each N] [--rounds N] [--seed N] [--rate N]
                                [--only KIND ...] [--without KIND ...] [--output FOLDER]
    python -m evidence.faults --of FOLDER|FILE.jsonl ...

A campaign of N minutes is one run after the other, of so many minutes each, with a seed each, one more than the last.
The seed chooses what runs: a topology (PARTIAL_KEY, DYNAMIC_KEY, BOUNDED_LOAD, PLANNED, and MIXED with a keyed
operator; by batch time or event time; one with a work that fails at random; three that publish exactly once), or a
query in a session of a user's own, with `balance` or `keyed_map`. Twenty-five neighbouring seeds have all of them.

A plan drawn from the seed inflicts the faults of ``evidence.faults.faults.KINDS``:

* It kills and stops (SIGKILL; SIGSTOP, later SIGCONT) the driver, its JVM, executors, their Python workers, the
  cluster's workers, the brokers, InfluxDB and the producer.
* It fills the checkpoint's disk, and sets the driver's clock. It keeps new names from executors' lists of files.
* It starts a second driver while the first is paused, and may start the first again when it has ended.
* It cuts the connections between the query and the brokers, or between executors and the driver.
* It sends malformed messages by the ten thousand, messages as large as the broker takes, messages ten days ahead, and
  transactions that abort.
* It adds partitions, and deletes the topic and makes it again.

A supervisor starts what has died. A round has each kind once or more, and takes twenty minutes or more.

At the end a run is drained. A plain consumer reads the source topic, and plain Python counts it. What the run wrote
must agree: a topology's counts by window and key, its work's ids, the rejected messages by offset and reason, or an own
session's rows by id and key. With PLANNED the rows of each worker and batch must keep their cap. Windows that were
published twice must be the same. A topic that was made again must be refused in one line. What the run had published of
the old topic is compared with that topic, and another run begins.

Then come the tables: the runs, faults and recoveries, what processes took, and how much more an hour. A restart begins
a new part, whose first three minutes don't count.

Needs Linux. Where something is missing, its faults are left out, and the first lines say which: the small disk needs
`unshare` and `mount` (as root, or with user namespaces); the clock and the lists need a C compiler; InfluxDB needs its
program (`make servers`).

Each run has a folder below FOLDER, with its logs, samples and tables; FOLDER/tables.md has the tables of all, and is
written anew after each fault. The same command goes on where it was ended: a run that was checked isn't done again.
Ctrl-C ends all that was started, and prints the tables so far. Exit code 1: something was lost, doubled, altered, or
stuck, two drivers went on side by side, one took the checkpoint back, a topic made again wasn't refused, or not all
runs were checked.
"""

import argparse
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from evidence.faults.campaign import Campaign
from evidence.faults.contestants import contestant
from evidence.faults.course import Course, show
from evidence.faults.faults import KINDS
from evidence.faults.preloaded import Preloaded
from evidence.faults.stage import SHORT_LIVED, Stage
from evidence.speed import processes
from unskew.deploy.servers.influxdb import find_influxd
from unskew.errors import UserError

_INSIDE = "UNSKEW_FAULTS_INSIDE"
_TABLES = "tables.md"
_WIDTH = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120.0, help="of faults; what is around them comes on top")
    parser.add_argument("--each", type=float, default=10.0, help="minutes of a run")
    parser.add_argument("--seed", type=int, default=None, help="of the first run; default: a random one")
    parser.add_argument("--rounds", type=int, help="instead of minutes: one run, of so many rounds of all kinds")
    parser.add_argument("--rate", type=float, default=400.0, help="valid messages a second")
    parser.add_argument("--only", nargs="+", default=[*KINDS], choices=list(KINDS), metavar="KIND", help="only these")
    parser.add_argument("--without", nargs="*", default=[], choices=list(KINDS), metavar="KIND", help="leave these out")
    parser.add_argument("--output", type=Path, default=None, help="default: out/faults/SEED")
    parser.add_argument(
        "--of",
        type=Path,
        nargs="+",
        help="start nothing: the tables of these runs together, each a FOLDER, or lines of a .jsonl file",
    )
    given = parser.parse_args()
    console = Console(highlight=False, width=_WIDTH)
    if given.of:
        show([course for path in given.of for course in Course.load_all(path)], console)
        return
    small_disk = _in_own_mounts()
    seed = random.randrange(1 << 16) if given.seed is None else given.seed
    folder = (given.output or Path("out/faults") / str(seed)).absolute()

    def log(line: str) -> None:
        console.print(f"{time.strftime('%H:%M:%S')} {line}", soft_wrap=True)

    processes.adopt_orphans()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it would be ignored
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
        os.environ.setdefault(name, SHORT_LIVED)
    without = {
        *given.without,
        *(kind for kind in KINDS if kind not in given.only),
        *(() if small_disk else ("disk",)),
        *(() if Preloaded.possible() else ("clock", "listing")),
        *(() if find_influxd() is not None else ("influxdb", "influxdb-stopped")),
    }
    number = 1 if given.rounds else max(1, math.ceil(given.minutes / given.each))
    long = f"rounds: {given.rounds}" if given.rounds else f"{given.minutes:g} minutes, {given.each:g} each"
    log(f"seed {seed}, {long}; logs and tables in {folder}")
    if without:
        log(f"without: {', '.join(sorted(without))}")
    courses: list[Course] = []

    def keep() -> None:
        with (folder / _TABLES).open("w") as file:
            show(courses, Console(file=file, highlight=False, width=_WIDTH))

    try:
        for turn in range(number):
            own = folder / str(seed + turn)
            if (done := _checked(own)) is not None:
                log(f"seed {seed + turn}: {done.scenes[0]} is checked already")
                courses.append(done)
                continue
            seconds = 60 * min(given.each, given.minutes - turn * given.each)
            courses.append(Course([f"{seed + turn}: {contestant(seed + turn).name}"], checked=False))
            _run(own, seed + turn, seconds, given.rounds, given.rate, without, small_disk, courses[-1], log, keep)
    except KeyboardInterrupt:
        log("interrupted: all is ended")
    finally:
        processes.end_all()
    show(courses, console)
    sys.exit(not all(course.good and course.checked for course in courses) or len(courses) < number)


def _checked(folder: Path) -> Course | None:
    """The course of a run that was checked; None: there was none, and what is left of it is removed."""
    if (folder / "course.json").exists():
        found = Course.load(folder)
        if found.checked:
            return found
    shutil.rmtree(folder, ignore_errors=True)
    return None


def _run(
    folder: Path,
    seed: int,
    seconds: float,
    rounds: int | None,
    rate: float,
    without: set[str],
    small_disk: bool,
    course: Course,
    log: Callable[[str], None],
    keep: Callable[[], None],
) -> None:
    """Do one run, and note in the course what happens; all that it started is ended."""
    folder.mkdir(parents=True)
    one = contestant(seed)
    left_out = tuple(sorted(without | set(one.lacks)))
    log(f"seed {seed}: {one.name}")

    faults = rounds and rounds * sum(kind.times for name, kind in KINDS.items() if name not in left_out)

    def keep_run() -> None:
        course.save(folder)
        keep()

    try:
        proxied = not {"broker-unreachable", "driver-unreachable"} <= {*left_out}
        servers = {"influxdb": "influxdb" not in left_out, "proxied": proxied, "replicated": "leaders" not in left_out}
        with Stage(folder, seed, one, rate, disk=small_disk, preloaded=Preloaded.possible(), **servers) as stage:
            Campaign(stage, seed, left_out, course, log, keep_run).run(seconds, faults)
    except UserError as error:
        log(f"unskew: {error}")
    except Exception:  # noqa: BLE001  the runs after this one are done all the same
        log(f"seed {seed} ends: {traceback.format_exc()}")
    finally:
        processes.end_all()
        keep_run()
    verdict = course.verdict
    found = f"lost {verdict.lost:,}, doubled {verdict.doubled:,}, stuck {len(course.stuck)}"
    log(f"seed {seed}: {found if course.checked else 'not checked'}")
    if course.good:
        for records in folder.glob("kafka*/records"):  # gigabytes
            shutil.rmtree(records, ignore_errors=True)


def _in_own_mounts() -> bool:
    """Start this command again in a name space of mounts of its own; False: that isn't allowed here."""
    if os.environ.get(_INSIDE):
        return True
    own = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    mount = [*own, "sh", "-c", "mount -t tmpfs none /tmp"]
    if not shutil.which("unshare") or subprocess.run(mount, capture_output=True, check=False).returncode:
        return False
    os.environ[_INSIDE] = "1"
    return os.execvp(own[0], [*own, sys.executable, "-m", "evidence.faults", *sys.argv[1:]])


if __name__ == "__main__":
    main()
