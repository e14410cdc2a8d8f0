"""The messages of each source type: makes the original's JSON from columns.

First comes a function for each kind of message. Then come the rules by which a field becomes a key; the topology's
splitter shares them. A column of text may be plain or dictionary-encoded, which is quoted and counted faster.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.kafka.json_columns import format_integers, join_columns, quote_texts
from unskew.producers.datasets.interface import Block

#: The beginning of a page's address, before its title; not part of the key.
WIKI_URL = "http://en.wikipedia.org/wiki/"


def make_key_messages(keys: pa.Array, milliseconds: NDArray[np.int64] | None = None) -> Block:
    """``{"key"}``, or ``{"key","timestamp"}`` in ms, for streams of no application. string[n], int64[n]."""
    when = {} if milliseconds is None else {"timestamp": format_integers(milliseconds)}
    return Block(_write_objects({"key": quote_texts(keys)} | when), keys, times=milliseconds)


def make_country_messages(names: pa.Array) -> Block:
    """``{"country"}``, keyed by the country. string[n]."""
    return Block(_write_objects({"country": quote_texts(names)}), names)


def make_ticker_messages(seconds: NDArray[np.int64], tickers: pa.Array) -> Block:
    """``{"timestamp","ticker"}``, keyed by the ticker. The timestamp is in seconds, as in the original: int64[n]."""
    messages = _write_objects({"timestamp": format_integers(seconds), "ticker": quote_texts(tickers)})
    return Block(messages, tickers, times=seconds * 1000)


def make_election_messages(
    texts: pa.Array,
    hashtags: pa.ListArray,
    milliseconds: NDArray[np.int64],
    keys: tuple[pa.Array, NDArray[np.bool_]] | None = None,
) -> Block:
    """``{"text","hashtags":[…],"timestamp"}``, with a key for each hashtag (``hashtag_keys``); ms: int64[n].

    ``hashtags`` has a list for each message, which may be empty: of texts, or of a dictionary of texts. A caller with
    the same dictionary each time gives ``keys``, the result of ``hashtag_keys`` for it, so that it is made once.
    """
    flat = hashtags.flatten()
    listed = pc.call_function(
        "binary_join", [pa.ListArray.from_arrays(hashtags.offsets, quote_texts(flat)), pa.scalar(",")]
    )
    lists = join_columns("[", listed, "]")
    fields = {"text": quote_texts(texts), "hashtags": lists, "timestamp": format_integers(milliseconds)}
    coded = flat if isinstance(flat, pa.DictionaryArray) else flat.dictionary_encode()
    folded, kept = keys or hashtag_keys(coded.dictionary)
    coded_keys = pa.DictionaryArray.from_arrays(coded.indices, folded)
    owners = np.repeat(np.arange(len(texts), dtype=np.int32), np.diff(hashtags.offsets.to_numpy()))
    has_key = kept[coded.indices.to_numpy()]
    return Block(_write_objects(fields), coded_keys.filter(pa.array(has_key)), owners[has_key], times=milliseconds)


def make_pageview_messages(seconds: NDArray[np.int64], pages: pa.Array) -> Block:
    """``{"timestamp","page"}``, keyed by the page's title. The timestamp is in seconds, as in the original."""
    messages = _write_objects({"timestamp": format_integers(seconds), "page": quote_texts(pages)})
    return Block(messages, without_url(pages), times=seconds * 1000)


def make_pageview_by_lang_messages(
    langs: pa.Array, pages: pa.Array, views: NDArray[np.int64], sizes: NDArray[np.int64]
) -> Block:
    """``{"lang","page","n","m"}``, keyed by the language up to its first dot. The key's count is n, the views."""
    texts = {"lang": quote_texts(langs), "page": quote_texts(pages)}
    messages = _write_objects(texts | {"n": format_integers(views), "m": format_integers(sizes)})
    return Block(messages, before_dot(langs), counts=views)


def make_clickstream_messages(prev: pa.Array, curr: pa.Array, kind: pa.Array, clicks: NDArray[np.int64]) -> Block:
    """``{"prev","curr","type","n"}``, keyed by the page that was reached. The key's count is n, the clicks."""
    texts = {"prev": quote_texts(prev), "curr": quote_texts(curr), "type": quote_texts(kind)}
    return Block(_write_objects(texts | {"n": format_integers(clicks)}), curr, counts=clicks)


def make_bid_messages(
    auctions: NDArray[np.int64],
    bidders: NDArray[np.int64],
    prices: NDArray[np.int64],
    channels: pa.Array,
    urls: pa.Array,
    milliseconds: NDArray[np.int64],
    extras: pa.Array,
) -> Block:
    """NEXMark's bids, keyed by the auction.

    NEXMark's events are written as the Kafka table of its version for Flink has them: ``{"event_type","person",
    "auction","bid"}``, of which the type 0, 1 or 2 says which of the others isn't null. ``dateTime`` is UTC.
    """
    keys = format_integers(auctions)
    of = {
        "auction": keys,
        "bidder": format_integers(bidders),
        "price": format_integers(prices),
        "channel": quote_texts(channels),
        "url": quote_texts(urls),
        "dateTime": _format_times(milliseconds),
        "extra": quote_texts(extras),
    }
    return Block(
        _to_binary(join_columns('{"event_type":2,"person":null,"auction":null,"bid":', *_build_object(of), "}")),
        keys,
        times=milliseconds,
    )


