"""Counts in Pathway: `windowby` tumbling windows, or sessions.

    pathway spawn --processes WORKERS python program.py BOOTSTRAP TOPIC OUTPUT FIELD GAP_MS

After https://pathway.com/developers/user-guide/temporal-data/windows_with_behaviors,
https://pathway.com/developers/user-guide/persistence-consistency-scaling/worker-architecture, and the docstrings of
``pathway.io.kafka`` (``max_backlog_size`` for a topic that is read from its beginning). Windows have no ``cutoff``, so
none closes, and no message is late. A count is written again as it grows, and the count before it is taken back: at
each commit of the input, each 1.5 s by default.
"""

import sys

import pathway as pw

WINDOW_MS, BACKLOG = 5_000, 30_000


def main() -> None:
    bootstrap, topic, output, field, gap_ms = sys.argv[1:]
    settings = {"bootstrap.servers": bootstrap, "group.id": output, "auto.offset.reset": "earliest"}
    schema = pw.schema_from_types(**{field: str})
    messages = pw.io.kafka.read(
        settings, topic, schema=schema, format="json", with_metadata=True, max_backlog_size=BACKLOG
    )
    timed = messages.select(key=pw.this[field], at=pw.unwrap(pw.this["_metadata"]["timestamp_millis"].as_int()))
    sessions = pw.temporal.session(max_gap=int(gap_ms))
    windows = sessions if int(gap_ms) else pw.temporal.tumbling(duration=WINDOW_MS)
    counts = timed.windowby(timed.at, window=windows, instance=timed.key).reduce(
        start=pw.this["_pw_window_start"], key=pw.this["_pw_instance"], n=pw.reducers.count()
    )
    pw.io.kafka.write(counts, {"bootstrap.servers": bootstrap}, output, format="json", key=counts.key)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    main()
