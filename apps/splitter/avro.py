"""Avro: schemas from a file, or by number from a schema registry that speaks Confluent's protocol.

Messages are decoded in Python, as a whole, and their key is a field at any depth.

With a schema registry, each message begins with a zero byte and the number of its schema in four bytes. A schema is
fetched once. The driver fetches the schemas that samples of the topic name. A task that meets another schema fetches
it. If the registry doesn't have a schema, it is asked again in the next batch. Within a batch the first
answer holds (``SchemaRefusals``).
"""

import base64
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass
from uuid import UUID

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.folders import list_numbers as numbers_in
from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.checkpoint.versions import Versions
from unskew.apps.splitter.avro_limits import AvroSchema, MessageTooDeep
from unskew.apps.splitter.avro_logical_types import UndecodedValue, load_reader
from unskew.apps.splitter.json_fields import FRAME
from unskew.apps.splitter.splitter import Splitter, apply_to_column
from unskew.errors import EnvironmentFault, UsageError

if TYPE_CHECKING:
    from urllib3 import PoolManager

_PATIENCE = 10.0  # s; for each attempt
# Most missing schemas that are asked for, in a batch and a Kafka partition. A producer may name any number of them.
_LACKING = 100
_REASON = 500  # characters of fastavro's reason, which may have all of the schema in it
# A registry that is busy, or is being started anew, is asked again five times in half a minute. If it names a time, it
# is asked then, which may be half a minute each time. A login goes to no other server that a redirection names.
_ATTEMPTS: dict[str, Any] = {
    "total": 5,
    "redirect": 3,
    "status_forcelist": (429, 500, 502, 503, 504),
    "backoff_factor": 1.0,
    "backoff_max": 16,
    "retry_after_max": 30,
    "raise_on_status": False,
}


# Answers that are about all requests, besides those of a server at fault: no login, no proxy's login, too busy.
_ABOUT_ALL = (401, 407, 408, 429)
_NUMBERS = 1 << 31  # registries count in Java's int


class SchemaMissing(Exception):
    """The registry doesn't have such an Avro schema now."""


class _RegistryRefusal(EnvironmentFault):
    """The registry refuses a request: perhaps this one alone."""


