"""Distinct keys in Pathway: `groupby` the key, and `reduce` to the key alone.

    pathway spawn --processes WORKERS python distinct.py BOOTSTRAP TOPIC OUTPUT FIELD

After https://pathway.com/developers/user-guide/data-transformation/groupby-reduce-manual ("Removing duplicates"), and
the docstrings of ``pathway.io.kafka``. A row of the result never changes, so none is taken back. ``Table.deduplicate``
isn't used, because it calls a function of Python's for each message.
"""

import sys

import pathway as pw

BACKLOG = 30_000


def main() -> None:
    bootstrap, topic, output, field = sys.argv[1:]
    settings = {"bootstrap.servers": bootstrap, "group.id": output, "auto.offset.reset": "earliest"}
    schema = pw.schema_from_types(**{field: str})
    messages = pw.io.kafka.read(settings, topic, schema=schema, format="json", max_backlog_size=BACKLOG)
    keys = messages.groupby(pw.this[field]).reduce(key=pw.this[field])
    pw.io.kafka.write(keys, {"bootstrap.servers": bootstrap}, output, format="json", key=keys.key)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    main()
