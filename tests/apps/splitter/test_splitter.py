import subprocess
import sys

import pytest
from pyspark.sql import functions as F

from unskew.apps.splitter.formats import get_splitter
from unskew.apps.splitter.json_fields import LONGEST_KEY

MESSAGES = [
    (b'{"country":"Turkey"}', "Turkey", None),
    (b'{"country": "Turkey"}', "Turkey", None),
    ('{"country":"Türkiye"}'.encode(), "Türkiye", None),
    (b'{"country":"C\\u00f4te d\'Ivoire"}', "Côte d'Ivoire", None),
    (b'{"country":"say \\"hi\\""}', 'say "hi"', None),
    (b'{"country":""}', "", None),
    (b'{"id":7,"country":"Chad","more":{"country":"x"}}', "Chad", None),
    (b' {"country":"Chad"}\n', "Chad", None),
    (b'{"country":"a","country":"b"}', None, "field 'country' is there twice"),  # which one?
    (b'{"country":"Chad"}\n{"country":"Mali"}\n', None, "not one JSON object: more follows it"),
    (b"", None, "not JSON"),
    (None, None, "no value"),
    (b"Turkey", None, "not JSON"),
    (b'{"country":"Turkey"', None, "not JSON"),
    (b'{"country":"Tur"key"}', None, "not JSON"),
    (b'{"Country":"Turkey"}', None, "no field 'country'"),
    (b"[]", None, "no field 'country'"),
    (b'"country"', None, "no field 'country'"),
    (b'{"country":7}', None, "field 'country' is BIGINT, not STRING"),
    (b'{"country":null}', None, "field 'country' is VOID, not STRING"),
    (b'{"country":["Turkey"]}', None, "field 'country' is ARRAY<STRING>, not STRING"),
    (b'{"country":"\xff\xfe"}', None, "not UTF-8"),
    (b"\x00\x01\x02", None, "not JSON"),
    (b'{"country":"%s"}' % (b"x" * 65_536), "x" * 65_536, None),
    (b'{"country":"%s"}' % (b"\\u0041" * 65_537), None, "the key has 65537 bytes, not 65536 at most"),
    (('{"country":"%s"}' % ("ü" * 32_769)).encode(), None, "the key has 65538 bytes, not 65536 at most"),
]


def outcomes(spark, split, messages):
    """Of each message: its key, the reason against it, whether it is rejected."""
    # a column that can't be folded at planning time, as in a stream
    rows = spark.createDataFrame(list(enumerate(messages)), "i int, value binary").repartition(1)
    value = F.col("value")
    rows = split.split(rows, F.col("i"), split.why(value).alias("why"), split.rejects(value).alias("rejected"))
    return [(row["key"], row["why"], row["rejected"]) for row in sorted(rows.collect(), key=lambda row: row["i"])]


def test_every_kind_of_message(spark):
    split = get_splitter("COUNTRY_SKEW_R80")
    outcome = outcomes(spark, split, [message for message, _, _ in MESSAGES])
    for (message, key, reason), found in zip(MESSAGES, outcome, strict=True):
        assert found == (key, reason, key is None), message


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (get_splitter("COLUMN", "key"), '{"key": "KEY"}'),
        (get_splitter("TWITTER_ELECTION"), '{"hashtags": ["a", "KEY", "b"]}'),
        (get_splitter("COLUMN", None, "text"), "KEY"),
        (get_splitter("COLUMN", "2", "csv"), "a,KEY,b"),
    ],
)
def test_every_format_rejects_a_key_that_is_too_long(spark, split, message):
    longest = "é" * (LONGEST_KEY // 2)
    messages = [message.replace("KEY", key).encode() for key in (longest, longest + "x")]
    *good, (key, reason, rejected) = outcomes(spark, split, messages)
    assert longest in [key for key, _, _ in good]
    assert {reason for _, reason, _ in good} == {None}
    assert (key, reason, rejected) == (None, f"the key has {LONGEST_KEY + 1} bytes, not {LONGEST_KEY} at most", True)


def test_spark_parses_a_message_once_or_not_at_all(spark):
    for name, times in {"TWITTER_ELECTION": 1, "COUNTRY_SKEW_R80": 0}.items():
        rows = get_splitter(name).split(spark.createDataFrame([(b"",)], "value binary").repartition(1))
        assert str(rows._jdf.queryExecution().optimizedPlan()).count("parseJson") == times


def test_settings_are_checked_before_spark_is_there(tmp_path):
    """Another process: in this one it may be there."""
    (tmp_path / "x.avsc").write_text('{"type": "record", "name": "X", "fields": [{"name": "x", "type": "string"}]}')
    made = "; ".join(
        [
            "from unskew.apps.splitter.formats import SchemaSource",
            "from unskew.apps.splitter.formats import get_splitter",
            "from unskew.producers.datasets.registry import DATASETS",
            "[get_splitter(name) for name in (*DATASETS, 'COLUMN')]",
            f"get_splitter('COLUMN', 'x', 'avro', schemas=SchemaSource({str(tmp_path / 'x.avsc')!r}))",
            "[get_splitter('COLUMN', field, form) for form, field in dict(json='x', csv='1', text=None).items()]",
        ]
    )
    subprocess.run([sys.executable, "-c", made], check=True)
