"""A topic in Avro as a source type: by a schema registry, or by the schema of a file."""

import io
import json
import pickle
import time
from types import SimpleNamespace

import pytest
from fastavro import schemaless_writer
from hypothesis import example, given
from hypothesis import strategies as st

from tests.apps.conftest import count_by_key, publish, records
from tests.apps.splitter.outcomes import read_outcomes
from tests.apps.splitter.schema_registry import schema_registry
from unskew.apps.checkpoint.versions import Versions
from unskew.apps.splitter.avro_decoder import AvroDecoder, SchemaRequests, _fetched, read_schema_file
from unskew.apps.splitter.avro_limits import AvroSchema
from unskew.apps.splitter.avro_refusals import SchemaRefusals
from unskew.apps.splitter.formats import SchemaSource, get_splitter
from unskew.apps.splitter.schema_registry import SchemaRegistry
from unskew.errors import EnvironmentFault, UsageError

KEYS = ["string", "long", "double", "boolean", "null", "bytes", {"type": "enum", "name": "E", "symbols": ["A", "B"]}]
USER = {"type": "record", "name": "User", "fields": [{"name": "id", "type": KEYS}, {"name": "name", "type": "string"}]}
_FIELDS = [{"name": "user", "type": ["null", USER]}, {"name": "at", "type": "long"}]
CLICK = {"type": "record", "name": "Click", "fields": _FIELDS}


def encoded(record, schema=CLICK, number=None):
    out = io.BytesIO()
    schemaless_writer(out, schema, record)
    return (b"" if number is None else b"\x00" + number.to_bytes(4, "big")) + out.getvalue()


def click(key, number=None):
    return encoded({"user": {"id": key, "name": "n"}, "at": 7}, number=number)


NOT = "not Avro by {}"
KINDS = [
    (click("u1"), "u1", None),
    (click(""), "", None),
    (click("Türkiye"), "Türkiye", None),
    (click(7), "7", None),
    (click(7.5), "7.5", None),
    (click(True), "true", None),
    (click(None), None, "field 'user.id' is null, which is no key"),
    (click(b"u1"), None, "field 'user.id' is bytes, which is no key"),
    (encoded({"user": None, "at": 7}), None, "no field 'user.id'"),
    (click("u1")[:-1], None, NOT),
    (click("u1") + b"\x00", None, NOT + ": it is longer"),
    (b"", None, NOT),
    (b"\x02\x00\x04\xff\xff\x00\x00", None, NOT),
]


@pytest.fixture
def avsc(tmp_path):
    (tmp_path / "click.avsc").write_text(json.dumps(CLICK))
    return str(tmp_path / "click.avsc")


def test_every_kind_of_message_by_a_file(spark, avsc):
    reader = get_splitter("COLUMN", "user.id", "avro", schemas=SchemaSource(avsc))
    expected = [*KINDS, (None, None, "no value")]
    got = read_outcomes(spark, reader, [message for message, _, _ in expected])
    assert got == [(key, why and why.format("the schema")) for _, key, why in expected]


def test_every_kind_of_message_by_a_registry(spark):
    """Schema 2 is in no sample: a task meets it first. It refers to another subject's."""
    framed = [(b"\x00\x00\x00\x00\x01" + message, key, why and why.format("schema 1")) for message, key, why in KINDS]
    other = {"type": "record", "name": "Visit", "fields": [{"name": "user", "type": "User"}]}
    visit = {"type": "record", "name": "Visit", "fields": [{"name": "user", "type": USER}]}
    expected = [
        *framed,
        (encoded({"user": {"id": "u2", "name": "n"}}, visit, 2), "u2", None),
        (click("u1", 3), None, "schema 3 is JSON, not AVRO"),
        (click("u1", 4), None, "no schema 4 in the registry"),
        (b"\x01" + click("u1", 1)[1:], None, "no schema's number before it"),
        (b"\x00\x00", None, "no schema's number before it"),
        (None, None, "no value"),
    ]
    with schema_registry("me:s3cret word") as (registry, url):
        registry.put(1, CLICK)
        registry.put(2, other, references=[{"name": "User", "subject": "a/b", "version": 1}])
        registry.subjects["a%2Fb", "1"] = {"schema": json.dumps(USER)}
        registry.put(3, {}, schemaType="JSON")
        address = url.replace("http://", "http://me:s3cret%20word@")
        reader = get_splitter("COLUMN", "user.id", "avro", [click("u1", 1)], SchemaSource(address))
        assert registry.paths == ["/schemas/ids/1"]
        got = read_outcomes(spark, reader, [message for message, _, _ in expected])
        assert got == [(key, why) for _, key, why in expected]
        assert registry.paths.count("/schemas/ids/1") == 1, "what the driver fetched travels to the tasks"


