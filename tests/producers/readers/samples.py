"""The files in tests/data, and what reads them."""

from pathlib import Path

import orjson
import pytest

from unskew.producers.datasets.registry import FORMATS
from unskew.producers.readers.files import FileDataset
from unskew.producers.readers.inputs import find_inputs
from unskew.producers.readers.rejected_records import RejectLog

DATA = Path(__file__).parents[2] / "data"
SAMPLES = [
    ("WIKIPEDIA_CLICKSTREAM", "clickstream-enwiki-2017-11.tsv", 15, 7),
    ("WIKIPEDIA_PAGEVIEWS_BY_LANG", "pageviews-20240101-000000", 18, 6),
    ("WIKIPEDIA_PAGEVIEWS", "pageviews.tsv", 8, 3),
    ("WIKIPEDIA_PAGEVIEWS", "wikibench.trace", 4, 3),
    ("TWITTER_TICKER", "ticker.tsv", 5, 6),
    ("TWITTER_TICKER", "tweets-v1.jsonl", 4, 6),
    ("TWITTER_TICKER", "tweets-v2.jsonl", 6, 3),
    ("TWITTER_ELECTION", "tweets-v1.jsonl", 8, 6),
    ("TWITTER_ELECTION", "tweets-v2.jsonl", 3, 3),
]
ALL = pytest.mark.parametrize(("name", "file", "messages", "rejected"), SAMPLES)


def reader(name, *paths, rejects=None, limit=None):
    return FileDataset(name, find_inputs(map(str, paths)), FORMATS[name], rejects or RejectLog(), limit)


def read(dataset, start=0):
    return [orjson.loads(message) for block in dataset.blocks(start) for message in block.messages.to_pylist()]


def keys(dataset):
    return [key for block in dataset.blocks() for key in block.keys.to_pylist()]
