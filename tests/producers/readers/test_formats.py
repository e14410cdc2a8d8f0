"""Each format, from the files in tests/data: what comes out of good lines, and what is said of bad ones."""

import bz2
import gzip
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.errors import EnvironmentFault, UsageError
from unskew.producers.readers.files import Files
from unskew.producers.readers.formats import FORMATS
from unskew.producers.readers.inputs import Input, inputs
from unskew.producers.readers.rejects import Rejects

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
    return Files(name, inputs(map(str, paths)), FORMATS[name], rejects or Rejects(), limit)


def read(dataset, start=0):
    return [orjson.loads(message) for block in dataset.blocks(start) for message in block.messages.to_pylist()]


def keys(dataset):
    return [key for block in dataset.blocks() for key in block.keys.to_pylist()]


@ALL
def test_good_lines_become_messages_and_bad_ones_are_counted(name, file, messages, rejected):
    rejects = Rejects()
    dataset = reader(name, DATA / file, rejects=rejects)
    assert len(read(dataset)) == messages
    assert rejects.total == rejected
    assert dataset.consumed == dataset.size == (DATA / file).stat().st_size
    assert dataset.done() == 1
    assert dataset.place()["position"] == messages


def test_clickstream_keeps_every_odd_title():
    dataset = reader("WIKIPEDIA_CLICKSTREAM", DATA / "clickstream-enwiki-2017-11.tsv")
    rows = read(dataset)
    assert rows[0] == {"prev": "other-search", "curr": "Main_Page", "type": "external", "n": 1204817}
    assert [row["curr"] for row in rows[1:9]] == [
        "-",
        '"Heroes"_(David_Bowie_album)',
        '"Weird_Al"_Yankovic',
        "Café",
        "😂",
        "Face_with_Tears_of_Joy_emoji",
        "عمر_الخيام",
        "AC/DC",
    ]
    assert rows[8]["prev"] == "AC\\DC"
    assert len(rows[9]["curr"]) > 200
    assert rows[10] == {"prev": "", "curr": "Orphan", "type": "other", "n": 12}
    assert [row["n"] for row in rows[11:]] == [0, 999_999_999_999, 17, 13]
    assert rows[13]["curr"] == "Windows"
    counts = [count for block in dataset.blocks() for count in block.counts.tolist()]
    assert counts == [row["n"] for row in rows]


def test_hourly_pageviews_are_keyed_by_language():
    dataset = reader("WIKIPEDIA_PAGEVIEWS_BY_LANG", DATA / "pageviews-20240101-000000")
    rows = read(dataset)
    assert rows[1] == {"lang": "en.m", "page": "Main_Page", "n": 9002, "m": 0}
    assert [row["page"] for row in rows if row["lang"] == "en"] == ["Main_Page", "-", "", rows[14]["page"]]
    assert keys(dataset)[:8] == ["en", "en", "en", "aa", "de", "de", "fr", "ja"]
    assert keys(dataset)[11] == "be-tarask"


def test_pages_lose_the_beginning_of_their_address_in_the_key_only():
    dataset = reader("WIKIPEDIA_PAGEVIEWS", DATA / "pageviews.tsv")
    assert read(dataset)[0] == {"timestamp": 1200009600, "page": "http://en.wikipedia.org/wiki/Main_Page"}
    assert keys(dataset) == [
        "Main_Page",
        "%22Heroes%22",
        "http://de.wikipedia.org/wiki/Hauptseite",
        "Main_Page",
        "",
        'A?title="x"&y=\\z',
        "-",
        "راديو",
    ]


def test_a_wikibench_trace_has_seconds_with_a_fraction():
    dataset = reader("WIKIPEDIA_PAGEVIEWS", DATA / "wikibench.trace")
    rows = read(dataset)
    assert rows[2] == {"timestamp": 1190146243, "page": "http://en.wikipedia.org/wiki/Main_Page"}
    assert {row["timestamp"] for row in rows} == {1190146243}


