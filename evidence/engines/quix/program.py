"""All jobs in Quix Streams: `group_by` the key, then count in tumbling windows, or in sessions.

    python program.py BOOTSTRAP TOPIC OUTPUT FIELD GAP_MS COST_MS COST LATE_MS AIM WORKERS STATE

One process a worker, of one consumer group. After https://quix.io/docs/quix-streams/windowing.html ("Tumbling windows",
"Session windows", "Closing strategies") and https://quix.io/docs/quix-streams/groupby.html: ``group_by`` makes a topic
of as many partitions as the source has.

AIM is ``throughput``: a window is written once, when it is over, and of the settings
(https://quix.io/docs/quix-streams/configuration.html) those are changed that make larger requests; or ``latency``: a
window's count is written at each message ("Emitting results": ``current``), by the client's own settings; or
``recovery``: as ``latency``, and counts are right after a kill ("Processing Guarantees" of the page on settings), with
a commit each second, because a result is there when it is committed. As a static member of its group
(https://kafka.apache.org/documentation, "Static Membership") a process that starts again has its partitions at once.
"""

import sys
import time
from functools import reduce
from operator import getitem

from distinct import application, start_workers

WINDOW_MS = 5_000


def spend(seconds: float, cost: str) -> None:
    if cost == "sleep":
        time.sleep(seconds)
        return
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def run(
    bootstrap: str, topic: str, output: str, field: str, gap: str, each: str, cost: str, late: str, aim: str, state: str
) -> None:
    gap_ms, cost_ms, grace_ms = int(gap), float(each), int(late)
    app = application(bootstrap, output, state, aim)
    path = field.split(".")
    messages = app.dataframe(app.topic(topic, value_deserializer="json"))
    keyed = messages.group_by(lambda value: str(reduce(getitem, path, value)), name=field)
    if cost_ms:

        def work(value: dict[str, str]) -> dict[str, str]:
            spend(cost_ms / 1000, cost)
            return value

        keyed = keyed.apply(work)
    if gap_ms:
        windows = keyed.session_window(inactivity_gap_ms=gap_ms, grace_ms=grace_ms)
    else:
        windows = keyed.tumbling_window(duration_ms=WINDOW_MS, grace_ms=grace_ms)
    counts = windows.count()
    written = counts.final(closing_strategy="partition") if aim == "throughput" else counts.current()
    written.to_topic(app.topic(output, key_serializer="str", value_serializer="json"))
    app.run()


if __name__ == "__main__":
    start_workers(run, *sys.argv[1:])
