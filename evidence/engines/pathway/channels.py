"""NEXMark's query 16 in Pathway: `groupby`, and `reduce` with `count_distinct`, of all bids and of those of each rank.

    pathway spawn --processes WORKERS python channels.py BOOTSTRAP TOPIC OUTPUT

After https://pathway.com/developers/user-guide/data-transformation/groupby-reduce-manual,
https://pathway.com/developers/api-docs/reducers ("count_distinct"), .../data-transformation/join-manual, and the
docstrings of ``pathway.io.kafka``. A reducer has no filter, so each rank of price is a table of its own, which is
joined to that of all bids. A row is written again when it has changed, and the row before it is taken back: at each
commit of the input, each 1.5 s by default.
"""

import sys

import pathway as pw

BACKLOG = 30_000


class Bid(pw.Schema):
    auction: int
    bidder: int
    price: int
    channel: str
    at: str


def counts(bids: pw.Table, rank: str) -> dict[str, pw.ColumnExpression]:
    """The statistics of bids of a rank."""
    return {
        f"{rank}_bids": pw.reducers.count(),
        f"{rank}_bidders": pw.reducers.count_distinct(bids.bidder),
        f"{rank}_auctions": pw.reducers.count_distinct(bids.auction),
    }


def main() -> None:
    bootstrap, topic, output = sys.argv[1:]
    settings = {"bootstrap.servers": bootstrap, "group.id": output, "auto.offset.reset": "earliest"}
    paths = {name: f"/bid/{name}" for name in ("auction", "bidder", "price", "channel")} | {"at": "/bid/dateTime"}
    read = pw.io.kafka.read(
        settings, topic, schema=Bid, format="json", json_field_paths=paths, max_backlog_size=BACKLOG
    )
    bids = read.with_columns(day=read.at.str.slice(0, 10), minute=read.at.str.slice(11, 16))
    rows = bids.groupby(bids.channel, bids.day).reduce(
        bids.channel, bids.day, minute=pw.reducers.max(bids.minute), **counts(bids, "total")
    )
    ranks = {
        "rank1": bids.filter(bids.price < 10_000),
        "rank2": bids.filter((bids.price >= 10_000) & (bids.price < 1_000_000)),
        "rank3": bids.filter(bids.price >= 1_000_000),
    }
    for rank, of in ranks.items():
        ranked = of.groupby(of.channel, of.day).reduce(of.channel, of.day, **counts(of, rank))
        names = [f"{rank}_{kind}" for kind in ("bids", "bidders", "auctions")]
        rows = rows.join_left(ranked, rows.channel == ranked.channel, rows.day == ranked.day, id=rows.id).select(
            *rows, **{name: pw.coalesce(ranked[name], 0) for name in names}
        )
    rows = rows.with_columns(key=rows.day + " " + rows.channel)
    pw.io.kafka.write(rows, {"bootstrap.servers": bootstrap}, output, format="json", key=rows.key)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    main()
