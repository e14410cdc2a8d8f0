"""A stand-in for a schema registry: the two requests of Confluent's protocol that reading needs, and basic auth."""

import base64
import json
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

from tests.http import Request, serving


class StandIn:
    """What it has: number → schema (JSON), (subject, version) → schema; and the paths and logins of its requests.

    ``first``: what it answers first, a code and a header each, before it does its work. ``late``: number → schema, and
    how often it is asked for that before the schema is there. ``refused``: number → the code that it answers to it.
    """

    def __init__(self, login=None):
        self.schemas, self.subjects, self.paths, self.login = {}, {}, [], login
        self.first, self.late, self.logins, self.refused = [], {}, [], {}

    def answer(self, path, authorization):
        self.paths.append(path)
        self.logins.append(authorization)
        if self.first:
            code, *header = self.first.pop(0)
            return code, {"error_code": code, "message": "not now"}, *header
        if self.login and authorization != f"Basic {base64.b64encode(self.login.encode()).decode()}":
            return 401, {"error_code": 401, "message": "Unauthorized"}
        parts = path.strip("/").split("/")
        if code := self.refused.get(int(parts[-1])):
            return code, {"error_code": code, "message": "not this one"}
        found = self.subjects.get((parts[1], parts[-1])) if parts[0] == "subjects" else self._schema(int(parts[-1]))
        return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})

    def put(self, number, schema, **more):
        self.schemas[number] = {"schema": json.dumps(schema), **more}

    def _schema(self, number):
        found = self.schemas.get(number)
        if number in self.late:
            schema, times = self.late.pop(number)
            if times > 1:
                self.late[number] = schema, times - 1
            else:
                self.put(number, schema)
        return found


@contextmanager
def schema_registry(login=None):
    """A running one, and its address without the login."""
    registry = StandIn(login)

    class Handler(Request):
        def do_GET(self):
            code, body, *header = registry.answer(self.path, self.headers["Authorization"])
            self.answer(code, json.dumps(body).encode(), *header)

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield registry, f"http://127.0.0.1:{server.server_port}"
