"""An OpenAI-compatible HTTP server that records requests and connections; it replaces a model to check the client."""

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Counter:
    """Counts requests in flight, all requests, and connections, and keeps the bodies of the requests.

    ``content`` is the text of every answer, or makes it from the number of the request, from 0. A request is answered
    once its wave of ``together`` requests has arrived, or after ``patience_s``.
    """

    def __init__(self, content: str | Callable[[int], str], together: int = 1, patience_s: float = 0.0) -> None:
        self.content = content
        self.bodies: list[dict[str, Any]] = []
        self.together = together
        self.patience_s = patience_s
        self.changed = threading.Condition()
        self.in_flight = self.most = self.arrived = self.connections = 0
        self.requested: set[tuple[str, str | None]] = set()
        """The paths of all requests, each with its ``Authorization``."""
        self.headers: set[str] = set()
        """The names of their headers."""

    def handle(self, body: dict[str, Any]) -> bytes:
        """Count a request, wait for its wave, and return the body of the response."""
        with self.changed:
            self.bodies.append(body)
            content = self.content if isinstance(self.content, str) else self.content(self.arrived)
            self.arrived += 1
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
            wave = self.together * -(-self.arrived // self.together)
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.arrived >= wave, self.patience_s)
            self.in_flight -= 1
        return json.dumps({"choices": [{"message": {"content": content}}]}).encode()


@contextmanager
def serving(counter: Counter) -> Iterator[str]:
    """Run a server and yield its base URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            with counter.changed:
                counter.connections += 1
            super().setup()

        def do_POST(self) -> None:
            counter.requested.add((self.path, self.headers["Authorization"]))
            counter.headers |= {name.lower() for name in self.headers}
            answer = counter.handle(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


Response = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""


@contextmanager
def scripted(respond: Callable[[int, dict[str, Any]], Response]) -> Iterator[str]:
    """Run a server whose responses ``respond`` makes from the number of the request and its body; yield its base URL.

    A status of 0 closes the connection without a response.
    """
    count = itertools.count()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, headers, content = respond(next(count), body)
            if not status:
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
