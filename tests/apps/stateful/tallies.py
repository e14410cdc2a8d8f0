"""The results of a ``Tally`` in a topic."""

from tests.apps.conftest import records
from unskew.apps.aggregator.publisher import list_result_topics


def published(connection, run, kind):
    """(window or None, key) → n and total: the last result of that kind of a ``Tally``."""
    latest = dict(records(connection, list_result_topics(run)["results"]))
    return {
        (value["tags"].get("window"), value["key"]): (value["fields"]["n"], value["fields"]["total"])
        for value in latest.values()
        if value["fields"]["kind"] == kind
    }