@given(st.binary(max_size=40) | st.text(max_size=9).map(click) | st.integers(0, 2**60).map(click), st.integers(0, 50))
@example(click("a" * 100), 3)
def test_no_bytes_are_more_than_a_reason(message, cut):
    decoder = AvroDecoder("user.id", schema=AvroSchema.of(json.dumps(CLICK)))
    for each in message, message[:cut], message[cut:]:
        key, reason = decoder.read(each)
        assert (key is None) != (reason is None)


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
TYPE_OF_OTHER = {
    "late": ({"type": "long", "logicalType": "timestamp-millis"}, 2**63 - 1),
    "early": ({"type": "int", "logicalType": "date"}, -(2**31)),
    "no uuid": ({"type": "string", "logicalType": "uuid"}, ""),
    "long decimal": (DECIMAL, b"\x7f" * 1_000_000),
    "invalid decimal": (DECIMAL | {"scale": 5}, b"\x01"),
    "decimal too long for its fixed": (DECIMAL | {"type": "fixed", "name": "F", "size": 1}, b"\x01"),
    "text as a date": ({"type": "string", "logicalType": "date"}, "x"),
    "no name": ({"type": "int", "logicalType": ["date"]}, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPE_OF_OTHER)
def test_what_another_field_stands_for_rejects_nothing(name):
    kind, value = TYPE_OF_OTHER[name]
    fields = [{"name": "user", "type": "string"}, {"name": "other", "type": kind, "default": {}}]
    bare = kind if kind["type"] == "fixed" else kind["type"]
    bare = {key: kind[key] for key in ("type", "name", "size") if key in kind} if bare is kind else bare
    written = {"type": "record", "name": "R", "fields": [fields[0], {"name": "other", "type": bare}]}
    schema = AvroSchema.of(json.dumps({"type": "record", "name": "R", "fields": fields}))
    began = time.process_time()
    assert AvroDecoder("user", schema=schema).read(encoded({"user": "ann", "other": value}, written)) == ("ann", None)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("kind", "value", "key", "reason"),
    [
        (DECIMAL, b"\x04\xd2", "12.34", None),
        (DECIMAL, b"\x00" * 9 + b"\x04\xd2", "12.34", None),
        (DECIMAL, b"\x27\x10", None, "field 'id' has more than 4 digits"),
        (DECIMAL, b"\x7f" * 1_000_000, None, "field 'id' has more than 4 digits"),
        (DECIMAL | {"precision": 10**30}, b"\x7f" * 1_000_000, None, "field 'id' has more than 65,536 digits"),
        (DECIMAL | {"scale": 5}, b"\x01", None, "field 'id' is bytes, which is no key"),
        ({"type": "string", "logicalType": "uuid"}, "A" * 32, "-".join("a" * n for n in (8, 4, 4, 4, 12)), None),
        ({"type": "string", "logicalType": "uuid"}, "", None, "field 'id' is no uuid"),
        ({"type": "int", "logicalType": "date"}, 2**31 - 1, None, "field 'id' is date, which is no key"),
        ({"type": "int", "logicalType": "month"}, 7, "7", None),
    ],
)  # fmt: skip
def test_a_key_of_a_logical_type(kind, value, key, reason):
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": ["null", kind]}]}
    bare = {"type": "record", "name": "R", "fields": [{"name": "id", "type": ["null", kind["type"]]}]}
    decoder = AvroDecoder("id", schema=AvroSchema.of(json.dumps(schema)))
    began = time.process_time()
    assert pickle.loads(pickle.dumps(decoder)).read(encoded({"id": value}, bare)) == (key, reason)
    assert time.process_time() - began < 2


