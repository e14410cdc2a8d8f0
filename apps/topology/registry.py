"""Avro schemas: of a file, or by number from a schema registry that speaks Confluent's protocol."""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeAlias
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from unskew.errors import EnvironmentFault, UsageError

#: A schema that fastavro has read.
Schema: TypeAlias = Any
_PATIENCE = 10.0  # s


class NoSchema(Exception):
    """There is no such Avro schema, and there won't be."""


@dataclass(frozen=True)
class Registry:
    """A schema registry.

    Parameters
    ----------
    url : str
        Where it is, without user and password.
    authorization : str
        The header that logs in; empty: none.
    schemas : mapping
        Number → schema, of those that are known.

    """

    url: str
    authorization: str = field(default="", repr=False)
    schemas: Mapping[int, Schema] = field(default_factory=dict, repr=False)

    @classmethod
    def at(cls, url: str) -> Self:
        """By its address, which may have ``user:password@`` in it.

        Raises
        ------
        UsageError
            It is no address of a server.

        """
        try:
            parts = urlsplit(url)
            host = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
        except ValueError:
            parts, host = urlsplit(""), None
        if parts.scheme not in ("http", "https") or not host:
            raise UsageError(f"--schema-registry is {_without_user(url)!r}; valid: http://HOST:PORT, https://…")
        login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        header = f"Basic {base64.b64encode(login.encode()).decode()}" if parts.username else ""
        return cls(urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", "")), header)

    def knowing(self, numbers: set[int]) -> Self:
        """The same with the schemas of these numbers, as far as there are any.

        Raises
        ------
        EnvironmentFault
            The registry doesn't answer.

        """
        found = dict(self.schemas)
        for number in sorted(numbers - found.keys()):
            try:
                found[number] = self.fetch(number)
            except NoSchema:
                continue  # who meets a message with it says so
        return replace(self, schemas=found)

    def fetch(self, number: int) -> Schema:
        """A schema.

        Raises
        ------
        NoSchema
            The registry has none of that number, or it isn't Avro's.
        EnvironmentFault
            The registry doesn't answer.

        """
        named: dict[str, Any] = {}
        return self._read(f"/schemas/ids/{number}", f"schema {number}", named)

    def _read(self, path: str, what: str, named: dict[str, Any]) -> Schema:
        from fastavro import parse_schema

        told = self._get(path, what)
        if (kind := told.get("schemaType", "AVRO")) != "AVRO":
            raise NoSchema(f"{what} is {kind}, not AVRO")
        for other in told.get("references", []):
            place = f"/subjects/{quote(other['subject'], safe='')}/versions/{other['version']}"
            self._read(place, f"{what}, which refers to {other['name']}", named)
        try:
            return parse_schema(json.loads(told["schema"]), named_schemas=named)
        except Exception as error:
            raise NoSchema(f"{what} is not to be read: {error}") from error

    def _get(self, path: str, what: str) -> dict[str, Any]:
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self.authorization:
            headers["Authorization"] = self.authorization
        try:
            with urllib.request.urlopen(  # noqa: S310  the scheme is checked
                urllib.request.Request(self.url + path, headers=headers),  # noqa: S310
                timeout=_PATIENCE,
            ) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise NoSchema(f"no {what} in the registry") from None
            raise EnvironmentFault(f"the schema registry {self.url} answers {error.code} to {path}") from None
        except (OSError, ValueError) as error:
            raise EnvironmentFault(f"the schema registry {self.url} doesn't answer: {error}") from None


def of_file(path: str) -> Schema:
    """The schema of an ``.avsc`` file.

    Raises
    ------
    UsageError
        There is none.

    """
    from fastavro import parse_schema

    try:
        return parse_schema(json.loads(Path(path).read_text()))
    except Exception as error:  # noqa: BLE001  as many kinds as a file can be wrong
        raise UsageError(f"--schema {path} is no Avro schema: {error or type(error).__name__}") from None


def _without_user(url: str) -> str:
    return url.rpartition("@")[2]
