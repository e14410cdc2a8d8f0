"""NEXMark's q18 in Quix Streams: `group_by` bidder and auction, then a stateful `filter` that keeps the last bid.

    python last_bids.py BOOTSTRAP TOPIC OUTPUT WORKERS STATE

One process a worker, of one consumer group. After the pages that ``distinct.py`` names, with its settings. Times are of
one format, so they compare as text. Each bid that isn't older than the last one is written.
"""

import sys
from typing import Any

from distinct import application, start_workers
from quixstreams import State


def is_last(bid: dict[str, Any], state: State) -> bool:
    """Whether no later bid of its bidder and auction has come. Then it is kept."""
    last = state.get("bid")
    if last is not None and bid["dateTime"] < last["dateTime"]:
        return False
    state.set("bid", bid)
    return True


def run(bootstrap: str, topic: str, output: str, state: str) -> None:
    app = application(bootstrap, output, state)
    bids = app.dataframe(app.topic(topic, value_deserializer="json")).apply(lambda message: message["bid"])
    keyed = bids.group_by(lambda bid: f"{bid['bidder']}/{bid['auction']}", name="bidder-auction")
    last = keyed.filter(is_last, stateful=True)
    last.to_topic(app.topic(output, key_serializer="str", value_serializer="json"))
    app.run()


if __name__ == "__main__":
    start_workers(run, *sys.argv[1:])
