"""The messages of each source type: columns in, the original's JSON out.

A column of text may be plain or dictionary-encoded; the latter is quoted and counted faster.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.producers.dataset import Block
from unskew.producers.hashtags import hashtag_keys
from unskew.producers.rendering import digits, joined, quoted

#: What stands before a page's title where it is given by its address; not part of the key.
WIKI_URL = "http://en.wikipedia.org/wiki/"


def keyed(keys: pa.Array, milliseconds: NDArray[np.int64] | None = None) -> Block:
    """``{"key"}``, or ``{"key","timestamp"}`` in ms, for streams that stand for no application. string[n], int64[n]."""
    when = () if milliseconds is None else (',"timestamp":', digits(milliseconds))
    return Block(_binary(joined('{"key":', quoted(keys), *when, "}")), keys, times=milliseconds)


def country(names: pa.Array) -> Block:
    """``{"country"}``, keyed by the country. string[n]."""
    return Block(_binary(joined('{"country":', quoted(names), "}")), names)


def ticker(seconds: NDArray[np.int64], tickers: pa.Array) -> Block:
    """``{"timestamp","ticker"}``, keyed by the ticker. The timestamp is in seconds, as the original's: int64[n]."""
    messages = joined('{"timestamp":', digits(seconds), ',"ticker":', quoted(tickers), "}")
    return Block(_binary(messages), tickers, times=seconds * 1000)


def election(
    texts: pa.Array,
    hashtags: pa.ListArray,
    milliseconds: NDArray[np.int64],
    keys: tuple[pa.Array, NDArray[np.bool_]] | None = None,
) -> Block:
    """``{"text","hashtags":[…],"timestamp"}``, keyed by each hashtag (see ``unskew.producers.hashtags``); ms: int64[n].

    ``hashtags`` is a list of text, or of a dictionary of text, for each message: several, one or none. ``keys`` is
    what ``hashtag_keys`` says of the dictionary, from who has the same one each time.
    """
    flat = hashtags.flatten()
    listed = pc.call_function("binary_join", [pa.ListArray.from_arrays(hashtags.offsets, quoted(flat)), pa.scalar(",")])
    messages = joined('{"text":', quoted(texts), ',"hashtags":[', listed, '],"timestamp":', digits(milliseconds), "}")
    coded = flat if isinstance(flat, pa.DictionaryArray) else flat.dictionary_encode()
    folded, kept = keys or hashtag_keys(coded.dictionary)
    coded_keys = pa.DictionaryArray.from_arrays(coded.indices, folded)
    owners = np.repeat(np.arange(len(texts), dtype=np.int32), np.diff(hashtags.offsets.to_numpy()))
    has_key = kept[coded.indices.to_numpy()]
    return Block(_binary(messages), coded_keys.filter(pa.array(has_key)), owners[has_key], times=milliseconds)


def pageview(seconds: NDArray[np.int64], pages: pa.Array) -> Block:
    """``{"timestamp","page"}``, keyed by the page without its address' beginning. Seconds, as the original's."""
    messages = joined('{"timestamp":', digits(seconds), ',"page":', quoted(pages), "}")
    return Block(_binary(messages), without_url(pages), times=seconds * 1000)


def without_url(pages: pa.Array) -> pa.Array:
    """The title of each page that is given by its address; others as they are."""
    if isinstance(pages, pa.DictionaryArray):
        return pa.DictionaryArray.from_arrays(pages.indices, without_url(pages.dictionary))
    starts = pc.call_function("starts_with", [pages], pc.MatchSubstringOptions(WIKI_URL))
    if not pc.call_function("any", [starts]).as_py():
        return pages
    titles = pc.call_function("utf8_slice_codeunits", [pages], pc.SliceOptions(len(WIKI_URL)))
    return pc.call_function("if_else", [starts, titles, pages])


def pageviews_by_lang(langs: pa.Array, pages: pa.Array, views: NDArray[np.int64], sizes: NDArray[np.int64]) -> Block:
    """``{"lang","page","n","m"}``, keyed by the language up to its first dot; n, the views, is the key's count."""
    messages = joined(
        '{"lang":', quoted(langs), ',"page":', quoted(pages), ',"n":', digits(views), ',"m":', digits(sizes), "}"
    )
    return Block(_binary(messages), before_dot(langs), counts=views)


def before_dot(langs: pa.Array) -> pa.Array:
    """The part of each text before its first dot: ``en.m.v`` is ``en``."""
    if isinstance(langs, pa.DictionaryArray):
        return pa.DictionaryArray.from_arrays(langs.indices, before_dot(langs.dictionary))
    return pc.call_function("replace_substring_regex", [langs], pc.ReplaceSubstringOptions(r"\..*$", ""))


def clickstream(prev: pa.Array, curr: pa.Array, kind: pa.Array, clicks: NDArray[np.int64]) -> Block:
    """``{"prev","curr","type","n"}``, keyed by the page that was reached; n, the clicks, is the key's count."""
    messages = joined(
        '{"prev":', quoted(prev), ',"curr":', quoted(curr), ',"type":', quoted(kind), ',"n":', digits(clicks), "}"
    )
    return Block(_binary(messages), curr, counts=clicks)


def _binary(texts: pa.Array) -> pa.BinaryArray:
    return texts.cast(pa.binary())
