"""Messages in Avro that would stop a process: too deep for its stack, or too large for its memory."""

import io
import json
import pickle
import re
import subprocess
import sys
import tracemalloc

import pytest
from fastavro import schemaless_reader, schemaless_writer
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.apps.splitter.schema_registry import schema_registry
from unskew.apps.splitter.avro_decoder import AvroDecoder, read_schema_file
from unskew.apps.splitter.avro_limits import AvroSchema
from unskew.apps.splitter.schema_registry import SchemaMissing, SchemaRegistry
from unskew.errors import UsageError

DEPTH = 20_000


def record(name, **fields):
    return {"type": "record", "name": name, "fields": [{"name": n, "type": kind} for n, kind in fields.items()]}


def linked(**more):
    return record("Node", id="long", next=["null", "Node"], **more)


def chained(count):
    """A union of records, each of which has the one before: none has itself."""
    return record("Top", one=[record("R0", id="long"), *(record(f"R{i}", id=f"R{i - 1}") for i in range(1, count))])


def number(value):
    out = io.BytesIO()
    schemaless_writer(out, "long", value)
    return out.getvalue()


DEEP = "it is nested more than 1,000 levels deep"
MANY = "it has more than {:,} values in {:,} bytes"
HUGE = 1 << 60

#: Schema, message, reason.
STOPPING = {
    "linked": (linked(), b"\x02\x02" * DEPTH + b"\x02\x00", DEEP),
    "arrays": (record("A", items={"type": "array", "items": "A"}), b"\x02" * DEPTH + b"\x00" * (DEPTH + 1), DEEP),
    "blocks with sizes": (record("A", items={"type": "array", "items": "A"}), b"\x01\x02" * DEPTH, DEEP),
    "maps": (record("M", of={"type": "map", "values": "M"}), b"\x02\x02k" * DEPTH + b"\x00" * (DEPTH + 1), DEEP),
    "errors": ({**record("E", cause=["null", "E"]), "type": "error"}, b"\x02" * DEPTH + b"\x00", DEEP),
    "no bytes": (record("N", next="N"), b"", DEEP),
    "no bytes, twice": (record("N", a="N", b="N"), b"", DEEP),
    "not recursive": (chained(DEPTH), number(DEPTH - 1) + b"\x02", DEEP),
    "nulls": ({"type": "array", "items": "null"}, number(HUGE) + b"\x00", MANY.format(10_100, 10)),
    "nulls in a block with a size": ({"type": "array", "items": "null"}, number(-HUGE) + b"\x00", None),
    "empty records": ({"type": "array", "items": record("E", a="null")}, number(HUGE) + b"\x00", None),
    "doubled": (
        record(
            "Top", **{f"d{i}": record(f"D{i}", **dict.fromkeys("ab", f"D{i - 1}" if i else "null")) for i in range(40)}
        ),
        b"",
        "it has more than 10,000 values in 0 bytes",
    ),
}

DECODE = """
import pickle, sys
from unskew.apps.splitter.avro_decoder import AvroDecoder
from unskew.apps.splitter.avro_limits import AvroSchema
for text, message in pickle.load(sys.stdin.buffer):
    print(AvroDecoder("id", schema=AvroSchema.of(text)).read(message)[1], flush=True)
"""


def test_messages_that_would_stop_the_process_are_rejected(subtests):
    """The first one that does is the one after those that have an answer."""
    given = pickle.dumps([(json.dumps(schema), message) for schema, message, _ in STOPPING.values()])
    ran = subprocess.run([sys.executable, "-c", DECODE], input=given, capture_output=True, timeout=100, check=False)
    reasons = ran.stdout.decode().splitlines()
    for (name, (_, _, why)), reason in zip(STOPPING.items(), reasons, strict=False):
        with subtests.test(name):
            assert reason == f"not to be decoded by the schema: {why}" if why else "values in" in reason
    assert (len(reasons), ran.returncode) == (len(STOPPING), 0), ran.stderr.decode()


def test_messages_may_be_as_deep_as_is_said():
    """A record and a union are two levels."""
    schema = AvroSchema.of(json.dumps(linked()))
    assert AvroDecoder("id", schema=schema).read(b"\x02\x02" * 499 + b"\x02\x00")[0] == "1"
    assert AvroDecoder("id", schema=schema).read(b"\x02\x02" * 500 + b"\x02\x00")[1].endswith(DEEP)


def test_only_messages_that_their_schema_does_not_bound_are_walked_through():
    wide = record("Wide", **{f"f{i}": ["null", "string"] for i in range(2000)})
    lists = record("Lists", of={"type": "array", "items": record("Of", a={"type": "map", "values": "null"})})
    for schema in wide, lists, chained(100), record("Empty"), {"type": "map", "values": "null"}, "string":
        assert AvroSchema.of(json.dumps(schema)).named is None
    for schema in (
        linked(),
        ["null", linked()],
        {"type": "array", "items": linked()},
        {"type": "array", "items": "null"},
    ):
        assert AvroSchema.of(json.dumps(schema)).named is not None


FIXED = {"type": "fixed", "name": "F", "size": 3}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
DAY = {"type": "int", "logicalType": "date"}
EVERY = linked(
    a="null", b="boolean", c="int", d="long", e="float", f="double", g="bytes", h="string", i=FIXED, j="F", k=ENUM,
    l={"type": "array", "items": ["Node", "string"]}, m={"type": "map", "values": ["Node", "long"]}, n=["null", "E"],
    o=DAY,
)  # fmt: skip
LONG = st.integers(-(2**63), 2**63 - 1)


