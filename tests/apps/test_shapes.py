"""Shapes that are learnt from a topic's messages: what has one is read as the parser would read it."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pyspark.sql import functions as F

from tests.apps.conftest import by_key, final_counts, publish
from unskew.apps.topology.publisher import result_topics
from unskew.apps.topology.splitter import splitter

FRAME = b"\x00\x00\x00\x01\x02"
NUMBERS = ["0", "-0", "7", "-12", "1.0", "1.50", "1e3", "-2E-7", "1e400", "0.1e1", "9" * 19, "9" * 40]
BROKEN = [
    "01",
    "+1",
    ".5",
    "1.",
    "NaN",
    "Infinity",
    "-",
    "nul",
    "True",
    "''",
    r'"\x"',
    '"\x01"',
    r'"\u12g4"',
    "1 2",
    "",
]
TEXTS = [
    "Turkey", "", "C\u00f4te d'Ivoire", 'say "hi"', "a\\b", "a/b", "tab\t", "\u4e2d\u6587", "\U0001f600", "\ud83d",
    "\x7f", "\u2028", "\\u0041", "{", "}", "[,]", '":"', "country", "null", "7", "\x00", "\x01", "\\", "\\\\u",
]  # fmt: skip


def text(value, rng):
    """A text of JSON, spelled in one of the ways there are."""
    way = rng.randrange(4)
    if way < 2:
        return json.dumps(value, ensure_ascii=bool(way))
    units = value.encode("utf-16-be", "surrogatepass").hex()
    escaped = "".join("\\u" + units[i : i + 4] for i in range(0, len(units), 4))
    if way == 2:
        return f'"{escaped}"'
    return json.dumps(value).replace("/", "\\/")


def scalar(rng, broken):
    if rng.random() < broken:
        return rng.choice(BROKEN)
    kinds = [
        lambda: text(rng.choice(TEXTS), rng),
        lambda: rng.choice(NUMBERS),
        lambda: rng.choice(["true", "false", "null"]),
    ]
    return rng.choice(kinds)()


def value(rng, depth, broken):
    """Any value of JSON, or with that probability nearly one."""
    kind = rng.randrange(8) if depth else 7
    if kind == 0:
        inner = [value(rng, depth - 1, broken) for _ in range(rng.randrange(3))]
        return "[" + ",".join(inner) + "]"
    if kind == 1:
        names = rng.choices(["a", "b", "country", "id"], k=rng.randrange(3))
        return "{" + ", ".join(f'"{name}": {value(rng, depth - 1, broken)}' for name in names) + "}"
    return scalar(rng, broken)


class Template:
    """Messages with the same names and white space, of which some break the rule in one place."""

    def __init__(self, rng, path):
        others = rng.sample(
            ["id", "n", "text", "\u00fcber", "with space", 'q"', "countr", "a.b", "[x]", "$"], rng.randrange(4)
        )
        members = [*others, path[0]]
        rng.shuffle(members)
        self.rng, self.members, self.path = rng, members, path
        self.colon, self.comma = rng.choice([":", ": ", " :\t"]), rng.choice([",", ", ", " ,\n"])
        self.ends = rng.choice([("", ""), ("", "\n"), (" ", " ")])
        self.kinds = {name: rng.randrange(3) for name in others}

    def member(self, name, broken):
        key = name == self.path[0] and self.rng.random() > broken
        if key and len(self.path) > 1:
            rest = text(self.rng.choice(TEXTS), self.rng)
            return f'"{name}"{self.colon}{{"{self.path[1]}"{self.colon}{rest}{self.comma}"z"{self.colon}1}}'
        if key:
            made = text(self.rng.choice(TEXTS), self.rng) if self.rng.random() < 0.9 else scalar(self.rng, 0.0)
        elif name == "n":
            made = scalar(self.rng, 0.0) if self.rng.random() < broken else str(self.rng.choice([0, 7, 10**18, 10**19]))
        elif self.kinds.get(name) == 1:
            made = f"[{', '.join(scalar(self.rng, broken / 3) for _ in range(self.rng.randrange(3)))}]"
        else:
            made = value(self.rng, 0 if self.kinds.get(name) == 2 else 2, broken / 3)
        return f"{json.dumps(name)}{self.colon}{made}"

    def message(self, broken):
        members = list(self.members)
        if self.rng.random() < broken:
            change = self.rng.randrange(3)
            if change == 0:
                members.append(self.rng.choice(members))  # a name twice
            elif change == 1:
                members.remove(self.rng.choice(members))
            else:
                self.rng.shuffle(members)
        made = self.comma.join(self.member(name, broken) for name in members)
        found = (self.ends[0] + "{" + made + "}" + self.ends[1]).encode("utf-8", "surrogatepass")
        if self.rng.random() < broken:
            at = self.rng.randrange(len(found))
            other = self.rng.choice(
                [b"", b'"', b"\\", b"\xff", b"\xc3", b",", b"}", b"{", b" ", b"\x00", b"\x0b", b"9", b":"]
            )
            found = found[:at] + other + found[at + self.rng.randrange(2) :]
        return found


def topic_of(seed, path, messages=600):
    rng = random.Random(seed)
    templates = [Template(rng, path) for _ in range(3)]
    # of few, even what is broken is common
    samples = [rng.choice(templates).message(rng.choice([0.0, 0.3])) for _ in range(rng.choice([6, 60]))]
    return samples, [rng.choice(templates).message(rng.choice([0.0, 0.0, 0.3])) for _ in range(messages)]


def both(spark, messages, learnt, plain):
    """What each way makes of the messages."""
    rows = spark.createDataFrame(list(enumerate(messages)), "i int, value binary").repartition(2)
    for way in learnt, plain:
        found = sorted(way.split(rows, F.col("i")).collect(), key=lambda row: row["i"])
        yield [row.asDict() for row in found]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (("COUNTRY_SKEW_R80",), ("country",)),
        (("WIKIPEDIA_CLICKSTREAM",), ("curr",)),
        (("COLUMN", "key"), ("key",)),
        (("COLUMN", "user.id"), ("user", "id")),
    ],
)
@examples(max_examples=4)
@given(seed=st.integers(0, 2**32))
def test_a_shape_gives_what_the_parser_gives(spark, kind, path, seed):
    samples, messages = topic_of(seed, path)
    if "user.id" in kind:
        messages = [FRAME + message if i % 2 else message for i, message in enumerate(messages)]
    learnt, plain = both(spark, messages, splitter(*kind, samples=samples), splitter(*kind))
    for message, ours, theirs in zip(messages, learnt, plain, strict=True):
        assert ours == theirs, message


@pytest.mark.spark
def test_escapes_in_the_short_shape_give_what_the_parser_gives(spark):
    rng = random.Random(0)
    lone = [r'"T\u00fcrkiye"', r'"\u0041"', r'"\u00fc\u00FC"', r'"a\nb"', r'"\u0000"', r'"\u2028"']
    spelled = [*lone, *BROKEN, r'"a\"', r'"\ud83d"', r'"\ud83d\ude00"', r'"\ud83d \u00e9"', r'"\u00e"', r'"\u00e"9"']
    spelled += [text(value, rng) for value in TEXTS for _ in range(6)]
    messages = [f'{{"country":{gap}{each}}}'.encode("utf-8", "surrogatepass") for each in spelled for gap in ("", " ")]
    read = splitter("COUNTRY_SKEW_R80", samples=messages)
    learnt, plain = both(spark, messages, read, splitter("COUNTRY_SKEW_R80"))
    for message, ours, theirs in zip(messages, learnt, plain, strict=True):
        assert ours == theirs, message


SPELLINGS = [
    '{"country": "T\\u00fcrkiye"}',
    '{"country":"\\u00e9t\\u00e9"}',
    '{"id": 7, "country": "Chad"}',
    '{"country": "Chad", "id": -7.5e3, "ok": null}',
    '{"country": "C\\u00f4te d\'Ivoire\\t\\"\\/"}',
    '{ "country" : "Chad", "tags": ["a", 1, null], "none": [], "at": {"country": "x", "lat": 1.5} }\n',
]


@pytest.mark.spark
@pytest.mark.parametrize("spelled", SPELLINGS)
def test_what_is_spelled_alike_is_not_parsed(spark, spelled):
    read = splitter("COUNTRY_SKEW_R80", samples=[spelled.encode()])
    rows = spark.createDataFrame([(spelled.encode(),)], "value binary").repartition(1)
    assert rows.where(read.short(F.col("value")).isNull()).count() == 0
    assert [row["key"] for row in read.split(rows).collect()] == [json.loads(spelled)["country"]]
    assert str(read.split(rows)._jdf.queryExecution().optimizedPlan()).count("parseJson") == 1


@pytest.mark.spark
def test_a_long_message_is_read_without_a_stack(spark):
    message = '{"country": "%s", "tags": [%s], "text": "%s"}'
    sample, long = (message % ("\\u00e9" * n, ", ".join("1" * n), "\\n\\ud83d\\ude00" * n) for n in (1, 100_000))
    read = splitter("COUNTRY_SKEW_R80", samples=[sample.encode()])
    rows = spark.createDataFrame([(long.encode(),)], "value binary").repartition(1)
    assert [row[0] for row in rows.select(F.length(read.short(F.col("value")))).collect()] == [600_000]
    assert [row["key"] for row in read.split(rows).collect()] == ["\u00e9" * 100_000]


@pytest.mark.spark
def test_only_what_is_common_has_a_shape(spark):
    samples = [b'{"country": "Chad", "id": 1}'] * 50 + [b'{"id": 1, "country": "Chad"}']
    read = splitter("COUNTRY_SKEW_R80", samples=samples)
    rows = spark.createDataFrame([(samples[0],), (samples[-1],)], "value binary").repartition(1)
    assert [row[0] for row in rows.select(read.short(F.col("value"))).collect()] == ["Chad", None]


@pytest.mark.spark
@pytest.mark.kafka
def test_a_run_learns_from_its_topic(spark, settings, drain, connection, topic, monkeypatch):
    """The parser is taken away: what is counted, is counted without it."""
    publish(connection, topic, 2, [json.dumps({"id": i, "country": f"\u00e9{i % 3}"}).encode() for i in range(60)])
    parse = F.try_parse_json
    monkeypatch.setattr(F, "try_parse_json", lambda _: parse(F.lit(None).cast("string")))
    run = settings("PARTIAL_KEY")
    drain(run)
    assert by_key(final_counts(connection, result_topics(run)["aggregator"])) == {f"\u00e9{i}": 20 for i in range(3)}
