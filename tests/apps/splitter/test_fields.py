"""Fields of JSON messages: read as Spark's parser reads them, and plain Python; and the reasons."""

import json
import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pyspark.sql import functions as F

from tests.apps.splitter.json_messages import NUMBERS, messages_of
from tests.apps.splitter.outcomes import read_outcomes
from tests.oracle.messages import FIELD, fuzzed, read, reason_of
from unskew.apps.splitter.formats import get_splitter
from unskew.apps.splitter.json_fields import FRAME, MESSAGE, MORE, MOST, JsonFields
from unskew.apps.splitter.splitter import _END, parse_document

FRAMING = b"\x00\x00\x00\x01\x02"


def keys(fields, messages):
    """What is read of each message: its key, and its count where there is one."""
    found = [column.to_pylist() for column in fields.read(pa.array(messages, pa.binary()))]
    return list(zip(*found, strict=True)) if fields.number else found[0]


def parsed(fields, value):
    """The same by Spark's parser: key, count."""
    if fields.framed:
        value = F.when(F.startswith(value, F.lit(b"\0")), F.substring(value, FRAME + 1, 1 << 30)).otherwise(value)
    read = parse_document(value)
    inside = "$" + "".join(f"['{name}']" for name in fields.path)
    kind = F.schema_of_variant(F.try_variant_get(read, inside, "variant"))
    right = ~kind.rlike("^(VOID|ARRAY|OBJECT)") if fields.scalars else kind == "STRING"
    key = F.when(right, F.try_variant_get(read, inside, "string"))
    if not fields.number:
        return [key]
    whole = F.schema_of_variant(F.try_variant_get(read, f"$.{fields.number}", "variant")) == "BIGINT"
    count = F.when(whole, F.try_variant_get(read, f"$.{fields.number}", "bigint"))
    return [F.when(count.between(0, MOST), key), count]


def has_name_twice(message):
    """Whether an object of a message has a name twice."""
    found = []
    json.loads(message, object_pairs_hook=lambda pairs: found.append(len(dict(pairs)) < len(pairs)))
    return any(found)


@pytest.mark.parametrize(
    "fields",
    [
        JsonFields(("country",)),
        JsonFields(("curr",), "n"),
        JsonFields(("key",), scalars=True, framed=True),
        JsonFields(("user", "id"), scalars=True, framed=True),
    ],
    ids=lambda fields: ".".join(fields.path),
)
@examples(max_examples=4)
@given(seed=st.integers(0, 2**32))
def test_what_sparks_parser_reads_is_read(spark, fields, seed):
    messages = messages_of(seed, fields.path)
    if fields.framed:
        messages = [FRAMING + message if i % 2 else message for i, message in enumerate(messages)]
    rows = spark.createDataFrame(list(enumerate(messages)), "i int, value binary").repartition(2)
    theirs = sorted(rows.select("i", *parsed(fields, F.col("value"))).collect())
    for message, ours, (_, *expected) in zip(messages, keys(fields, messages), theirs, strict=True):
        key, count = ours if fields.number else (ours, None)
        if expected[0] is None and key is not None:  # Spark's parser refuses names that stand twice anywhere
            assert has_name_twice(message.removeprefix(FRAMING)), message
            continue
        assert key == expected[0], message
        if fields.number and key is not None:
            assert count == expected[1], message


