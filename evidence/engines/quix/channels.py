"""NEXMark's query 16 in Quix Streams: `group_by` the channel and day, then a stateful `apply`.

    python channels.py BOOTSTRAP TOPIC OUTPUT WORKERS STATE

One process a worker, of one consumer group. After https://quix.io/docs/quix-streams/groupby.html and
https://quix.io/docs/quix-streams/advanced/stateful-processing.html ("Using State in Custom Functions"). A channel's
state has its row, and of each bidder and auction the ranks of price in which it was seen, as bits. The row is written
again at each bid. The settings are those of ``program.py``, for throughput.
"""

import sys
from typing import Any

from distinct import application, start_workers
from quixstreams import State

NAMES = [f"{rank}_{of}" for of in ("bids", "bidders", "auctions") for rank in ("total", "rank1", "rank2", "rank3")]


def counted(event: dict[str, Any], state: State) -> dict[str, Any]:
    """The row of a bid's channel and day."""
    bid = event["bid"]
    day, minute = bid["dateTime"][:10], bid["dateTime"][11:16]
    row = state.get("row") or {"channel": bid["channel"], "day": day, "minute": "", **dict.fromkeys(NAMES, 0)}
    row["minute"] = max(row["minute"], minute)
    rank = 1 if bid["price"] < 10_000 else 2 if bid["price"] < 1_000_000 else 3
    row["total_bids"] += 1
    row[f"rank{rank}_bids"] += 1
    for kind in ("bidder", "auction"):
        of = f"{kind} {bid[kind]}"
        ranks = state.get(of, 0)
        if not ranks >> rank & 1:
            row[f"total_{kind}s"] += not ranks
            row[f"rank{rank}_{kind}s"] += 1
            state.set(of, ranks | 1 << rank)
    state.set("row", row)
    return row


def run(bootstrap: str, topic: str, output: str, state: str) -> None:
    app = application(bootstrap, output, state)
    events = app.dataframe(app.topic(topic, value_deserializer="json"))
    keyed = events.group_by(lambda event: f"{event['bid']['dateTime'][:10]} {event['bid']['channel']}", name="channel")
    keyed.apply(counted, stateful=True).to_topic(app.topic(output, key_serializer="str", value_serializer="json"))
    app.run()


if __name__ == "__main__":
    start_workers(run, *sys.argv[1:])
