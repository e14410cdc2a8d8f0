"""NEXMark's events follow the published rules: proportions, ids, hot auctions, bidders and sellers, times and sizes."""

from datetime import UTC, datetime

import numpy as np
import orjson
import pyarrow as pa
import pytest

from unskew.producers.datasets.interface import GeneratedDataset
from unskew.producers.datasets.registry import create_dataset

RECORDS = 150_000
BEGIN = datetime(2015, 7, 15, tzinfo=UTC)


def documents(**options):
    dataset = create_dataset("NEXMARK", **{"records": RECORDS, "seed": 1, **options})
    return [orjson.loads(message) for block in dataset.blocks() for message in block.messages.to_pylist()]


def columns(rows):
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def milliseconds(texts):
    moments = (datetime.fromisoformat(text).replace(tzinfo=UTC) for text in texts)
    return np.array([round((moment - BEGIN).total_seconds() * 1000) for moment in moments])


def share(probability, n):
    """Five standard errors: a correct generator fails this once in two million seeds."""
    return pytest.approx(probability, abs=5 * (probability * (1 - probability) / n) ** 0.5)


@pytest.fixture(scope="module")
def stream():
    """The events of all kinds, and each event's number by kind."""
    events = documents(events="all")
    kinds = np.array([event["event_type"] for event in events])
    names = ("person", "auction", "bid")
    rows = {name: columns([event[name] for event in events if event[name] is not None]) for name in names}
    return kinds, rows, {name: np.flatnonzero(kinds == kind) for kind, name in enumerate(rows)}


@pytest.fixture(scope="module")
def bids():
    """The bids' columns; the newest person and auction when each bid comes."""
    cycle = np.arange(RECORDS) // 46
    return columns([event["bid"] for event in documents()]), cycle, 3 * cycle + 2


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_others_bids(stream):
    kinds, _, _ = stream
    assert (kinds.reshape(-1, 50) == [0] + 3 * [1] + 46 * [2]).all()


def test_an_event_has_the_object_of_its_kind_alone():
    for event in documents(events="all", records=500):
        assert list(event) == ["event_type", "person", "auction", "bid"]
        there = [name for name in ("person", "auction", "bid") if event[name] is not None]
        assert there == [("person", "auction", "bid")[event["event_type"]]]


def test_persons_and_auctions_are_numbered_from_1000(stream):
    _, rows, _ = stream
    for name in ("person", "auction"):
        assert (rows[name]["id"] == 1000 + np.arange(len(rows[name]["id"]))).all()


