"""A campaign of faults: a topology on a real cluster with a real broker, and whatever can go wrong does.

    python -m benchmarks.faults [--minutes N] [--seed N] [--rate N] [--without KIND ...] [--output FOLDER]
    python -m benchmarks.faults --of FOLDER ...

A seeded plan kills and stops (SIGKILL; SIGSTOP, later SIGCONT) the driver, its JVM, executors, their Python workers,
the cluster's workers, the broker, InfluxDB and the producer; it fills the checkpoint's disk, sets the driver's clock,
sends malformed messages by the ten thousand and adds partitions. A supervisor starts what has died. In each round all
kinds come once or more; a round takes some fifteen minutes. The seed also chooses the grouping (PARTIAL_KEY,
DYNAMIC_KEY, BOUNDED_LOAD, MIXED: two neighbouring seeds each) and whether windows are by batch time (even) or event
time (odd).

At the end the run is drained, and what it published is held against what the source topic holds, counted by a plain
consumer in plain Python: by window and key; rejected messages by place and reason. Windows that were published twice
must say the same. Then come the tables: faults, recoveries, what processes took (restarts cut it into parts; of each
only what is beyond three minutes, in which it warms up), the slopes an hour.

Needs Linux. Without `unshare` and `mount` (root's, or user namespaces) there is no small disk to fill, without a C
compiler no clock to set, and without InfluxDB's program (`make servers`) none to kill: it says what it leaves out.
Logs, samples and tables go to FOLDER. Ctrl-C ends all that was started. Exit code 1: something was lost, doubled or
altered.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console

from benchmarks.faults import processes
from benchmarks.faults.campaign import Campaign
from benchmarks.faults.clock import Clock
from benchmarks.faults.course import Course, together
from benchmarks.faults.plan import KINDS, scene
from benchmarks.faults.stage import Stage
from benchmarks.faults.table import show
from unskew.deploy.installation.programs.influxd import present
from unskew.errors import UserError

_INSIDE = "UNSKEW_FAULTS_INSIDE"
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="of faults; draining and checking come after")
    parser.add_argument("--seed", type=int, default=None, help="of everything; default: a random one, which is said")
    parser.add_argument("--rate", type=float, default=400.0, help="valid messages a second")
    parser.add_argument("--without", nargs="*", default=[], choices=list(KINDS), metavar="KIND", help="leave these out")
    parser.add_argument("--output", type=Path, default=None, help="default: out/faults/SEED")
    parser.add_argument("--of", type=Path, nargs="+", help="start nothing: the tables of these runs' FOLDERs together")
    given = parser.parse_args()
    if given.of:
        show(together([Course.load(folder) for folder in given.of]), Console(highlight=False, width=200))
        return
    small_disk = _in_own_mounts()
    seed = random.randrange(1 << 16) if given.seed is None else given.seed
    folder = (given.output or Path("out/faults") / str(seed)).absolute()
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder} is not empty; valid: --output with another folder, or none there")
    folder.mkdir(parents=True, exist_ok=True)
    console = Console(highlight=False, width=200)

    def say(what: str) -> None:
        console.print(f"{time.strftime('%H:%M:%S')} {what}", soft_wrap=True)

    processes.adopt_orphans()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it would be ignored
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
        os.environ.setdefault(name, _SHORT_LIVED)
    influxdb = present() is not None
    without = set(given.without) | {
        *(() if small_disk else ("disk",)),
        *(() if Clock.possible() else ("clock",)),
        *(() if influxdb else ("influxdb", "influxdb-stopped")),
    }
    say(f"seed {seed}: {', '.join(scene(seed))} time, {given.minutes:g} minutes; logs in {folder}")
    if without:
        say(f"without: {', '.join(sorted(without))}")
    exact = False
    try:
        stage = Stage(folder, seed, given.rate, influxdb=influxdb, disk=small_disk, clock="clock" not in without)
        with stage:
            campaign = Campaign(stage, seed, tuple(sorted(without)), say)
            course = campaign.run(60 * given.minutes)
            exact = course.verdict.exact
        course.save(folder)
        show(course, console)
    except UserError as error:
        say(f"unskew: {error}")
    except KeyboardInterrupt:
        say("interrupted: all is ended")
    finally:
        processes.end_all()
    sys.exit(not exact)


def _in_own_mounts() -> bool:
    """Go on in a name space of mounts of our own, which ends with us; False: that isn't allowed here."""
    if os.environ.get(_INSIDE):
        return True
    own = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    mount = [*own, "sh", "-c", "mount -t tmpfs none /tmp"]
    if not shutil.which("unshare") or subprocess.run(mount, capture_output=True, check=False).returncode:
        return False
    os.environ[_INSIDE] = "1"
    return os.execvp(own[0], [*own, sys.executable, "-m", "benchmarks.faults", *sys.argv[1:]])


if __name__ == "__main__":
    main()
