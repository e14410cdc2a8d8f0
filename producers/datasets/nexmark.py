"""NEXMark's events: persons open auctions, and bid in them.

Few auctions and bidders are hot at a time, and each of them only for a while.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.kafka.json_columns import format_integers, join_columns
from unskew.producers.datasets.interface import Block, GeneratedDataset, KeyField
from unskew.producers.messages import make_auction_messages, make_bid_messages, make_person_messages

#: Of 50 events in a row the first is a person, three are auctions, and the others bids.
PERSONS, AUCTIONS, BIDS = 1, 3, 46
CYCLE = PERSONS + AUCTIONS + BIDS
#: The first ids of persons, auctions and categories, and the number of categories.
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
#: One of so many consecutive auctions is hot, and one of so many consecutive persons is.
HOT_OF = 100
#: Cold bids go to one of the last so many auctions, or come from one of the last so many persons …
IN_FLIGHT, ACTIVE = 100, 1000
#: … or from one of the next so many, which aren't there yet.
LEAD = 10
#: Mean bytes of an event, of which channels, urls and JSON's names are no part.
PERSON_SIZE, AUCTION_SIZE, BID_SIZE = 200, 500, 100
_NUMBER = 8  # bytes of a number or a time, in these sizes

_BEGIN = 1_436_918_400_000  # 15 July 2015, where Beam's events begin
_EVENTS = ("bids", "all")
_LARGEST = 10_000_000  # of the parameters

_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_CHANNELS = 10_000
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
_FIRST_NAMES = ("Ada", "Barbara", "Can", "Donald", "Edsger", "Frances", "Grace", "Leslie", "Niklaus", "Tony")
_LAST_NAMES = ("Baker", "Carpenter", "Farmer", "Fisher", "Mason", "Miller", "Potter", "Smith", "Weaver")


@dataclass(frozen=True, slots=True)
class _EventTimes:
    """When n events come, and who is there then."""

    milliseconds: NDArray[np.int64]  #: int64[n]: The event time, ms since the epoch.
    #: int64[n]: The newest person and the newest auction, counted from 0. An event that makes a new one makes the
    #: newest.
    person: NDArray[np.int64]
    auction: NDArray[np.int64]


class Nexmark(GeneratedDataset):
    """``{"event_type","person","auction","bid"}`` messages of NEXMark's auction site, by the rules of Beam's generator.

    * Of 50 events one is a new person, three are new auctions, and 46 are bids.
    * With probability 1 - 1 / ``hot_auction_ratio`` a bid goes to the hot auction: the newest whose id is a multiple of
      100. Other bids go to the newest auction, to one of the hundred before it, or to one of the next ten.
    * With probability 1 - 1 / ``hot_bidders_ratio`` a bid comes from the hot bidder: the person after the newest whose
      id is a multiple of 100. Other bids come from one of the last thousand persons, or of the next ten.
    * With probability 1 - 1 / ``hot_sellers_ratio`` an auction is opened by the newest person whose id is a multiple of
      100. Other auctions are opened as other bids are made.
    * Events come in order and at equal intervals, ``event_rate`` in a second of event time.
    * A price is 10^x dollars, x uniform from 0 to 6. It is written in cents.
    * Half of the bids come through four channels, the others through ten thousand.

    So an auction is hot until 100 others are open, which takes 1,667 events. A bidder is hot for 5,000 events. Their
    share of the bids in a window depends on the number of events in it.

    Parameters
    ----------
    events : str
        ``bids``: the records are the bids alone, with the ids and times that they have among all events. ``all``:
        persons and auctions are records, too; they have no key.
    event_rate : int
        Events of all kinds in a second of event time, at least 1.
    hot_auction_ratio, hot_bidders_ratio, hot_sellers_ratio : int
        As above, at least 1. With 1 none is hot.
    records, seed : int
        See ``GeneratedDataset``.

    References
    ----------
    Tucker et al.: NEXMark – A Benchmark for Queries over Data Streams, 2008. Ratios, ids, sizes and channels are those
    of Apache Beam's generator (``sdks/java/testing/nexmark``) and of the one for Flink (``nexmark/nexmark``), which
    added the channels. The latter adds 1000 to a bidder's id twice (its issue 30); here a bidder is a person.

    """

    name = "NEXMARK"
    key = KeyField(("bid", "auction"), scalars=True, optional=True)  # persons and auctions give no tuple

    def __init__(
        self,
        *,
        events: str = "bids",
        event_rate: int = 10_000,
        hot_auction_ratio: int = 2,
        hot_bidders_ratio: int = 4,
        hot_sellers_ratio: int = 4,
        records: int = 10_000_000,
        seed: int = 0,
    ) -> None:
        super().__init__(records, seed)
        if events not in _EVENTS:
            raise ValueError(f"events is {events!r}; valid: {', '.join(_EVENTS)}")
        self._all = events == "all"
        self._parameters = {
            "event_rate": event_rate,
            "hot_auction_ratio": hot_auction_ratio,
            "hot_bidders_ratio": hot_bidders_ratio,
            "hot_sellers_ratio": hot_sellers_ratio,
        }
        for what, value in self._parameters.items():
            if not 1 <= value <= _LARGEST:
                raise ValueError(f"{what} is {value:,}; valid: 1 to {_LARGEST:,}")
        kind = "persons, auctions and bids" if self._all else "bids"
        self.summary = (
            f"{kind} of NEXMark's auctions, {event_rate:,} events/s: each hundredth auction is hot for a while"
        )

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "all": self._all, **self._parameters}

    def _draw(self, rng: np.random.Generator, first: int) -> Block:
        positions = np.arange(first, first + self.chunk)
        if not self._all:
            return self._bids(rng, positions // BIDS * CYCLE + PERSONS + AUCTIONS + positions % BIDS)
        kind = positions % CYCLE
        of_persons, of_auctions = kind < PERSONS, kind < PERSONS + AUCTIONS
        of_bids = ~of_auctions
        of_auctions &= ~of_persons
        bids = self._bids(rng, positions[of_bids])
        others = self._auctions(rng, positions[of_auctions]), self._persons(rng, positions[of_persons])
        # Each event's place among those of all kinds, which stand one kind after the other.
        order = np.argsort(np.concatenate([np.flatnonzero(of) for of in (of_bids, of_auctions, of_persons)]))
        messages = pa.concat_arrays([block.messages for block in (bids, *others)])
        owners = np.flatnonzero(of_bids).astype(np.int32)
        return Block(messages.take(pa.array(order)), bids.keys, owners, times=self._at(positions).milliseconds)

    def _at(self, events: NDArray[np.int64]) -> _EventTimes:
        """The moments of events, by their numbers among the events of all kinds."""
        cycle, kind = np.divmod(events, CYCLE)
        auctions = cycle * AUCTIONS + np.clip(kind - PERSONS, -1, AUCTIONS - 1)
        return _EventTimes(_BEGIN + events * 1000 // self._parameters["event_rate"], cycle, auctions)

    def _hot(self, rng: np.random.Generator, ratio: str, n: int) -> NDArray[np.bool_]:
        return rng.integers(0, self._parameters[ratio], n) > 0

    def _bids(self, rng: np.random.Generator, events: NDArray[np.int64]) -> Block:
        at, n = self._at(events), len(events)
        auctions = _pick_recent(rng, at.auction, IN_FLIGHT + 1)
        auctions = np.where(self._hot(rng, "hot_auction_ratio", n), at.auction // HOT_OF * HOT_OF, auctions)
        bidders = _pick_recent(rng, at.person, ACTIVE)
        # Not the first of a hundred, who is the hot seller.
        bidders = np.where(self._hot(rng, "hot_bidders_ratio", n), at.person // HOT_OF * HOT_OF + 1, bidders)
        channels, urls = self._channels
        few = rng.random(n) < 0.5
        codes = np.where(
            few, rng.integers(0, len(_HOT_CHANNELS), n), len(_HOT_CHANNELS) + rng.integers(0, _CHANNELS, n)
        )
        code = pa.array(codes.astype(np.int32))
        return make_bid_messages(
            auctions + FIRST_ID,
            bidders + FIRST_ID,
            _draw_prices(rng, n),
            pa.DictionaryArray.from_arrays(code, channels),
            pa.DictionaryArray.from_arrays(code, urls),
            at.milliseconds,
            _make_padding(rng, np.full(n, BID_SIZE - 4 * _NUMBER)),
        )

    def _auctions(self, rng: np.random.Generator, events: NDArray[np.int64]) -> Block:
        at, n = self._at(events), len(events)
        sellers = _pick_recent(rng, at.person, ACTIVE)
        sellers = np.where(self._hot(rng, "hot_sellers_ratio", n), at.person // HOT_OF * HOT_OF, sellers)
        names, descriptions = _make_texts(rng, n, 20), _make_texts(rng, n, 100)
        first_bids = _draw_prices(rng, n)
        # The mean duration is the time in which IN_FLIGHT auctions are opened.
        mean = self._at(events + IN_FLIGHT * CYCLE // AUCTIONS).milliseconds - at.milliseconds
        return make_auction_messages(
            at.auction + FIRST_ID,
            names,
            descriptions,
            first_bids,
            first_bids + _draw_prices(rng, n),
            at.milliseconds,
            at.milliseconds + 1 + rng.integers(0, np.maximum(2 * mean, 1)),
            sellers + FIRST_ID,
            FIRST_CATEGORY + rng.integers(0, CATEGORIES, n),
            _make_padding(rng, AUCTION_SIZE - 6 * _NUMBER - _sum_lengths(names, descriptions)),
        )

    def _persons(self, rng: np.random.Generator, events: NDArray[np.int64]) -> Block:
        at, n = self._at(events), len(events)
        names = join_columns(_pick_texts(rng, _FIRST_NAMES, n), " ", _pick_texts(rng, _LAST_NAMES, n))
        emails = join_columns(_make_texts(rng, n, 7), "@", _make_texts(rng, n, 5), ".com")
        groups = rng.integers(0, 10_000, (4, n))
        first, *others = map(_four_digits, groups)
        cards = join_columns(first, *(part for group in others for part in (" ", group)))
        cities, states = _pick_texts(rng, _CITIES, n), _pick_texts(rng, _STATES, n)
        size = PERSON_SIZE - _NUMBER - _sum_lengths(names, emails, cards, cities, states)
        return make_person_messages(
            at.person + FIRST_ID, names, emails, cards, cities, states, at.milliseconds, _make_padding(rng, size)
        )

    @cached_property
    def _channels(self) -> tuple[pa.StringArray, pa.StringArray]:
        """All channels and their urls, the hot ones first. Of the others, nine in ten have their number in the url."""
        rng, n = np.random.default_rng((self.seed, _CHANNELS)), len(_HOT_CHANNELS) + _CHANNELS
        url = join_columns(
            "https://www.nexmark.com/", *(p for _ in range(3) for p in (_make_texts(rng, n, 5, "_"), "/"))
        )
        numbers = format_integers(np.arange(_CHANNELS))
        named = pa.array([""] * len(_HOT_CHANNELS) + ["&channel_id="] * _CHANNELS)
        ids = pa.concat_arrays([pa.array([""] * len(_HOT_CHANNELS)), numbers])
        shown = pa.array(rng.random(n) < 0.9)
        suffix = pc.call_function("if_else", [shown, join_columns(named, ids), pa.scalar("")])
        channels = pa.concat_arrays([pa.array(_HOT_CHANNELS), join_columns("channel-", numbers)])
        return channels, join_columns(url, "item.htm?query=1", suffix)


def _pick_recent(rng: np.random.Generator, newest: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """For each id one of the last ``most`` ids, this one included, or of the next ``LEAD``; all are equally likely."""
    first = np.maximum(newest + 1 - most, 0)
    return first + rng.integers(0, newest + 1 - first + LEAD)


def _draw_prices(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    return np.rint(100 * 10 ** (6 * rng.random(n))).astype(np.int64)


def _pick_texts(rng: np.random.Generator, texts: Sequence[str], n: int) -> pa.StringArray:
    return pa.array(texts).take(pa.array(rng.integers(0, len(texts), n)))


def _four_digits(numbers: NDArray[np.int64]) -> pa.StringArray:
    return pc.call_function("utf8_lpad", [format_integers(numbers)], pc.PadOptions(4, "0"))


def _sum_lengths(*texts: pa.StringArray) -> NDArray[np.int64]:
    """The bytes of all texts of a row, int64[n]."""
    lengths = [pc.call_function("binary_length", [column]).to_numpy() for column in texts]
    return np.stack(lengths).sum(axis=0, dtype=np.int64)


def _make_padding(rng: np.random.Generator, sizes: NDArray[np.int64]) -> pa.StringArray:
    """Letters that fill an event up: as many as ``sizes`` says, and up to a fifth more or fewer."""
    sizes = np.maximum(sizes, 0)
    spread = np.rint(0.2 * sizes).astype(np.int64)
    lengths = sizes - spread + rng.integers(0, np.maximum(2 * spread, 1))
    return _cut_texts(rng.integers(ord("a"), ord("z") + 1, lengths.sum(), np.uint8), lengths)


def _make_texts(rng: np.random.Generator, n: int, longest: int, between: str = " ") -> pa.StringArray:
    """Texts of 3 letters at least, and of fewer than ``longest``. One letter of 13 is ``between`` others."""
    lengths = rng.integers(3, longest, n)
    letters = rng.integers(ord("a"), ord("z") + 1, lengths.sum(), np.uint8)
    letters[rng.integers(0, 13, len(letters), np.uint8) == 0] = ord(between)
    return pc.call_function("utf8_trim_whitespace", [_cut_texts(letters, lengths)])


def _cut_texts(letters: NDArray[np.uint8], lengths: NDArray[np.int64]) -> pa.StringArray:
    """Letters in a row, cut into texts of these lengths."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(letters))
