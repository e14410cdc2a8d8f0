"""Every source type, from its generator and from real-format files: the splitter finds the producer's keys."""

import json
from collections import Counter
from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evidence.speed.appetite import DEFAULT
from evidence.speed.native import FIELDS, cut, parsed_tuples
from tests.apps.conftest import by_key, final_counts
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.splitter.formats import get_splitter
from unskew.kafka.topics import ensure_topic
from unskew.producers.datasets.interface import Dataset
from unskew.producers.datasets.registry import DATASETS, FORMATS, KINDS, create_dataset
from unskew.producers.publish import publish_dataset
from unskew.producers.readers.files import FileDataset
from unskew.producers.readers.inputs import find_inputs
from unskew.producers.readers.rejected_records import RejectLog

DATA = Path(__file__).parents[2] / "data"
FILES = [
    ("WIKIPEDIA_CLICKSTREAM", "clickstream-enwiki-2017-11.tsv"),
    ("WIKIPEDIA_PAGEVIEWS_BY_LANG", "pageviews-20240101-000000"),
    ("WIKIPEDIA_PAGEVIEWS", "pageviews.tsv"),
    ("WIKIPEDIA_PAGEVIEWS", "wikibench.trace"),
    ("TWITTER_TICKER", "ticker.tsv"),
    ("TWITTER_TICKER", "tweets-v1.jsonl"),
    ("TWITTER_TICKER", "tweets-v2.jsonl"),
    ("TWITTER_ELECTION", "tweets-v1.jsonl"),
    ("TWITTER_ELECTION", "tweets-v2.jsonl"),
]
APPLICATIONS = [name for name in DATASETS if name.startswith(("TWITTER", "WIKIPEDIA"))]
RECORDS = 3_000


def from_file(name: str, file: str) -> Dataset:
    return FileDataset(name, find_inputs([str(DATA / file)]), FORMATS[name], RejectLog(), None)


def truth(dataset: Dataset) -> tuple[Counter[str], Counter[str], list[bytes]]:
    """Each key's tuples and count, and the messages, as the producer has them."""
    tuples: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    messages: list[bytes] = []
    for block in dataset.blocks():
        keys = block.keys.to_pylist()
        tuples.update(keys)
        for key, n in zip(keys, [1] * len(keys) if block.counts is None else block.counts.tolist(), strict=True):
            counts[key] += n
        messages += block.messages.to_pylist()
    return tuples, counts, messages


def table(spark, messages: list[bytes]) -> DataFrame:
    return spark.createDataFrame([(m,) for m in messages], "value binary").repartition(2)


def tally(rows: DataFrame) -> tuple[Counter[str], Counter[str]]:
    return tallies({"": rows})[""]


def tallies(frames: dict[str, DataFrame]) -> dict[str, tuple[Counter[str], Counter[str]]]:
    """Each frame's tuples and counts by key, by one query over all of them."""
    rows = [
        rows.select(F.lit(name).alias("of"), "key", "count" if "count" in rows.columns else F.lit(1).alias("count"))
        for name, rows in frames.items()
    ]
    found: dict[str, tuple[Counter[str], Counter[str]]] = {name: (Counter(), Counter()) for name in frames}
    for name, key, count in reduce(DataFrame.union, rows).collect():
        tuples, counts = found[name]
        tuples[key] += 1
        counts[key] += count
    return found


def spaced(message: bytes) -> bytes:
    """A message of the same meaning, with white space where Python's JSON has it."""
    return b" " + json.dumps(json.loads(message)).encode()


def test_the_splitter_finds_the_producers_keys(spark, subtests):
    """In generated messages, with and without white space, and in those from files."""
    names = [*KINDS, "COUNTRY_HALF_SKEW_R80"]
    expected, frames = {}, {}
    for name, file in [*((name, None) for name in names), *FILES]:
        case = f"{name} from {file or 'its generator'}"
        *expected[case], messages = truth(from_file(name, file) if file else create_dataset(name, records=RECORDS))
        frames[case] = get_splitter(name).split(table(spark, messages))
        if name in APPLICATIONS and file is None:
            expected[f"{case}, spaced"] = expected[case]
            frames[f"{case}, spaced"] = get_splitter(name).split(table(spark, [*map(spaced, messages)]))
    for case, found in tallies(frames).items():
        with subtests.test(case):
            assert [*found] == expected[case]


def test_of_nexmark_s_events_bids_are_counted_and_others_are_valid(spark):
    tuples, counts, messages = truth(create_dataset("NEXMARK", events="all", records=RECORDS))
    assert sum(tuples.values()) == RECORDS * 46 // 50
    assert tally(get_splitter("NEXMARK").split(table(spark, messages))) == (tuples, counts)
    assert table(spark, messages).where(get_splitter("NEXMARK").rejects(F.col("value"))).collect() == []