def test_a_password_is_not_shown():
    registry = SchemaRegistry.at("https://me:s3cret@registry:8081/api/")
    assert registry.url == "https://registry:8081/api"
    assert SchemaRegistry.at("https://me:s3cret@[2001:DB8::7]/api").url == "https://[2001:db8::7]/api"
    assert "s3cret" not in repr(registry) + repr(SchemaSource("https://me:s3cret@registry:8081"))
    assert pickle.loads(pickle.dumps(registry)) == registry
    with pytest.raises(UsageError, match="is 'http://:8081'"):
        SchemaRegistry.at("http://:8081")
    with pytest.raises(UsageError, match="is 'registry:8081'") as error:
        SchemaRegistry.at("ftp://me:s3cret@registry:8081")
    assert "s3cret" not in str(error.value)


@pytest.fixture
def slept(monkeypatch):
    """How long a client waits between its attempts (s); in truth it doesn't."""
    pauses = []
    monkeypatch.setattr("urllib3.util.retry.time", SimpleNamespace(sleep=pauses.append, time=time.time))
    return pauses


def decoder(url, login="", **more):
    return AvroDecoder(
        "user.id", registry=SchemaRegistry.at(url.replace("//", f"//{login}@") if login else url), **more
    )


def test_a_registry_that_does_not_answer_rejects_nothing(slept):
    with schema_registry("me:s3cret") as (registry, url):
        registry.put(1, CLICK)
        with pytest.raises(EnvironmentFault, match=f"{url} answers 401 to /schemas/ids/1"):
            decoder(url, "me:wrong").key(click("u1", 1))
        assert len(registry.paths) == 1, "what is refused is refused again"
        reader = decoder(url, "me:s3cret")
        registry.first = [(503,)] * 6
        with pytest.raises(EnvironmentFault, match=f"{url} answers 503 to /schemas/ids/1"):
            reader.key(click("u1", 1))
        assert not registry.first, "it was asked six times"
        assert [reader.key(click(f"u{i}", 1)) for i in range(3)] == ["u0", "u1", "u2"]
        assert len(registry.paths) == 8, "a schema is fetched once"
    with pytest.raises(EnvironmentFault, match=r"doesn't answer: .*refused"):
        decoder(url).key(click("u1", 99))
    assert len(slept) == 4 + 4, "the first of five attempts more doesn't wait"


@pytest.mark.parametrize("code", [400, 403, 422])
@pytest.mark.parametrize("known", [True, False])
def test_a_schema_that_is_refused_alone_rejects_its_messages(code, known):
    with schema_registry() as (registry, url):
        registry.put(3, CLICK)
        registry.refused[9] = code
        _fetched.clear()
        reader = decoder(url)
        assert not known or reader.key(click("u1", 3)) == "u1"
        assert reader.read(click("u1", 9)) == (None, f"the schema registry {url} answers {code} to /schemas/ids/9")
        assert set(SchemaRegistry.at(url).with_schemas({9, 3}).schemas) == {3}
        registry.refused.update({1: code, 3: code})
        with pytest.raises(EnvironmentFault, match=f"answers {code} to /schemas/ids/{3 if known else 1}"):
            reader.read(click("u1", 9))


@pytest.mark.parametrize("answer", [[], {"schema": 7}, {"schema": '"string"', "references": [{}]}])
def test_what_is_no_answer_rejects_its_messages(answer):
    with schema_registry() as (registry, url):
        registry.schemas[9] = answer or ["no object"]
        assert decoder(url).read(click("u1", 9))[1].startswith("schema 9 is not to be read")


def test_a_number_that_no_registry_gives_is_not_asked_for():
    with schema_registry() as (registry, url):
        assert decoder(url).read(click("u1", 2**31))[1].startswith(f"no schema has the number {2**31}")
        assert not registry.paths


def test_a_busy_registry_says_when_it_is_asked_again(slept):
    with schema_registry() as (registry, url):
        registry.put(1, CLICK)
        registry.first = [(429, ("Retry-After", "7")), (429, ("Retry-After", "86400")), (502,)]
        assert decoder(url).key(click("u1", 1)) == "u1"
    assert slept == [7, 30, 4]


def test_a_login_goes_to_no_other_server():
    with schema_registry() as (other, elsewhere), schema_registry("me:s3cret") as (registry, url):
        registry.put(1, CLICK)
        other.put(1, CLICK)
        registry.first = [(302, ("Location", "/schemas/ids/1")), (301, ("Location", f"{elsewhere}/schemas/ids/1"))]
        assert decoder(url, "me:s3cret").key(click("u1", 1)) == "u1"
        assert None not in registry.logins
        assert other.logins == [None]