def node(*inner):
    return st.fixed_dictionaries({
        "id": LONG, "next": st.one_of(st.none(), *inner),
        "a": st.none(), "b": st.booleans(), "c": st.integers(-(2**31), 2**31 - 1), "d": LONG,
        "e": st.floats(width=32), "f": st.floats(), "g": st.binary(max_size=99), "h": st.text(max_size=9),
        "i": st.binary(min_size=3, max_size=3), "j": st.just(b"123"), "k": st.sampled_from("AB"),
        "l": st.lists(st.one_of(st.text(max_size=3), *inner), max_size=3),
        "m": st.dictionaries(st.text(max_size=3), st.one_of(LONG, *inner), max_size=3), "n": st.none() | st.just("A"),
        "o": st.integers(0, 20_000),
    })  # fmt: skip


SCHEMA = AvroSchema.of(json.dumps(EVERY))


@given(st.recursive(node(), node, max_leaves=3), st.data())
def test_a_walk_goes_over_all_that_fastavro_writes(value, data):
    out = io.BytesIO()
    schemaless_writer(out, SCHEMA.parsed, value)
    message = out.getvalue()
    SCHEMA.check(b"12345" + message, 5)
    assert AvroDecoder("id", schema=SCHEMA).read(message) == (str(value["id"]), None)
    with pytest.raises((EOFError, IndexError)):
        SCHEMA.check(message[: data.draw(st.integers(0, len(message) - 1))], 0)


ARRAYS = AvroSchema.of(json.dumps(record("T", l={"type": "array", "items": "T"}, b="bytes", f=FIXED, n="int")))


def passes(function):
    try:
        function()
    except Exception:  # noqa: BLE001  fastavro raises many kinds
        return False
    return True


@given(st.binary(max_size=60) | st.lists(st.sampled_from([0, 1, 2, 3, 4, 6, 0x80, 0xFF]), max_size=40).map(bytes))
def test_a_walk_goes_over_any_bytes_as_fastavro_does(message):
    assume(not re.search(rb"[\x80-\xff]{9}", message))  # a number of more than 64 bits
    read = io.BytesIO(message)
    assert passes(lambda: ARRAYS.check(message, 0)) == passes(lambda: schemaless_reader(read, ARRAYS.parsed, None))


NESTED = {
    "arrays": lambda n: '{"type":"array","items":' * n + '"int"' + "}" * n,
    "unions": lambda n: "[" * n + '"int"' + "]" * n,
    "other": lambda n: '{"type":"int","x":' + "[" * n + "]" * n + "}",
}


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("levels", [201, 900, 100_000])
def test_a_schema_of_deep_json_is_refused(tmp_path, kind, levels):
    """The JSON may be too deep for json, for fastavro, or for pickle, which brings schemas to the tasks."""
    text = NESTED[kind](levels)
    (tmp_path / "x.avsc").write_text(text)
    with pytest.raises(UsageError, match=r"is no Avro schema: .*(levels deep|recursion)"):
        read_schema_file(str(tmp_path / "x.avsc"))
    with schema_registry() as (registry, url):
        registry.schemas[7] = {"schema": text}
        with pytest.raises(SchemaMissing, match=r"schema 7 is not to be read: .*(levels deep|recursion)"):
            SchemaRegistry.at(url).fetch(7)


def test_a_schema_may_have_the_levels_that_are_said():
    text = NESTED["arrays"](200)
    assert pickle.loads(pickle.dumps(AvroSchema.of(text))) == AvroSchema.of(text)


def subject(registry, name, *others):
    """Put a record into a registry. It has others, to whose subjects it refers."""
    references = [{"name": other, "subject": other, "version": 1} for other in others]
    fields = {f"f{i}": other for i, other in enumerate(others)}
    found = {"schema": json.dumps(record(name, **fields)), "references": references}
    registry.subjects[name, "1"] = registry.schemas[7] = found


def test_references_are_followed_once_each():
    with schema_registry() as (registry, url):
        subject(registry, "R0")
        for i in range(1, 20):
            subject(registry, f"R{i}", f"R{i - 1}", f"R{max(0, i - 2)}")
        assert SchemaRegistry.at(url).fetch(7).parsed["name"] == "R19"
        assert len(registry.paths) == 20


def test_a_schema_of_endless_references_is_refused():
    with schema_registry() as (registry, url):
        subject(registry, "R", "R")
        with pytest.raises(SchemaMissing, match="schema 7 has too long a chain of references"):
            SchemaRegistry.at(url).fetch(7)


def test_a_message_that_names_its_schema_is_rejected_by_it():
    with schema_registry() as (registry, url):
        registry.put(7, linked())
        reader = AvroDecoder("id", registry=SchemaRegistry.at(url).with_schemas({7}))
        reader = pickle.loads(pickle.dumps(reader))
        assert reader.read(b"\x00\x00\x00\x00\x07\x06\x00") == ("3", None)
        deep = b"\x00\x00\x00\x00\x07" + b"\x02\x02" * DEPTH + b"\x02\x00"
        assert reader.read(deep) == (None, f"not to be decoded by schema 7: {DEEP}")


def test_a_schema_that_multiplies_fills_no_memory():
    inner = {"type": "record", "name": "Inner", "fields": [{"name": f"f{i}", "type": "int"} for i in range(3000)]}
    outer = [{"name": f"f{i}", "type": inner if i == 0 else "Inner"} for i in range(3000)]
    text = json.dumps({"type": "record", "name": "Outer", "fields": outer})
    AvroSchema.of(text)
    tracemalloc.start()
    found = AvroSchema.of(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.named is not None
    assert peak < 40 << 20