def test_numbers_are_written_as_spark_writes_them(spark):
    rng = random.Random(3)
    spelled = [
        *NUMBERS,
        "12.50",
        "100.0",
        "-0.0",
        "1.0e7",
        "9999999e0",
        "1e-3",
        "1e-4",
        "1" * 39,
        "0." + "0" * 38 + "1",
    ]
    for _ in range(300):
        whole, fraction = str(rng.randrange(10 ** rng.randrange(1, 42))), str(rng.randrange(10 ** rng.randrange(1, 20)))
        made = rng.choice(["", "-"]) + whole + rng.choice(["", "." + fraction])
        spelled += [made, f"{rng.randrange(1, 999)}.{rng.randrange(99)}{rng.choice('eE')}{rng.randrange(-30, 30)}"]
    messages = [b'{"key": %s}' % number.encode() for number in spelled]
    fields = JsonFields(("key",), scalars=True)
    rows = spark.createDataFrame(list(enumerate(messages)), "i int, value binary").repartition(2)
    theirs = [key for _, key in sorted(rows.select("i", *parsed(fields, F.col("value"))).collect())]
    for number, ours, expected in zip(spelled, keys(fields, messages), theirs, strict=True):
        # Java before 19 may write more digits than it takes.
        assert ours == expected or (float(ours) == float(expected) and len(expected) > 16), number


ODD = [
    b'{"country": "Turkey"}', '{"country":"Türkiye"}'.encode(), b'{"country":"say \\"hi\\""}', b'{"country":""}', None,
    b'{"id":7,"country":"Chad","more":{"country":"x"}}', b' {"country":"Chad"}\n', b'{"country":"a","country":"b"}',
    b'{"country":"Chad"}\n{"country":"Mali"}\n', b"", b"Turkey", b'{"country":"Turkey"', b'{"country":"Tur"key"}',
    b'{"Country":"Turkey"}', b"[]", b'"country"', b'{"country":"\xff\xfe"}', b"\x00\x01\x02",
]  # fmt: skip


def test_odd_and_fuzzed_messages_are_read_as_plain_python_reads_them():
    rng = random.Random(11)
    messages = [*ODD, *(fuzzed(rng) for _ in range(20_000))]
    fields = JsonFields((FIELD,))
    together = keys(fields, messages)
    reasons = fields.reasons(pa.array(messages, pa.binary())).to_pylist()
    for message, found, reason in zip(messages, together, reasons, strict=True):
        assert (found, reason and reason_of(reason)) == read(message), message
    assert [keys(fields, [message])[0] for message in messages[:2000]] == together[:2000], "no other's bytes are read"


@pytest.mark.parametrize("fields", [JsonFields(("country",), "n"), JsonFields(("a", "id"), scalars=True, framed=True)])
@given(seed=st.integers(0, 2**32))
@examples(max_examples=20)
def test_a_message_has_a_key_or_a_reason(fields, seed):
    messages = messages_of(seed, fields.path, 200)
    found = fields.read(pa.array(messages, pa.binary()))[0].to_pylist()
    reasons = fields.reasons(pa.array(messages, pa.binary())).to_pylist()
    for message, key, reason in zip(messages, found, reasons, strict=True):
        assert (key is None) != (reason is None), message


def test_messages_that_are_decoded_together_are_read_as_if_each_were_alone():
    """No message reaches into another one, and one that isn't settled leaves the others as they are."""
    fields = JsonFields(("user", "id"), "n", scalars=True)
    good = b'{"n":%d,"at":"12:00","user":{"id":"a","x":[{"y":1}]},"text":"caf\xc3\xa9 \\u00e9"}'
    odd = [
        b'{"user":{"id":"a"},"n":1,"x":[1', b"2]}", b'{"user":{"id":"a"},"n":1},{"user":{"id":"b"},"n":1}', b"",
        b'"text"', b"null", b'{"user":"a","n":1}', b'{"user":{"id":"a","id":"b"},"n":1}',
        b'{"n":1,"us\\u0065r":{"id":"a"}}',
        b'{"user":{"id":"a"},"us\\u0065r":{"id":"b"},"n":1}', b'{"user":{"id":"\xff"},"n":1}',
        b'{"user":{"id":"a"},"n":1,"x":"\xff"}', b'{"user":{"id":"a"},"n":1,"id":7}', b'{"user":{"id":1.50},"n":1}',
        b'{"user":{"id":%d},"n":1}' % 2**70, b'{"user":{"id":true},"n":1e400}', None,
    ]  # fmt: skip
    alone = [keys(fields, [message])[0] for message in odd]
    for at, message in enumerate(odd):
        others = [good % i for i in range(600)]
        for first in (0, 255, 256, 300):
            messages = [*others[:first], message, *others[first:]]
            expected = [("a", i) for i in range(600)]
            expected.insert(first, alone[at])
            assert keys(fields, messages) == expected, message
    assert keys(fields, [good % 1, *odd[:2], good % 2]) == [("a", 1), alone[0], alone[1], ("a", 2)]