@dataclass(frozen=True)
class SchemaRegistry:
    """A schema registry.

    Parameters
    ----------
    url : str
        The registry's address, without user and password.
    authorization : str
        The header that logs in. Empty: there is none.
    schemas : mapping
        Number → schema, for the known schemas.

    """

    url: str
    authorization: str = field(default="", repr=False)
    schemas: Mapping[int, AvroSchema] = field(default_factory=dict, repr=False)

    @classmethod
    def at(cls, url: str) -> Self:
        """The registry at an address, which may have ``user:password@`` in it.

        Raises
        ------
        UsageError
            The address isn't that of a server.

        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
        except ValueError:
            parts, host, port = urlsplit(""), "", ""
        if parts.scheme not in ("http", "https") or not host:
            raise UsageError(f"--schema-registry is {_strip_user(url)!r}; valid: http://HOST:PORT, https://…")
        login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        header = f"Basic {base64.b64encode(login.encode()).decode()}" if parts.username else ""
        host = f"[{host}]" if ":" in host else host  # urlsplit leaves the brackets of an IPv6 address out
        return cls(urlunsplit((parts.scheme, host + port, parts.path.rstrip("/"), "", "")), header)

    def with_schemas(self, numbers: set[int]) -> Self:
        """The same registry with the schemas of these numbers, if it has them.

        Raises
        ------
        EnvironmentFault
            The registry doesn't answer.

        """
        found = dict(self.schemas)
        for number in sorted(numbers - found.keys()):
            try:
                found[number] = self.fetch(number, found)
            except SchemaMissing:
                continue  # a task that reads a message with that number rejects it, and says why
        return replace(self, schemas=found)

    def fetch(self, number: int, known: Iterable[int] = ()) -> AvroSchema:
        """The schema of a number.

        Parameters
        ----------
        number : int
            The number.
        known : iterable of int
            The numbers of schemas that the registry has. If it refuses this one, it is asked for one of those, to see
            whether it refuses all.

        Raises
        ------
        SchemaMissing
            The registry has no schema of that number, or it isn't an Avro schema, or it refuses this schema alone.
        EnvironmentFault
            The registry doesn't answer, or refuses all.

        """
        if number >= _NUMBERS:
            raise SchemaMissing(f"no schema has the number {number}: it isn't below 2^31")
        named: dict[str, Any] = {}
        try:
            return self._read(f"/schemas/ids/{number}", f"schema {number}", named)
        except RecursionError:
            raise SchemaMissing(f"schema {number} has too long a chain of references") from None
        except _RegistryRefusal as refusal:
            other = next((each for each in known if each != number), 2 if number == 1 else 1)
            with suppress(SchemaMissing):
                self._get(f"/schemas/ids/{other}", f"schema {other}")
            raise SchemaMissing(str(refusal)) from None

    def _read(self, path: str, what: str, named: dict[str, Any]) -> AvroSchema:
        answer = self._get(path, what)
        try:
            kind = answer.get("schemaType", "AVRO")
            references = [(each["name"], each["subject"], each["version"]) for each in answer.get("references") or []]
        except (AttributeError, LookupError, TypeError) as error:
            raise SchemaMissing(f"{what} is not to be read: the answer is {str(answer)[:_REASON]}") from error
        if kind != "AVRO":
            raise SchemaMissing(f"{what} is {kind}, not AVRO")
        for name, subject, version in references:
            if name not in named:  # else others refer to it, too
                path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
                self._read(path, f"{what}, which refers to {name}", named)
        try:
            return AvroSchema.of(answer["schema"], named)
        except Exception as error:
            raise SchemaMissing(f"{what} is not to be read: {str(error)[:_REASON]}") from error

    def _get(self, path: str, what: str) -> dict[str, Any]:
        import urllib3

        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self.authorization:
            headers["Authorization"] = self.authorization
        retries = urllib3.Retry(**_ATTEMPTS)
        try:
            answer = _connect_registry(self.url).request(
                "GET", self.url + path, headers=headers, retries=retries, timeout=_PATIENCE
            )
            if answer.status == 200:
                return answer.json()
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            why = getattr(error, "reason", None) or error
            raise EnvironmentFault(f"the schema registry {self.url} doesn't answer: {why}") from None
        if answer.status == 404:
            raise SchemaMissing(f"no {what} in the registry")
        about_one = 400 <= answer.status < 500 and answer.status not in _ABOUT_ALL
        fault = _RegistryRefusal if about_one else EnvironmentFault
        raise fault(f"the schema registry {self.url} answers {answer.status} to {path}")


@cache
def _connect_registry(url: str) -> "PoolManager":
    """The connections of this process to a server, through the proxy that the environment names for it, if any."""
    import urllib3
    from urllib3.util import make_headers, parse_url

    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    if not proxy or proxy_bypass(parts.netloc):
        return urllib3.PoolManager()
    login = parse_url(proxy).auth
    return urllib3.ProxyManager(proxy, proxy_headers=make_headers(proxy_basic_auth=unquote(login)) if login else None)


@dataclass(frozen=True)
class SchemaRefusals:
    """The schemas that a stream's batches have to do without, and why: beside the checkpoint, by Kafka partition.

    A schema that the registry doesn't have now may be there a moment later. A message that is rejected for it must not
    be counted too, neither by the task's next attempt nor by a replay of the batch. Other tasks read the rejected
    messages, and must reject the same ones as the router's task. So that task writes down what it refuses before it
    rejects a message. All tasks that read these messages in this batch follow it.

    Parameters
    ----------
    where : str or Location
        The query's checkpoint location.
    batch : callable
        Returns the number of the batch that the calling task belongs to. None outside of a stream.

    """

    where: Where
    batch: Callable[[], int | None]

    def read(self, partition: int) -> "BatchRefusals":
        """What the calling task's batch refuses in a Kafka partition."""
        batch = self.batch()
        found = self._versions(partition).at(batch) if batch is not None else None
        return BatchRefusals.of(found) if found is not None else BatchRefusals()

    def write(self, partition: int, refused: "BatchRefusals") -> None:
        """Replace what the calling task's batch refuses in a Kafka partition."""
        batch = self.batch()
        if batch is not None:
            self._versions(partition).write(batch, refused.data())

    def newest(self) -> "ReplayRefusals":
        """What a replayed batch may refuse: what each partition's newest batch with refusals does."""
        planned, partitions = Checkpoint(self.where).newest_batch(), numbers_in(self._location().folder())
        found = [self._versions(partition).last(planned) for partition in partitions]
        return ReplayRefusals([BatchRefusals.of(each[1]) for each in found if each])

    def _versions(self, partition: int) -> Versions:
        return Versions(self._location().below(str(partition)))

    def _location(self) -> Location:
        return Location.of(self.where).below("unskew", "schemas")