def make_auction_messages(
    ids: NDArray[np.int64],
    names: pa.Array,
    descriptions: pa.Array,
    first_bids: NDArray[np.int64],
    reserves: NDArray[np.int64],
    milliseconds: NDArray[np.int64],
    expiries: NDArray[np.int64],
    sellers: NDArray[np.int64],
    categories: NDArray[np.int64],
    extras: pa.Array,
) -> Block:
    """NEXMark's new auctions, which have no key. See ``make_bid_messages``."""
    of = {
        "id": format_integers(ids),
        "itemName": quote_texts(names),
        "description": quote_texts(descriptions),
        "initialBid": format_integers(first_bids),
        "reserve": format_integers(reserves),
        "dateTime": _format_times(milliseconds),
        "expires": _format_times(expiries),
        "seller": format_integers(sellers),
        "category": format_integers(categories),
        "extra": quote_texts(extras),
    }
    return _make_keyless_block(
        join_columns('{"event_type":1,"person":null,"auction":', *_build_object(of), ',"bid":null}'), milliseconds
    )


def make_person_messages(
    ids: NDArray[np.int64],
    names: pa.Array,
    emails: pa.Array,
    cards: pa.Array,
    cities: pa.Array,
    states: pa.Array,
    milliseconds: NDArray[np.int64],
    extras: pa.Array,
) -> Block:
    """NEXMark's new persons, which have no key. See ``make_bid_messages``."""
    of = {
        "id": format_integers(ids),
        "name": quote_texts(names),
        "emailAddress": quote_texts(emails),
        "creditCard": quote_texts(cards),
        "city": quote_texts(cities),
        "state": quote_texts(states),
        "dateTime": _format_times(milliseconds),
        "extra": quote_texts(extras),
    }
    return _make_keyless_block(
        join_columns('{"event_type":0,"person":', *_build_object(of), ',"auction":null,"bid":null}'), milliseconds
    )


def _write_objects(columns: dict[str, pa.Array]) -> pa.BinaryArray:
    """JSON objects with these fields, whose values are JSON, as messages: binary[n]."""
    return _to_binary(join_columns(*_build_object(columns)))


def _build_object(columns: dict[str, pa.Array]) -> list[pa.Array | str]:
    """The parts of JSON objects with these fields, whose values are JSON."""
    named = [(f'{"," if at else "{"}"{name}":', values) for at, (name, values) in enumerate(columns.items())]
    return [*(part for pair in named for part in pair), "}"]


def _format_times(milliseconds: NDArray[np.int64]) -> pa.Array:
    """Times as JSON texts like ``"2015-07-15 00:00:00.000"``: what Flink's JSON writes of a TIMESTAMP(3), and reads."""
    return join_columns('"', pa.array(milliseconds, pa.timestamp("ms")).cast(pa.string()), '"')


def _make_keyless_block(texts: pa.Array, milliseconds: NDArray[np.int64]) -> Block:
    return Block(_to_binary(texts), pa.array([], pa.string()), np.empty(0, np.int32), times=milliseconds)


def _to_binary(texts: pa.Array) -> pa.BinaryArray:
    return texts.cast(pa.binary())


#: The key that all words about the election itself become.
ELECTION_DAY = "ElectionDay"
#: A hashtag that contains one of these is such a word. They are looked for after LETTERS and lower case.
ELECTION_WORDS = ("election", "vote", "voting", "eleic", "elecci", "secim", "sandik")
#: Turkish letters and the Latin ones that they are written as, so that Seçim and secim are one key. Greek sigmas too:
#: which of its two small letters lower case makes of Σ depends on the library.
LETTERS = ("ÇĞİÖŞÜçğıöşüΣς", "CGIOSUcgiosuσσ")
#: A hashtag that contains this was mangled by somebody's character set: it has no key.
MANGLED = "?"


def hashtag_keys(hashtags: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
    """The key of each hashtag, string[k], and whether the hashtag has a key, bool[k].

    Examples
    --------
    >>> keys, kept = hashtag_keys(pa.array(["MAGA", "SeçimGünü", "İstanbul", "??"]))
    >>> keys.to_pylist(), kept.tolist()
    (['maga', 'ElectionDay', 'istanbul', '??'], [True, True, True, False])

    """
    keys = hashtags
    for letter, latin in zip(*LETTERS, strict=True):
        keys = pc.call_function("replace_substring", [keys], pc.ReplaceSubstringOptions(letter, latin))
    keys = pc.call_function("utf8_lower", [keys])
    about = pc.call_function("match_substring_regex", [keys], pc.MatchSubstringOptions("|".join(ELECTION_WORDS)))
    mangled = pc.call_function("match_substring", [keys], pc.MatchSubstringOptions(MANGLED))
    folded = pc.call_function("if_else", [about, pa.scalar(ELECTION_DAY), keys])
    return folded, ~mangled.to_numpy(zero_copy_only=False)


def without_url(pages: pa.Array) -> pa.Array:
    """The title of each page that is given as an address. Other pages stay as they are."""
    if isinstance(pages, pa.DictionaryArray):
        return pa.DictionaryArray.from_arrays(pages.indices, without_url(pages.dictionary))
    starts = pc.call_function("starts_with", [pages], pc.MatchSubstringOptions(WIKI_URL))
    if not pc.call_function("any", [starts]).as_py():
        return pages
    titles = pc.call_function("utf8_slice_codeunits", [pages], pc.SliceOptions(len(WIKI_URL)))
    return pc.call_function("if_else", [starts, titles, pages])


def before_dot(langs: pa.Array) -> pa.Array:
    """The part of each text before its first dot: ``en.m.v`` is ``en``."""
    if isinstance(langs, pa.DictionaryArray):
        return pa.DictionaryArray.from_arrays(langs.indices, before_dot(langs.dictionary))
    dotted = pc.call_function("match_substring", [langs], pc.MatchSubstringOptions("."))
    if not pc.call_function("any", [dotted]).as_py():
        return langs
    return pc.call_function("replace_substring_regex", [langs], pc.ReplaceSubstringOptions(r"(?s)\..*", ""))