class Stream:
    """A stream's batches, and the tasks that read its messages: each in a process of its own."""

    def __init__(self, checkpoint, url):
        self.batch = 0
        self.refusals = SchemaRefusals(str(checkpoint), lambda: self.batch)
        self.decoder = decoder(url)

    def read(self, number, *, partition=0, decides=True):
        _fetched.clear()
        asking = SchemaRequests(self.decoder.registry, self.refusals, decides=decides)
        [read] = asking.read(self.decoder, [(partition, click("u1", number))])
        return read


def test_what_a_batch_rejects_it_rejects_again(tmp_path):
    refused = (None, "no schema 9 in the registry")
    with schema_registry() as (registry, url):
        stream = Stream(tmp_path, url)
        registry.late[9] = CLICK, 1
        assert stream.read(9) == refused
        assert stream.read(9) == refused, "by the task's next attempt"
        assert stream.read(9, decides=False) == refused, "by who reads the rejected messages"
        assert registry.paths == ["/schemas/ids/9"]
        assert stream.read(9, partition=1) == ("u1", None), "another partition's task had another answer"
        stream.batch = 1
        assert stream.read(9) == ("u1", None)
        stream.batch = 0
        schemas = SchemaSource(url, refusals=stream.refusals)
        known = schemas.decoder("user.id", [click("u1", 9), click("u1", 8)]).registry.schemas
        assert set(known) == set()
        assert stream.read(9) == refused, "by a replay, of a driver to which the registry gives the schema"


NEVER_ASKED = (None, "schema {} wasn't asked for: the registry lacks 100 others of this batch")


class Task:
    """A task that reads messages of partition 0, in batches of Arrow. It has a process of its own, or is the next."""

    def __init__(self, stream, *, decides=True, known=None):
        _fetched.clear()
        self.registry = stream.decoder.registry.with_schemas(known or set())
        self.decoder = AvroDecoder("user.id", registry=self.registry)
        self.asking = SchemaRequests(self.registry, stream.refusals, decides=decides)

    def read(self, numbers):
        return self.asking.read(self.decoder, [(0, click("u1", n)) for n in numbers])


def test_a_producer_can_name_any_number_of_schemas(tmp_path, monkeypatch):
    """Schema 1 is known before the bound is reached, 2 and 3 come after it, and only 2 is known to the driver."""
    wrote = []
    write = Versions.write
    monkeypatch.setattr(Versions, "write", lambda *given: (wrote.append(given[2]), write(*given))[1])
    packets = [(1, *range(1000, 2000)), (2, *range(2000, 3000), 1), (3, *range(3000, 4000), 1, 2)]
    with schema_registry() as (registry, url):
        stream = Stream(tmp_path, url)
        for number in (1, 2, 3):
            registry.put(number, CLICK)
        task = Task(stream, known={2})
        first = [task.read(packet) for packet in packets]
        assert first[0][0] == first[1][0] == first[1][-1] == first[2][-2] == first[2][-1] == ("u1", None)
        assert first[0][100] == (None, "no schema 1099 in the registry")
        assert [first[0][101], first[1][1], first[2][0]] == [(None, NEVER_ASKED[1].format(n)) for n in (1100, 2000, 3)]
        assert sum(key is not None for read in first for key, _ in read) == 5
        assert len(registry.paths) == 1 + 1 + 100
        assert len(wrote) == 1, "before any message is rejected, and nothing is new then"
        assert len(wrote[0]) < 100 * len('"1000": "no schema 1000 in the registry", ') + 100
        assert json.loads(wrote[0])["allowed"] == [1, 2]
        assert first[2] == Task(stream, known={2}).read(packets[2]), "in any order, by the file alone"

        for number in range(1000, 4000):
            registry.put(number, CLICK)
        for again in Task(stream), Task(stream, decides=False), Task(stream, known={1, 2}):
            assert [again.read(packet) for packet in packets] == first, "if the registry has them all meanwhile, too"
        assert len(wrote) == 1

        schemas = SchemaSource(url, refusals=stream.refusals)
        samples = [click("u1", number) for number in (1, 2, 3, 1000, 3999)]
        restarted = schemas.decoder("user.id", samples).registry
        assert set(restarted.schemas) == {1, 2}, "a new driver fetches nothing that the batch refuses in a replay"
        stream.batch = 1
        assert Task(stream).read([3, 1000, 3999]) == [("u1", None)] * 3


