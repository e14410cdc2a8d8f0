"""A stand-in for a schema registry: the two requests of Confluent's protocol that reading needs, and basic auth."""

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class StandIn:
    """What it has: number → schema (JSON), (subject, version) → schema; and the paths and logins of its requests.

    ``first``: what it answers first, a code and a header each, before it does its work. ``late``: number → schema, and
    how often it is asked for that before the schema is there.
    """

    def __init__(self, login=None):
        self.schemas, self.subjects, self.paths, self.login = {}, {}, [], login
        self.first, self.late, self.logins = [], {}, []

    def answer(self, path, authorization):
        self.paths.append(path)
        self.logins.append(authorization)
        if self.first:
            code, *header = self.first.pop(0)
            return code, {"error_code": code, "message": "not now"}, *header
        if self.login and authorization != f"Basic {base64.b64encode(self.login.encode()).decode()}":
            return 401, {"error_code": 401, "message": "Unauthorized"}
        parts = path.strip("/").split("/")
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

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            code, body, *header = registry.answer(self.path, self.headers["Authorization"])
            sent = json.dumps(body).encode()
            self.send_response(code)
            for name, value in header:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