@dataclass
class BatchRefusals:
    """What a batch refuses in a Kafka partition.

    With ``_LACKING`` reasons it is full: the registry isn't asked about further schemas. What the task knows at that
    moment stays allowed, and all else is refused. So the record doesn't grow with the numbers that producers name.

    Attributes
    ----------
    reasons : dict
        A schema's number → why it is refused.
    allowed : set of int, optional
        If it is full, the numbers of the schemas that the task knew at that moment. None: it isn't.

    """

    reasons: dict[int, str] = field(default_factory=dict)
    allowed: set[int] | None = None

    @classmethod
    def of(cls, data: bytes) -> Self:
        """What ``data`` returned. Older versions wrote any number of reasons, and never ``allowed``."""
        read = json.loads(data)
        allowed = read.pop("allowed", None)
        return cls({int(number): why for number, why in read.items()}, None if allowed is None else set(allowed))

    def data(self) -> bytes:
        """The JSON of a checkpoint: an object of number → why, and of ``allowed`` if it is full."""
        allowed = {} if self.allowed is None else {"allowed": sorted(self.allowed)}
        return json.dumps({**self.reasons, **allowed}).encode()

    def add(self, number: int, why: str, known: Callable[[], set[int]]) -> None:
        """Refuse one more. ``known`` returns the numbers of the schemas that the task knows."""
        self.reasons[number] = why
        if self.allowed is None and len(self.reasons) >= _LACKING:
            self.allowed = known()

    def why(self, number: int) -> str | None:
        """Why a schema is refused. None: it isn't, or the registry has to be asked."""
        if number in self.reasons or self.allowed is None or number in self.allowed:
            return self.reasons.get(number)
        return f"schema {number} wasn't asked for: the registry lacks {_LACKING} others of this batch"


@dataclass(frozen=True)
class ReplayRefusals:
    """What batches refuse that may be replayed."""

    batches: Sequence[BatchRefusals]

    def filter_allowed(self, numbers: set[int]) -> set[int]:
        """Those of the numbers that no batch refuses."""
        return {number for number in numbers if not any(batch.why(number) for batch in self.batches)}


def read_schema_file(path: str) -> AvroSchema:
    """The schema of an ``.avsc`` file.

    Raises
    ------
    UsageError
        The file isn't a schema.

    """
    try:
        return AvroSchema.of(Path(path).read_text())
    except Exception as error:  # noqa: BLE001  fastavro raises many kinds
        raise UsageError(f"--schema {path} is no Avro schema: {error or type(error).__name__}") from None


def _strip_user(url: str) -> str:
    return url.rpartition("@")[2]


_KEYS = (str, int, float, Decimal, UUID)  # bool is an int

#: (the registry's address, a schema's number) → the schema: for the life of a process, as a schema never changes.
_fetched: dict[tuple[str, int], AvroSchema] = {}


class MessageRejected(Exception):
    """Why a message has no key."""


@dataclass(frozen=True)
class AvroDecoder:
    """Reads the key of a message. Spark sends it to the tasks.

    Parameters
    ----------
    path : str
        The key's field. Dots lead to nested records.
    schema : AvroSchema, optional
        The schema of all messages. None: each message names its own.
    registry : SchemaRegistry, optional
        The registry of the schemas that messages name.

    """

    path: str
    schema: AvroSchema | None = field(default=None, repr=False)
    registry: SchemaRegistry | None = None

    def key(self, message: bytes | None, schema_of: Callable[[int], AvroSchema] | None = None) -> str:
        """The key of a message. ``schema_of`` returns the schema that it names. Default: the registry's.

        Raises
        ------
        MessageRejected
            The message has no key.
        EnvironmentFault
            The registry doesn't answer.

        """
        if message is None:
            raise MessageRejected("no value")
        schema, begin, name = self._written_by(message, schema_of)
        body = io.BytesIO(message)
        body.seek(begin)
        try:
            schema.check(message, begin)
            read = load_reader()(body, schema.parsed, None)
        except MessageTooDeep as error:
            raise MessageRejected(f"not to be decoded by {name}: {error}") from None
        except Exception as error:
            raise MessageRejected(f"not Avro by {name}") from error
        if body.tell() != len(message):
            raise MessageRejected(f"not Avro by {name}: it is longer")
        return self._field(read)

    def _written_by(self, message: bytes, schema_of: Callable[[int], AvroSchema] | None) -> tuple[AvroSchema, int, str]:
        """The schema of a message, where its body begins, and the schema's name."""
        if self.registry is None:
            if self.schema is None:
                raise UsageError("a decoder needs a schema or a registry")
            return self.schema, 0, "the schema"
        if len(message) < FRAME or message[0]:
            raise MessageRejected("no schema's number before it")
        number = int.from_bytes(message[1:FRAME], "big")
        schema = self.registry.schemas.get(number)
        if schema is None:
            schema = (schema_of or partial(SchemaRequests(self.registry).schema, 0))(number)
        return schema, FRAME, f"schema {number}"

    def _field(self, read: Any) -> str:
        for name in self.path.split("."):
            if not isinstance(read, dict) or name not in read:
                raise MessageRejected(f"no field {self.path!r}")
            read = read[name]
        if isinstance(read, UndecodedValue):
            try:
                read = read.decode()
            except ValueError as error:
                raise MessageRejected(f"field {self.path!r} {error}") from None
        if isinstance(read, bool):
            return str(read).lower()
        if not isinstance(read, _KEYS):
            kind = "null" if read is None else read.kind if isinstance(read, UndecodedValue) else type(read).__name__
            raise MessageRejected(f"field {self.path!r} is {kind}, which is no key")
        return str(read)

    def read(
        self, message: bytes | None, schema_of: Callable[[int], AvroSchema] | None = None
    ) -> tuple[str | None, str | None]:
        """(a message's key, None), or (None, the reason why it has no key)."""
        try:
            return self.key(message, schema_of), None
        except MessageRejected as error:
            return None, str(error)