def test_nexmark_s_event_time_is_a_timestamp_of_spark_s(spark):
    (block,) = create_dataset("NEXMARK", records=100, event_rate=7).blocks()
    ddl = "bid struct<dateTime: timestamp>"
    rows = table(spark, block.messages.to_pylist()).select(
        F.from_json(F.col("value").cast("string"), ddl).alias("read")
    )
    assert block.times is not None
    assert sorted(row[0] for row in rows.select(F.unix_millis("read.bid.dateTime")).collect()) == block.times.tolist()


@pytest.mark.nightly(group="evidence")
def test_what_benchmarks_set_beside_ours_finds_the_same(spark, subtests):
    expected, frames = {}, {}
    for name in DEFAULT:
        *expected[name], messages = truth(create_dataset(name, records=RECORDS))
        frames[name] = parsed_tuples(table(spark, messages), name)
        if name in FIELDS:
            expected[f"{name}, cut"] = expected[name]
            frames[f"{name}, cut"] = table(spark, messages).select(cut(F.col("value"), FIELDS[name]).alias("key"))
    for name, found in tallies(frames).items():
        with subtests.test(name):
            assert [*found] == expected[name]


BAD = [
    ("WIKIPEDIA_CLICKSTREAM", b'{"prev":"a","curr":"b","type":"link","n":"7"}', "field 'n' is STRING, not BIGINT"),
    ("WIKIPEDIA_CLICKSTREAM", b'{"prev":"a","curr":"b","type":"link"}', "no field 'n'"),
    ("WIKIPEDIA_CLICKSTREAM", b'{"prev":"a","type":"link","n":7}', "no field 'curr'"),
    ("WIKIPEDIA_PAGEVIEWS_BY_LANG", b'{"lang":3,"page":"b","n":1,"m":2}', "field 'lang' is BIGINT, not STRING"),
    ("WIKIPEDIA_PAGEVIEWS", b'{"timestamp":1,"page":"\xff"}', "not UTF-8"),
    ("TWITTER_ELECTION", b'{"text":"t","hashtags":"x","timestamp":1}', "field 'hashtags' is STRING, not ARRAY<STRING>"),
    ("TWITTER_ELECTION", b'{"text":"t","hashtags":[1]}', "field 'hashtags' is ARRAY<BIGINT>, not ARRAY<STRING>"),
    ("TWITTER_TICKER", b"{", "not JSON"),
    ("NEXMARK", b'{"event_type":2,"person":null,"auction":null,"bid":{"bidder":7}}', "no field 'bid.auction'"),
    ("NEXMARK", b'{"event_type":2,"bid":{"auction":[7]}}', "field 'bid.auction' is ARRAY<BIGINT>, which is no key"),
]


def test_a_bad_message_leaves_one_tuple_without_a_key(spark, subtests):
    value = F.col("value")
    bad = [(get_splitter(name), spark.createDataFrame([(message,)], "value binary")) for name, message, _ in BAD]
    left = [reader.split(rows).select(F.lit(i), "key") for i, (reader, rows) in enumerate(bad)]
    refused = [
        rows.select(F.lit(i), reader.rejects(value), reader.reason(value)) for i, (reader, rows) in enumerate(bad)
    ]
    keys, reasons = (Counter(map(tuple, reduce(DataFrame.union, each).collect())) for each in (left, refused))
    for i, (name, message, reason) in enumerate(BAD):
        with subtests.test(f"{name}: {message}"):
            assert keys[i, None] == 1
            assert reasons[i, True, reason] == 1
    assert keys.total() == reasons.total() == len(BAD)


def test_a_message_without_keys_leaves_nothing(spark):
    messages = [b'{"text":"t","hashtags":[],"timestamp":1}', b'{"text":"t","hashtags":["wh?t"],"timestamp":1}']
    rows = spark.createDataFrame([(m,) for m in messages], "value binary").repartition(1)
    assert get_splitter("TWITTER_ELECTION").split(rows).collect() == []
    assert rows.where(get_splitter("TWITTER_ELECTION").rejects(F.col("value"))).collect() == []


@pytest.mark.nightly(group="groupings")
@pytest.mark.parametrize("name", [*APPLICATIONS, "NEXMARK"])
def test_through_the_topology_from_the_generator_and_from_files(name, settings, drain, connection, topic):
    tuples, counts = Counter(), Counter()
    run = settings("PARTIAL_KEY", source_type=name)
    ensure_topic(connection, topic, run.sources)
    generated = create_dataset(name, records=RECORDS, **({"events": "all"} if name == "NEXMARK" else {}))
    for dataset in generated, *(from_file(*row) for row in FILES if row[0] == name):
        own_tuples, own_counts, _ = truth(dataset)
        tuples += own_tuples
        counts.update(own_counts)
        publish_dataset(connection, topic, dataset)
    _, reports = drain(run)
    found = list_result_topics(run)["aggregator"]
    assert by_key(final_counts(connection, found)) == +counts
    assert by_key(final_counts(connection, found, "tuples")) == tuples
    assert reports[-1].totals.rejected == 0