def test_tickers_come_from_lines_and_from_cashtags():
    assert read(reader("TWITTER_TICKER", DATA / "ticker.tsv"))[:3] == [
        {"timestamp": 1383264000, "ticker": "AAPL"},
        {"timestamp": 1383264001, "ticker": "TSLA"},
        {"timestamp": 1383264001, "ticker": "BRK.B"},
    ]
    assert keys(reader("TWITTER_TICKER", DATA / "tweets-v1.jsonl")) == ["AAPL", "TSLA", "DJT", "F"]
    assert keys(reader("TWITTER_TICKER", DATA / "tweets-v2.jsonl")) == ["TWTR", "AAPL", "AAPL", "GOOG", "BTC", "TSLA"]


def test_tweets_of_the_election_give_several_keys_or_none():
    dataset = reader("TWITTER_ELECTION", DATA / "tweets-v1.jsonl")
    rows = read(dataset)
    assert rows[0] == {
        "text": "I #Voted! #ElectionDay 🗳️",
        "hashtags": ["Voted", "ElectionDay"],
        "timestamp": 1478563200657,
    }
    assert rows[2]["hashtags"] == ["MAGA", "ImWithHer"]  # of the whole text, not of its beginning
    owners = [owner for block in dataset.blocks() for owner in block.owners.tolist()]
    assert list(zip(owners, keys(dataset), strict=True)) == [
        (0, "ElectionDay"),
        (0, "ElectionDay"),
        (1, "ElectionDay"),
        (1, "istanbul"),
        (2, "maga"),
        (2, "imwithher"),
        (4, "trump2016"),
        (5, "ElectionDay"),
        (6, "أمريكا"),
        (7, "ελλάσ"),
        (7, "ελλάσ"),
        (7, "ElectionDay"),
        (7, "ElectionDay"),
    ]


def test_times_of_v2_tweets_are_iso_with_any_zone():
    times = [row["timestamp"] for row in read(reader("TWITTER_ELECTION", DATA / "tweets-v2.jsonl"))]
    assert times == [1383921000000, 1383921002500, 1383921003000]


def test_a_reject_says_where_why_and_what(tmp_path):
    with Rejects(tmp_path / "rejects.jsonl") as rejects:
        dataset = reader("WIKIPEDIA_CLICKSTREAM", DATA / "clickstream-enwiki-2017-11.tsv", rejects=rejects)
        read(dataset)
        read(dataset)  # once more: they are noted only once
    rows = [orjson.loads(line) for line in (tmp_path / "rejects.jsonl").read_bytes().splitlines()]
    assert [(row["line"], row["reason"], row["text"].rpartition("\t")[0]) for row in rows] == [
        (15, "3 fields instead of 4", "other-search\tOnly_three_fields"),
        (16, "5 fields instead of 4", "other-search\tFive\tfields\texternal"),
        (17, "no curr", "other-search\t\texternal"),
        (18, "n is no number", "other-search\tNot_a_number\texternal"),
        (19, "n is no number", "other-search\tNegative\texternal"),
        (20, "n is no number", "other-search\tHuge\texternal"),
        (21, "not UTF-8", "other-search\tLatin\\xe9\texternal"),
    ]
    assert {row["file"] for row in rows} == {str(DATA / "clickstream-enwiki-2017-11.tsv")}
    assert [sample.line for sample in rejects.samples] == [15, 16, 17, 18, 19]


def test_strict_stops_at_the_first_bad_line():
    dataset = reader("TWITTER_TICKER", DATA / "ticker.tsv", rejects=Rejects(strict=True))
    with pytest.raises(UsageError, match=r"ticker.tsv, line 6: timestamp is no time in seconds: 'yesterday\\tAAPL'"):
        read(dataset)


def test_an_overlong_line_is_rejected(tmp_path):
    file, rejects = tmp_path / "long.tsv", Rejects()
    file.write_bytes(b"1\tA\n2\t" + b"x" * 300_000 + b"\n3\tB\n")
    assert keys(reader("TWITTER_TICKER", file, rejects=rejects)) == ["A", "B"]
    assert [(reject.line, reject.reason) for reject in rejects.samples] == [(2, "line of more than 160,000 bytes")]