class SchemaRequests:
    """A task's requests to the registry, for schemas that the driver hasn't fetched.

    Parameters
    ----------
    registry : SchemaRegistry
        The registry.
    refusals : SchemaRefusals, optional
        The stream's refusals. Without it, or outside of a stream, each answer stands alone.
    decides : bool
        Whether the task is a router's, which refuses what the registry doesn't have. Another task follows the router's
        task.

    """

    def __init__(
        self, registry: SchemaRegistry, refusals: SchemaRefusals | None = None, *, decides: bool = True
    ) -> None:
        self._registry = registry
        self._refusals = refusals if refusals is not None and refusals.batch() is not None else None
        self._decides = decides or self._refusals is None
        self._refused: dict[int, BatchRefusals] = {}
        self._unwritten: set[int] = set()

    def read(
        self, decoder: "AvroDecoder", messages: Iterable[tuple[int, bytes | None]]
    ) -> list[tuple[str | None, str | None]]:
        """What ``AvroDecoder.read`` says of each message of a Kafka partition.

        The schemas that these messages have to do without are written down once, before this returns.
        """
        found = [decoder.read(message, partial(self.schema, partition)) for partition, message in messages]
        for partition in self._unwritten:
            if self._refusals:
                self._refusals.write(partition, self._refused[partition])
        self._unwritten.clear()
        return found

    def schema(self, partition: int, number: int) -> AvroSchema:
        """The schema that a message of a Kafka partition names.

        Raises
        ------
        MessageRejected
            The batch has to do without it.
        EnvironmentFault
            The registry doesn't answer, or no longer has a schema by which messages were routed.

        """
        if partition not in self._refused:
            self._refused[partition] = self._refusals.read(partition) if self._refusals else BatchRefusals()
        refused = self._refused[partition]
        address = self._registry.url
        if refused.why(number) is None and (address, number) not in _fetched:
            try:
                _fetched[address, number] = self._registry.fetch(number, self._list_known())
            except SchemaMissing as error:
                if not self._decides:
                    raise EnvironmentFault(f"{address} had a schema by which messages are routed: {error}") from None
                refused.add(number, str(error), self._list_known)
                self._unwritten.add(partition)
        if why := refused.why(number):
            raise MessageRejected(why)
        return _fetched[address, number]

    def _list_known(self) -> set[int]:
        return {*self._registry.schemas, *(number for address, number in _fetched if address == self._registry.url)}


def make_avro_splitter(decoder: AvroDecoder, refusals: SchemaRefusals | None = None) -> Splitter:
    """The splitter of messages in Avro. They must have a column ``partition`` beside them."""

    def reading(batches: Iterator[pa.Array], *, decides: bool) -> Iterator[pa.Array]:
        asking = SchemaRequests(decoder.registry, refusals, decides=decides) if decoder.registry else None
        for rows in batches:
            partitions, values = map(pa.Array.to_pylist, rows.flatten())
            read = (
                asking.read(decoder, zip(partitions, values, strict=True)) if asking else [*map(decoder.read, values)]
            )
            columns = [pa.array([row[n] for row in read], pa.string()) for n in range(2)]
            yield pa.StructArray.from_arrays(columns, ["key", "reason"])

    # A function for each: the router's tasks call the one, those that read rejected messages again the other.
    def keys(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        yield from reading(batches, decides=True)

    def reasons(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        yield from reading(batches, decides=False)

    def column(function: Callable[[Iterator[pa.Array]], Iterator[pa.Array]], value: Column) -> Column:
        return apply_to_column(
            function, "key string, reason string", F.struct(F.col("partition"), value.alias("value"))
        )

    return Splitter(lambda value: column(keys, value)["key"], lambda value: column(reasons, value)["reason"])


def find_schema_numbers(samples: Sequence[bytes]) -> set[int]:
    """The numbers of the schemas that messages name."""
    return {int.from_bytes(m[1:FRAME], "big") for m in samples if len(m) >= FRAME and not m[0]}