COUNTS = {
    "{}": "no field 'curr'",
    '{"curr":"a"}': "no field 'n'",
    '{"curr":7,"n":7}': "field 'curr' is BIGINT, not STRING",
    '{"curr":"a","n":"7"}': "field 'n' is STRING, not BIGINT",
    '{"curr":"a","n":null}': "field 'n' is VOID, not BIGINT",
    '{"curr":"a","n":[7]}': "field 'n' is ARRAY<BIGINT>, not BIGINT",
    '{"curr":"a","n":1.0}': "field 'n' is DECIMAL(1,0), not BIGINT",
    '{"curr":"a","n":1e3}': "field 'n' is DOUBLE, not BIGINT",
    '{"curr":"a","n":9999999999999999999}': "field 'n' is DECIMAL(19,0), not BIGINT",
    '{"curr":"a","n":999999999999999999}': f"the count is 999999999999999999, not 0 to {MOST}",
    '{"curr":"a","n":-1}': f"the count is -1, not 0 to {MOST}",
    '{"curr":"a","n":1,"x":{"n":1,"n":1}}': None,
    '{"curr":"a","n":1,"n":1}': "field 'n' is there twice",
    '{"curr":"a","n":1,"c\\u0075rr":"a"}': "field 'curr' is there twice",
    '{"curr":"a","n":1}': None,
}


def test_a_count_is_a_whole_number_within_bounds():
    fields, messages = JsonFields(("curr",), "n"), [message.encode() for message in COUNTS]
    assert fields.reasons(pa.array(messages, pa.binary())).to_pylist() == list(COUNTS.values())
    found = keys(fields, messages)
    assert [key for key, _ in found] == [None if reason else "a" for reason in COUNTS.values()]
    spelled = {"0": 0, "-0": 0, "7": 7, str(MOST): MOST, str(MOST + 1): None, "9" * 18: None}
    found = keys(fields, [b'{"curr":"a","n":%s,"x":{"n":3}}' % each.encode() for each in spelled])
    assert [count if key == "a" else None for key, count in found] == list(spelled.values())


def test_what_a_value_is_is_said_in_sparks_words(spark):
    values = [*NUMBERS, "12.50", "-0.0", "0.05", "-9223372036854775808", "9223372036854775808", "9" * 38, "9" * 39]
    values += ["0." + "1" * 38, "0." + "1" * 39, "null", "true", "[]", "{}", "[[]]", "[null,1]", '["a"]', '[1,"a"]']
    values += ['{"b":[],"a":{"c":null}}', '[{"a":1.5},{"a":1.5}]']
    messages = pa.array([b'{"key":%s}' % value.encode() for value in values], pa.binary())
    ours = [
        why and why.split(" is ", 1)[1].split(", not STRING")[0]
        for why in JsonFields(("key",)).reasons(messages).to_pylist()
    ]
    rows = spark.createDataFrame(list(enumerate(values)), "i int, value string").repartition(1)
    theirs = rows.select("i", F.schema_of_variant(F.parse_json("value"))).collect()
    assert ours == [kind for _, kind in sorted(theirs)]


