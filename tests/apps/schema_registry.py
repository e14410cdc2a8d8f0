"""A stand-in for a schema registry: the two requests of Confluent's protocol that reading needs, and basic auth."""

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class StandIn:
    """What it has: number → schema (JSON), (subject, version) → schema; and the paths that it was ``asked`` for."""

    def __init__(self, login=None):
        self.schemas, self.subjects, self.asked, self.login = {}, {}, [], login
        self.down = False

    def answer(self, path, authorization):
        self.asked.append(path)
        if self.down:
            return 503, {"error_code": 503, "message": "down"}
        if self.login and authorization != f"Basic {base64.b64encode(self.login.encode()).decode()}":
            return 401, {"error_code": 401, "message": "Unauthorized"}
        parts = path.strip("/").split("/")
        found = self.subjects.get((parts[1], parts[-1])) if parts[0] == "subjects" else self.schemas.get(int(parts[-1]))
        return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})

    def put(self, number, schema, **more):
        self.schemas[number] = {"schema": json.dumps(schema), **more}


@contextmanager
def schema_registry(login=None):
    """A running one, and its address without the login."""
    registry = StandIn(login)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            code, body = registry.answer(self.path, self.headers["Authorization"])
            sent = json.dumps(body).encode()
            self.send_response(code)
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
