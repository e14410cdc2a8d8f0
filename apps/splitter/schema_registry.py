"""Avro's schemas by number, from a schema registry that speaks Confluent's protocol.

Each message begins with a zero byte and the number of its schema in four bytes.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from unskew.apps.splitter.avro_limits import AvroSchema
from unskew.apps.splitter.json_fields import FRAME
from unskew.errors import EnvironmentFault, UsageError

if TYPE_CHECKING:
    from urllib3 import PoolManager

_PATIENCE = 10.0  # s; for each attempt
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
    """A schema registry: its address without user and password, the header that logs in (empty: none), and the schemas
    that are known, by number.
    """

    url: str
    authorization: str = field(default="", repr=False)
    schemas: Mapping[int, AvroSchema] = field(default_factory=dict, repr=False)

    @classmethod
    def at(cls, url: str) -> Self:
        """The registry at an address, which may have ``user:password@`` in it.

        Raises ``UsageError`` if the address isn't that of a server.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
        except ValueError:
            parts, host, port = urlsplit(""), "", ""
        if parts.scheme not in ("http", "https") or not host:
            raise UsageError(f"schema is {_strip_user(url)!r}; valid: a file, http://HOST:PORT, https://…")
        login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        header = f"Basic {base64.b64encode(login.encode()).decode()}" if parts.username else ""
        host = f"[{host}]" if ":" in host else host  # urlsplit leaves the brackets of an IPv6 address out
        return cls(urlunsplit((parts.scheme, host + port, parts.path.rstrip("/"), "", "")), header)

    def with_schemas(self, numbers: set[int]) -> Self:
        """The same registry with the schemas of these numbers, if it has them.

        Raises ``EnvironmentFault`` if the registry doesn't answer.
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

        If the registry refuses it, the registry is asked for one of the ``known`` schemas, to see whether it refuses
        all. Raises ``SchemaMissing`` if it has no schema of that number, or it isn't an Avro schema, or it refuses this
        one alone; ``EnvironmentFault`` if it doesn't answer, or refuses all.
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


def _strip_user(url: str) -> str:
    return url.rpartition("@")[2]


def find_schema_numbers(samples: Sequence[bytes]) -> set[int]:
    """The numbers of the schemas that messages name."""
    return {int.from_bytes(m[1:FRAME], "big") for m in samples if len(m) >= FRAME and not m[0]}
