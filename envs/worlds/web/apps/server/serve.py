"""The HTTP server of one app."""

import importlib
import json
import socket
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .requests import MAX_BODY, BadRequest
from .web import Site

SITES = ("shop", "tracker", "wiki")


class Handler(BaseHTTPRequestHandler):
    """Answers HTTP requests with ``site``. A subclass sets ``site``."""

    site: Site
    protocol_version = "HTTP/1.1"
    timeout = 60
    # Send headers and body together: sent apart, the body waits 40 ms for the acknowledgment of the headers.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Answer with a page."""
        self._answer("")

    def do_POST(self) -> None:
        """Execute a form and answer."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and int(length) <= MAX_BODY):
            self.close_connection = True
            self._send(413, {}, "The request is too large.")
            return
        self._answer(self.rfile.read(int(length)).decode("ascii", "replace"))

    def _answer(self, body: str) -> None:
        try:
            status, headers, text = self.site.answer(self.command, self.path, body, self.headers.get("Cookie", ""))
        except BadRequest as error:
            status, headers, text = 400, {}, f"Bad request: {error}."
        except Exception:  # noqa: BLE001 - printed to the log of the server
            traceback.print_exc()
            status, headers, text = 500, {}, "Something went wrong."
        self._send(status, headers, text)

    def _send(self, status: int, headers: dict[str, str], text: str) -> None:
        content = text.encode("utf-8", "replace")
        # Omit the date and the server's version: the same request always gets the same response.
        self.send_response_only(status)
        for name, value in {**headers, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class Server(ThreadingHTTPServer):
    """A server of one app on a socket that listens, with one daemon thread per connection.

    Raises:
        ValueError: the site is unknown.
    """

    daemon_threads = True

    def __init__(self, listening: socket.socket, site: str) -> None:
        if site not in SITES:
            raise ValueError(f"unknown site {site!r}; choose from {', '.join(SITES)}")
        self.app: Site = importlib.import_module(f".{site}", __package__).site
        handler = type("SiteHandler", (Handler,), {"site": self.app})
        super().__init__(listening.getsockname(), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening


def serve(listening: socket.socket, site: str, database: str, world: str) -> None:
    """Serve the world in a file until killed."""
    with Server(listening, site) as server, open(world, encoding="utf-8") as file:
        server.app.open(database, json.load(file))
        print("ready", server.server_address[1], flush=True)
        server.serve_forever()