@pytest.mark.parametrize(
    ("spelled", "key"),
    [
        (r'"T\u00fcrkiye"', "T\u00fcrkiye"),
        (r'"C\u00f4te d\u0027Ivoire\t\"\/\\"', "C\u00f4te d'Ivoire\t\"/\\"),
        (r'"\u0000\u007f\u0080\u07ff\u0800\uffff"', "\0\x7f\x80\u07ff\u0800\uffff"),
        (r'"\ud83d\uDE00\uDBFF\udfff"', "\U0001f600\U0010ffff"),
        (r'"\b\f\n\r\t"', "\b\f\n\r\t"),
        (r'"\ud83d"', None),
        (r'"\ud83dx"', None),
        (r'"\ud83d\u0041"', None),
        (r'"\ude00"', None),
        (r'"\u00e"', None),
        (r'"\x"', None),
        ('"\t"', None),
    ],
)
def test_escapes(spelled, key):
    shapes = '{"country":%s}', '{"id":7, "country": %s , "x":[{}]}\n'
    assert keys(JsonFields(("country",)), [(shape % spelled).encode() for shape in shapes]) == [key, key]
    elsewhere = f'{{"country":"Chad", "x":{spelled}}}'.encode()
    assert keys(JsonFields(("country",)), [elsewhere]) == [None if key is None else "Chad"]


SECOND = ['{"key":"b"}', ' \n{"key":"b"}\n', ',{"key":"b"}', '] {"key":"b"}', "}", f',"{_END}"', "x", "\0"]


@pytest.mark.parametrize("framed", [False, True])
def test_a_message_is_one_object(framed):
    fields = JsonFields(("key",), framed=framed)
    messages = [(FRAMING if framed else b"") + b'{"key":"a"}' + second.encode() for second in ("", " \n", *SECOND)]
    expected = [None, None] + [MORE] * len(SECOND)
    assert fields.reasons(pa.array(messages, pa.binary())).to_pylist() == expected
    assert keys(fields, messages) == ["a", "a"] + [None] * len(SECOND)


def test_a_message_is_one_object_to_sparks_parser_too(spark):
    reader = get_splitter("TWITTER_ELECTION")
    messages = [b'{"hashtags":["a"]}' + second.encode() for second in ("", " \n", *SECOND)]
    assert read_outcomes(spark, reader, messages) == [("a", None)] * 2 + [(None, MORE)] * len(SECOND)


def test_names_are_compared_however_many_and_however_spelled():
    fields = JsonFields(("country",))
    others = [f'"n{i}":{i}' for i in range(3000)]
    whole, other, again = '{%s,"country":"Chad"}', '{%s,"n7":1,"country":"Chad"}', '{"country":"x",%s,"country":"Chad"}'
    for few in (10, 999, 1000, 1001, 3000):
        of = ",".join(others[:few])
        for message, key in ((whole, "Chad"), (other, "Chad"), (again, None)):
            assert keys(fields, [(message % of).encode()]) == [key], few
    odd = [r'{"coun\u0074ry":"Chad"}', r'{"coun\u0074ry":"Chad","country":"x"}', r'{"\u0061":1,"country":"\u00e9"}']
    assert keys(fields, [message.encode() for message in odd]) == ["Chad", None, "\u00e9"]
    colons = [
        rb'{"x":1,"x":"\u003a","country":"Chad"}',
        b'{"x:":[{":":1,"y":2}],"country":"a:b"}',
        b'{"country":"::","x":[{}]}',
    ]
    assert keys(fields, colons) == ["Chad", "a:b", "::"], "colons tell how many names there were"
    nested = r'{"user":{"i\u0064":1.50},"n":{"user":1,"n":2}}'
    assert keys(JsonFields(("user", "id"), scalars=True), [nested.encode()]) == ["1.5"]
    assert keys(JsonFields(("curr",), "n"), [rb'{"\u0063urr":"a","n":7}', rb'{"\u0063urr":"a","n":-7}']) == [
        ("a", 7),
        (None, -1),
    ]