@pytest.mark.parametrize("ratio", [1, 5])
def test_a_bid_goes_to_the_hot_auction_or_to_one_of_the_last_hundred_or_of_the_next_ten(ratio):
    auction = columns([event["bid"] for event in documents(hot_auction_ratio=ratio)])["auction"] - 1000
    newest = 3 * (np.arange(RECORDS) // 46) + 2
    is_hot = auction == newest // 100 * 100  # so is a cold bid's, once in 111 times
    assert is_hot.mean() == share(1 - 1 / ratio * (1 - 1 / 111), RECORDS)
    back = (newest - auction)[~is_hot & (newest >= 200)]
    assert (back.min(), back.max()) == (-10, 100)
    counts = np.bincount(back + 10, minlength=111)
    assert counts == pytest.approx(np.full(111, counts.mean()), abs=6 * counts.mean() ** 0.5 + 0.02 * counts.mean())


@pytest.mark.parametrize("ratio", [1, 4])
def test_a_bid_comes_from_the_hot_bidder_or_from_one_of_the_last_thousand_persons_or_of_the_next_ten(ratio):
    bidder = columns([event["bid"] for event in documents(hot_bidders_ratio=ratio)])["bidder"] - 1000
    newest = np.arange(RECORDS) // 46
    is_hot = bidder == newest // 100 * 100 + 1
    later = newest >= 1000
    assert is_hot[later].mean() == share(1 - 1 / ratio * (1 - 1 / 1010), later.sum())
    back = (newest - bidder)[~is_hot & later]
    assert (back.min(), back.max()) == (-10, 999)
    early = ~is_hot & ~later
    assert bidder[early].min() == 0
    assert ((newest - bidder)[early] >= -10).all()


def test_three_of_four_auctions_are_the_hot_seller_s_who_is_no_hot_bidder(stream):
    _, rows, at = stream
    seller, newest = rows["auction"]["seller"] - 1000, at["auction"] // 50
    is_hot, later = seller == newest // 100 * 100, newest >= 1000
    assert is_hot[later].mean() == share(1 - 1 / 4 * (1 - 1 / 1010), later.sum())
    back = (newest - seller)[~is_hot & later]
    assert back.min() >= -10
    assert back.max() < 1000


def test_the_bids_alone_have_the_ids_and_times_that_they_have_among_all(stream, bids):
    _, rows, at = stream
    alone, _, newest = bids
    n = len(at["bid"])
    assert (alone["dateTime"][:n] == rows["bid"]["dateTime"]).all()
    assert (newest[:n] == at["bid"] // 50 * 3 + 2).all()
    assert (alone["auction"] - 1000 - newest).max() == 10


@pytest.mark.parametrize("rate", [1, 700, 10_000, 1_000_000])
def test_events_are_evenly_spaced(rate):
    events = documents(events="all", event_rate=rate, records=5_000)
    found = milliseconds(event[("person", "auction", "bid")[event["event_type"]]]["dateTime"] for event in events)
    assert (found == [number * 1000 // rate for number in range(5_000)]).all()
    (block,) = create_dataset("NEXMARK", events="all", event_rate=rate, records=5_000).blocks()
    assert (block.times == found + round(BEGIN.timestamp() * 1000)).all()


def test_an_auction_lasts_until_a_hundred_others_are_open_on_average(stream):
    _, rows, _ = stream
    lasts = milliseconds(rows["auction"]["expires"]) - milliseconds(rows["auction"]["dateTime"])
    mean = 100 / 3 * 50 / 10_000 * 1000  # ms
    assert lasts.min() >= 1
    assert lasts.max() <= 2 * mean + 2
    assert lasts.mean() == pytest.approx(mean, rel=0.03)


def test_prices_are_spread_over_six_decades(stream, bids):
    _, rows, _ = stream
    for prices in (bids[0]["price"], rows["auction"]["initialBid"]):
        assert prices.min() >= 100
        assert prices.max() <= 10**8
        decades = np.bincount(np.log10(prices / 100).astype(int), minlength=6)[:6] / len(prices)
        assert decades == pytest.approx(np.full(6, 1 / 6), abs=0.02)
    assert (rows["auction"]["reserve"] - rows["auction"]["initialBid"]).min() >= 100


def test_half_of_the_bids_come_through_four_channels(bids):
    channels, counts = np.unique(bids[0]["channel"], return_counts=True)
    by_channel = dict(zip(channels.tolist(), counts.tolist(), strict=True))
    for hot in ("Google", "Facebook", "Baidu", "Apple"):
        assert by_channel.pop(hot) / RECORDS == share(1 / 8, RECORDS)
    assert len(by_channel) == pytest.approx(10_000, rel=0.01)
    assert set(by_channel) <= {f"channel-{number}" for number in range(10_000)}


def test_a_channel_has_one_url(bids):
    pairs = set(zip(bids[0]["channel"].tolist(), bids[0]["url"].tolist(), strict=True))
    assert len({channel for channel, _ in pairs}) == len(pairs)
    numbered = [f"&channel_id={channel.removeprefix('channel-')}" in url for channel, url in pairs]
    assert np.mean(numbered) == share(0.9, len(pairs))
    for _, url in list(pairs)[:100]:
        assert url.startswith("https://www.nexmark.com/")
        assert "/item.htm?query=1" in url


def test_events_have_the_published_mean_sizes(stream, bids):
    _, rows, _ = stream

    def mean(of, numbers, *texts):
        return np.mean([sum(map(len, row)) for row in zip(*(of[text] for text in texts), strict=True)]) + 8 * numbers

    assert mean(bids[0], 4, "extra") == pytest.approx(100, abs=1)
    assert mean(rows["auction"], 6, "itemName", "description", "extra") == pytest.approx(500, abs=3)
    texts = "name", "emailAddress", "creditCard", "city", "state", "extra"
    assert mean(rows["person"], 1, *texts) == pytest.approx(200, abs=2)


def test_persons_and_auctions_have_no_key():
    """A message is of the key's block alone, also where a block is cut: reading may begin anywhere."""
    dataset = create_dataset("NEXMARK", events="all", records=GeneratedDataset.chunk + 500, seed=4)
    whole = [document["bid"] for document in documents(events="all", records=GeneratedDataset.chunk + 500, seed=4)]
    expected = [None if bid is None else str(bid["auction"]) for bid in whole]
    for start in (1, 49, GeneratedDataset.chunk - 7):
        blocks = list(dataset.blocks(start))
        assert pa.concat_arrays([block.first_keys() for block in blocks]).to_pylist() == expected[start:]
        messages = [orjson.loads(message)["bid"] for block in blocks for message in block.messages.to_pylist()]
        assert messages == whole[start:]