@ALL
@pytest.mark.parametrize("kind", ["gzip", "bz2", "zstd"])
def test_compressed_files_read_the_same(name, file, messages, rejected, kind, tmp_path):
    plain = (DATA / file).read_bytes()
    halves = plain[: len(plain) // 2], plain[len(plain) // 2 :]  # archives are often several streams, one after another
    compress = {
        "gzip": gzip.compress,
        "bz2": bz2.compress,
        "zstd": lambda data: pa.compress(data, "zstd", asbytes=True),
    }
    packed = tmp_path / "packed"
    packed.write_bytes(b"".join(compress[kind](half) for half in halves))
    dataset = reader(name, packed)
    assert read(dataset) == read(reader(name, DATA / file))
    assert dataset.consumed == packed.stat().st_size


def test_a_file_that_ends_too_early_is_said(tmp_path):
    packed = tmp_path / "cut.gz"
    packed.write_bytes(gzip.compress((DATA / "ticker.tsv").read_bytes())[:-20])
    with pytest.raises(EnvironmentFault, match=r"cut.gz cannot be read after .* bytes: Truncated"):
        read(reader("TWITTER_TICKER", packed))


def test_directories_and_patterns(tmp_path):
    for name in ("b.tsv", "a.tsv", ".hidden"):
        (tmp_path / name).write_bytes(f"1\t{name[0].upper()}\n".encode())
    (tmp_path / "below").mkdir()
    assert keys(reader("TWITTER_TICKER", tmp_path)) == ["A", "B"]
    assert keys(reader("TWITTER_TICKER", tmp_path / "*.tsv")) == ["A", "B"]
    assert keys(reader("TWITTER_TICKER", tmp_path / "b.tsv", tmp_path / "[a]*")) == ["B", "A"]
    with pytest.raises(UsageError, match=r"nothing\.tsv: there is no such file"):
        inputs([str(tmp_path / "nothing.tsv")])
    with pytest.raises(UsageError, match="only once"):
        inputs(["-", "-"])


@given(st.data())
def test_reading_may_begin_at_any_record(data):
    name, file, messages, _ = data.draw(st.sampled_from(SAMPLES))
    dataset = reader(name, DATA / file, DATA / file, limit=data.draw(st.integers(0, 2 * messages + 2)))
    whole = read(dataset)
    start = data.draw(st.integers(0, len(whole)))
    assert read(dataset, start) == whole[start:]


def test_reading_goes_on_from_a_known_place(tmp_path):
    paths = []
    for number in range(3):
        paths.append(tmp_path / f"{number}.gz")
        rows = "".join(f"{at}\tT{number}_{at}\n" for at in range(400_000))
        paths[-1].write_bytes(gzip.compress(rows.encode(), 1))
    dataset = reader("TWITTER_TICKER", *paths)
    places = [(dataset.place(), 0)]
    expected = []
    for block in dataset.blocks():
        expected += block.keys.to_pylist()
        places.append((dataset.place(), len(expected)))
    assert len(places) > 9
    for place, position in places[:: len(places) // 6]:
        assert place["position"] == position
        again = reader("TWITTER_TICKER", *paths)
        again.recall(place)
        for start in (position, position + 7):
            first = next(iter(again.blocks(start)), None)
            got = first.keys.to_pylist() if first else []
            assert got == expected[start : start + len(got)]


titles = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(titles, titles, titles, st.integers(0, 10**17)), min_size=1, max_size=30))
def test_any_title_survives(tmp_path_factory, rows):
    file = tmp_path_factory.mktemp("titles") / "any.tsv"
    file.write_bytes("".join(f"{prev}\t{curr}\t{kind}\t{n}\n" for prev, curr, kind, n in rows).encode())
    dataset = Files("any", [Input(str(file), None)], FORMATS["WIKIPEDIA_CLICKSTREAM"], Rejects())
    expected = [
        {"prev": prev, "curr": curr, "type": kind, "n": n}
        for number, (prev, curr, kind, n) in enumerate(rows)
        if curr
        # a mark of byte order at the very beginning is no part of the text
        if number or not prev.startswith("\ufeff")
    ]
    assert read(dataset)[-len(expected) or None :] == expected
    assert keys(dataset)[-len(expected) or None :] == [row["curr"] for row in expected]