@pytest.mark.parametrize(("levels", "key"), [(999, "Chad"), (1000, None)])
def test_levels(levels, key):
    inside = "[" * levels + "]" * levels
    assert keys(JsonFields(("country",)), [f'{{"country":"Chad","x":{inside}}}'.encode()]) == [key]
    odd = f'{{"country":"Chad","\\u0078":{inside}}}'.encode()
    assert keys(JsonFields(("country",)), [odd]) == [key]


def test_any_array_of_messages():
    fields = JsonFields(("country",))
    messages = [b'{"country":"%d"}' % i for i in range(10)] + [None, b""]
    wanted = [*map(str, range(10)), None, None]
    for kind in (pa.binary(), pa.large_binary()):
        array = pa.array(messages, kind)
        assert fields.read(array)[0].to_pylist() == wanted
        assert fields.read(array[3:11])[0].to_pylist() == wanted[3:11]
        assert fields.read(array[:0])[0].to_pylist() == []
        assert fields.read(array[10:])[0].to_pylist() == [None, None]


@pytest.mark.parametrize("distinct", [1, 100, 400, 100_000])
def test_messages_that_repeat_each_other_are_read_as_if_each_were_alone(distinct):
    rng = random.Random(distinct)
    different = [fuzzed(rng) for _ in range(min(distinct, 3_000))] + [None]
    messages = [*different, *rng.choices(different, k=3_000)]
    rng.shuffle(messages)
    for fields in (JsonFields((FIELD,)), JsonFields((FIELD,), "n"), JsonFields((FIELD,), scalars=True, framed=True)):
        assert keys(fields, messages) == [keys(fields, [message])[0] for message in messages]
        assert keys(fields, messages[17:]) == keys(fields, messages)[17:]


def test_a_message_whose_optional_field_is_null_gives_no_tuple():
    fields = JsonFields(("bid", "auction"), scalars=True, optional=True)
    reasons = {
        '{"bid":{"auction":7},"person":null}': None,
        '{"bid":null,"person":{"id":7}}': None,
        '{"bid" : null, "person": {"name": "\\u003a"}}': None,  # one that orjson alone doesn't settle
        '{"person":{"id":7}}': "no field 'bid.auction'",
        '{"bid":{"auction":null}}': "field 'bid.auction' is VOID, which is no key",
        '{"bid":{}}': "no field 'bid.auction'",
        '{"bid":null,"bid":{"auction":8}}': "field 'bid.auction' is there twice",
        '{"bid":null': "not JSON",
        "null": "no field 'bid.auction'",
    }
    messages = [message.encode() for message in reasons]
    given = [True, False, False, *[True] * 6]
    array = pa.array(messages, pa.binary())
    assert fields.reasons(array).to_pylist() == list(reasons.values())
    assert [column.to_pylist() for column in fields.read(array)] == [["7", *[None] * 8], given]
    found = fields(pa.record_batch([pa.array(range(9)), array], ["offset", MESSAGE]))
    assert found.to_pydict() == {"offset": [0, *range(3, 9)], "key": ["7", *[None] * 6]}
    # Where messages repeat, each is read once.
    often = pa.array(messages * 200, pa.binary())
    assert fields.read(often)[1].to_pylist() == given * 200
    counted = JsonFields(("bid", "auction"), "n", scalars=True, optional=True)
    pair = pa.array([b'{"bid":{"auction":7},"n":3}', b'{"bid":null}'], pa.binary())
    assert counted(pa.record_batch([pair], [MESSAGE])).to_pydict() == {"key": ["7"], "count": [3]}
    assert JsonFields(("bid", "auction"), scalars=True).reasons(array).to_pylist()[1] == "no field 'bid.auction'"


def test_a_long_message():
    name, tags = r"\u00e9" * 30_000, ", ".join("1" * 100_000)
    long = f'{{"country": "{name}", "tags": [{tags}]}}'
    assert keys(JsonFields(("country",)), [long.encode()]) == ["\u00e9" * 30_000]
