"""Each format, from the files in tests/data: the messages of good lines, and the reasons for bad ones."""

import orjson
import pytest

from tests.producers.readers.samples import ALL, DATA, keys, read, reader
from unskew.errors import UsageError
from unskew.producers.readers.rejected_records import RejectLog


@ALL
def test_good_lines_become_messages_and_bad_ones_are_counted(name, file, messages, rejected):
    rejects = RejectLog()
    dataset = reader(name, DATA / file, rejects=rejects)
    assert len(read(dataset)) == messages
    assert rejects.total == rejected
    assert dataset.consumed == dataset.size == (DATA / file).stat().st_size
    assert dataset.progress() == 1
    assert dataset.position()["position"] == messages


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
    tags = {0: "ElectionDay ElectionDay", 1: "ElectionDay istanbul", 2: "maga imwithher", 4: "trump2016"}
    tags |= {5: "ElectionDay", 6: "أمريكا", 7: "ελλάσ ελλάσ ElectionDay ElectionDay"}
    expected = [(owner, tag) for owner, own in tags.items() for tag in own.split()]
    assert list(zip(owners, keys(dataset), strict=True)) == expected


WHOLE = {"hashtags": [{"text": "Kafka", "tag": "Kafka"}, {"text": "Skew", "tag": "Skew"}]}
CUT = {"hashtags": [{"text": "Kafka", "tag": "Kafka"}]}
NEW, OLD = {"created_at": "2024-03-01T12:00:00.000Z"}, {"created_at": "Fri Nov 08 12:05:00 +0000 2013"}
LONG = {**OLD, "text": "#Kafka and…", "entities": CUT, "extended_tweet": {"full_text": "long", "entities": WHOLE}}
OWN = {"text": "RT @a: #Kafka and…", "entities": CUT}
LATER = {**NEW, "text": "#Kafka and…", "entities": CUT, "note_tweet": {"text": "long", "entities": WHOLE}}
REFERS = {**NEW, **OWN, "referenced_tweets": [{"type": "quoted", "id": "4"}, {"type": "retweeted", "id": "5"}]}


@pytest.mark.parametrize(
    "tweet",
    [
        LONG,
        {**OLD, **OWN, "retweeted_status": LONG},
        {**OLD, **OWN, "retweeted_status": {**OLD, "full_text": "long", "entities": WHOLE}},
        LATER,
        {"data": LATER},
        {"data": REFERS, "includes": {"tweets": [{"id": "4"}, {**LATER, "id": "5"}]}},
        {"data": REFERS, "includes": {"tweets": [{"text": "long", "entities": WHOLE, "id": "5"}]}},
    ],
)
def test_hashtags_are_those_of_the_whole_text(tweet, tmp_path):
    path = tmp_path / "tweets"
    path.write_bytes(orjson.dumps(tweet))
    (row,) = read(reader("TWITTER_ELECTION", path))
    assert (row["text"], row["hashtags"]) == ("long", ["Kafka", "Skew"])


def test_times_of_v2_tweets_are_iso_with_any_zone():
    times = [row["timestamp"] for row in read(reader("TWITTER_ELECTION", DATA / "tweets-v2.jsonl"))]
    assert times == [1383921000000, 1383921002500, 1383921003000]


def test_a_reject_says_where_why_and_what(tmp_path):
    with RejectLog(tmp_path / "rejects.jsonl") as rejects:
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
    dataset = reader("TWITTER_TICKER", DATA / "ticker.tsv", rejects=RejectLog(strict=True))
    with pytest.raises(UsageError, match=r"ticker.tsv, line 6: timestamp is no time in seconds: 'yesterday\\tAAPL'"):
        read(dataset)


def test_an_overlong_line_is_rejected(tmp_path):
    file, rejects = tmp_path / "long.tsv", RejectLog()
    file.write_bytes(b"1\tA\n2\t" + b"x" * 300_000 + b"\n3\tB\n")
    assert keys(reader("TWITTER_TICKER", file, rejects=rejects)) == ["A", "B"]
    assert [(reject.line, reject.reason) for reject in rejects.samples] == [(2, "line of more than 160,000 bytes")]
