"""The results of a ``Tally`` in a topic."""

from tests.apps.conftest import read_results


def published(connection, run, kind):
    """(window or None, key) → n and total: the last result of that kind of a ``Tally``."""
    latest = dict(read_results(run, "results"))
    return {
        (value["tags"].get("window"), value["key"]): (value["fields"]["n"], value["fields"]["total"])
        for value in latest.values()
        if value["fields"]["kind"] == kind
    }
