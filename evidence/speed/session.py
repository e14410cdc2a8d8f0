"""A query of one's own beside Spark's own session windows: its first batch, and the batches after it.

    python -m evidence.speed.session [--tuples N] [--keys N] [--batches N] [--repeats N] [--grouping NAME]

`keyed_map` and `session_window` get the same files, one a batch, as in `evidence.speed.state --part sessions`. Each run
has a fresh process and JVM; runs are in turns. A session is as Spark comes, with `unskew.spark_settings()`, or with
these and the Python that `unskew.check_session` names. As Spark comes, there are as many shuffle partitions as workers,
instead of 200; and `keyed_map` has RocksDB, without which it is refused. With `unskew.spark_settings()` there are as
many as cores, for both. The kernels of the grouping are compiled before, as on a machine that has run it once.
*First* is the time from the first file to the end of its batch. *Then* is the median of the batches after the first
two. A ratio is of two runs of one repeat; the table has the median, the lowest and the highest of the repeats.
"""

import argparse
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from evidence.speed.measuring import in_turns, open_plain_spark, run_apart, run_files
from evidence.speed.state.sessions import CONTESTANTS, DDL, GROUPINGS, WARM, WORKERS, files
from evidence.tables import make_table, print_table
from unskew import spark_settings
from unskew.apps.driver.python_processes import prepare_python
from unskew.deploy.installation.machine import find_java
from unskew.grouping import warm_kernels
from unskew.spark.setting_names import PARTITIONS, PROVIDER, ROCKSDB

THEIRS = "session_window"
CORES = 2
#: How a session is → its settings, and whether it has the Python that plans faster.
SESSIONS: dict[str, tuple[Mapping[str, str], bool]] = {
    "as Spark comes": ({PARTITIONS: str(WORKERS)}, False),
    "settings()": (spark_settings(workers=WORKERS, cores=CORES), False),
    "settings() and PYSPARK_PYTHON": (spark_settings(workers=WORKERS, cores=CORES), True),
}


class Taken(NamedTuple):
    """Seconds of wall time: of the first batch, and of the median one after the first two."""

    first: float
    then: float

    def __str__(self) -> str:
        """In words."""
        return f"first {self.first:.1f} s, then {self.then:.2f} s"


def compete(session: str, contestant: str, tuples: int, keys: int, batches: int) -> Taken:
    """Run a contestant in a session of this process."""
    conf, quick = SESSIONS[session]
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["PYSPARK_PYTHON"] = prepare_python() if quick else sys.executable
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **({PROVIDER: ROCKSDB} if contestant != THEIRS else {}),
        **conf,
    }
    with open_plain_spark(conf, CORES) as spark:
        taken, _ = run_files(spark, [DDL], CONTESTANTS[contestant], files(tuples, keys, batches))
    walls = [wall for _, wall in taken]
    return Taken(walls[0], statistics.median(walls[WARM:]))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The ratios of each repeat: median, lowest and highest."""
    of = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return f"{statistics.median(of):.2f} ({min(of):.2f} – {max(of):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuples", type=int, default=200_000, help="of a batch")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=10, help=f"of a run, above {WARM}")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--grouping", default="BOUNDED_LOAD", choices=GROUPINGS, help="of ours")
    given = parser.parse_args()
    if given.batches <= WARM:
        parser.error(f"--batches has to be above {WARM}")
    ours = f"unskew, {given.grouping}"

    def run(session: str, contestant: str, _: int) -> Taken:
        return run_apart(compete, session, contestant, given.tuples, given.keys, given.batches)

    contestants = {(session, name): partial(run, session, name) for session in SESSIONS for name in (ours, THEIRS)}
    warm_kernels(given.grouping)
    found = in_turns(contestants, given.repeats, str)
    table = make_table("session", f"{ours}, first", THEIRS, "ratio", f"{ours}, then", THEIRS, "ratio")
    for session in SESSIONS:
        cells: list[str] = []
        for what, digits in (("first", 1), ("then", 2)):
            mine, other = ([getattr(each, what) for each in found[session, name]] for name in (ours, THEIRS))
            medians = (f"{statistics.median(each):.{digits}f} s" for each in (mine, other))
            cells += [*medians, ratios(mine, other)]
        table.add_row(session, *cells)
    print_table(table)


if __name__ == "__main__":
    main()