def test_a_batch_goes_on_with_the_refusals_of_an_older_version(tmp_path):
    """It wrote down each number, and asked for none any more from the hundredth on."""
    with schema_registry() as (registry, url):
        stream = Stream(tmp_path, url)
        for number in (1, 1000, 1149):
            registry.put(number, CLICK)
        reasons = {number: f"no schema {number} in the registry" for number in range(1000, 1150)}
        Versions(str(tmp_path / "unskew" / "schemas" / "0")).write(0, json.dumps(reasons).encode())
        expected = [("u1", None), (None, reasons[1000]), (None, reasons[1149])]
        for decides in True, False:
            assert Task(stream, decides=decides).read([1, 1000, 1149]) == expected
        assert Task(stream).read([1, 2000, 2001]) == [
            ("u1", None),
            (None, "no schema 2000 in the registry"),
            (None, NEVER_ASKED[1].format(2001)),
        ]
        assert SchemaRefusals(str(tmp_path), lambda: 0).read(0).allowed == {1}


def test_an_error_of_a_schema_is_cut(tmp_path):
    with schema_registry() as (registry, url):
        stream = Stream(tmp_path, url)
        registry.put(1, {"type": "record", "fields": [{"name": "x" * 10**5, "type": "int"}]})
        _, reason = stream.read(1)
        assert reason.startswith('schema 1 is not to be read: "name" is a required field missing')
        assert len(reason) < 600


def test_what_is_counted_is_not_rejected_as_well(tmp_path):
    with schema_registry() as (registry, url):
        stream = Stream(tmp_path, url)
        registry.put(9, CLICK)
        assert stream.read(9) == stream.read(9, decides=False) == ("u1", None)
        registry.schemas.clear()
        with pytest.raises(EnvironmentFault, match="had a schema by which messages are routed: no schema 9"):
            stream.read(9, decides=False)


def test_a_registry_of_the_environment_is_for_avro_alone(monkeypatch, avsc):
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", "http://me:s3cret@registry:8081")
    assert SchemaSource().decoder("x", []).registry == SchemaRegistry.at("http://me:s3cret@registry:8081")
    assert SchemaSource(avsc).decoder("x", []).registry is None
    get_splitter("COUNTRY_SKEW_R80")
    with pytest.raises(UsageError, match="schema is for format avro, not json"):
        get_splitter("COLUMN", "x", "json", schemas=SchemaSource(avsc))


def test_a_schema_is_a_file_or_at_a_registry():
    with pytest.raises(UsageError, match=r"schema is 'host'; valid: a file, http://HOST:PORT, https://…"):
        SchemaSource("ftp://me:s3cret@host").decoder("x", [])
    with pytest.raises(UsageError, match="schema is host:8081, which is no Avro schema: "):
        SchemaSource("host:8081").decoder("x", [])


@pytest.mark.parametrize("text", ["", "{", '{"type": "recor"}'])
def test_what_is_no_schema_is_refused(tmp_path, text):
    (tmp_path / "x.avsc").write_text(text)
    with pytest.raises(UsageError, match=r"schema is .*x\.avsc, which is no Avro schema: "):
        read_schema_file(str(tmp_path / "x.avsc"))


@pytest.mark.nightly(group="groupings")
def test_a_topic_in_avro(settings, drain, connection, topic):
    with schema_registry() as (registry, url):
        registry.put(1, CLICK)
        registry.late[9] = CLICK, 2  # it isn't there for the driver and for the router, and then it is
        publish(connection, topic, 2, [*(click(f"u{i % 3}", 1) for i in range(60)), b"broken", click("u1", 9)])
        run = settings("PARTIAL_KEY", source_type="COLUMN", key_field="user.id", format="avro", schema=url)
        _, reports = drain(run)
    assert count_by_key(run) == {"u0": 20, "u1": 20, "u2": 20}
    assert reports[-1].totals.rejected == 2
    reasons = {value["reason"] for _, value in records(connection, f"{topic}-rejected")}
    assert reasons == {"no schema's number before it", "no schema 9 in the registry"}
