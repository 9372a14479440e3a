"""Serves one site on 127.0.0.1: ``SITE PORT DATABASE WORLD``. Prints ``ready PORT`` once it can be asked.

A line ``["DATABASE", "WORLD"]`` on standard input, as JSON, begins anew with another world, in milliseconds, and is
answered by ``ready`` too. Nothing of that can be reached through the site.
"""

import importlib
import json
import sys
import threading
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .requests import MAX_BODY, BadRequest
from .web import Site

SITES = ("shop", "tracker", "wiki")


class Handler(BaseHTTPRequestHandler):
    """Answers for ``site``, which is set on a subclass."""

    site: Site
    protocol_version = "HTTP/1.1"
    timeout = 60
    # Headers and body in one piece: sent apart, the second waits 40 ms for the first to be acknowledged.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """A page."""
        self._answer("")

    def do_POST(self) -> None:
        """A form."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and int(length) <= MAX_BODY):
            self.close_connection = True
            self._send(413, {}, "Too large.")
            return
        self._answer(self.rfile.read(int(length)).decode("ascii", "replace"))

    def _answer(self, body: str) -> None:
        try:
            status, headers, text = self.site.answer(self.command, self.path, body, self.headers.get("Cookie", ""))
        except BadRequest as error:
            status, headers, text = 400, {}, f"Not understood: {error}."
        except Exception:
            traceback.print_exc()
            status, headers, text = 500, {}, "This did not work."
        self._send(status, headers, text)

    def _send(self, status: int, headers: dict[str, str], text: str) -> None:
        content = text.encode("utf-8", "replace")
        # Neither the date nor the server's version: an answer is the same at any time.
        self.send_response_only(status)
        for name, value in {**headers, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


class Server(ThreadingHTTPServer):
    """A thread a connection; none of them outlives the process."""

    daemon_threads = True


def make_server(site: str, port: int) -> tuple[Server, Site]:
    """A server that listens, and its site, which is not open yet; port 0 is any free one.

    Raises:
        ValueError: no such site.
        OSError: the port is taken.
    """
    if site not in SITES:
        raise ValueError(f"unknown site {site!r}; choose from {', '.join(SITES)}")
    application: Site = importlib.import_module(f".{site}", __package__).site
    return Server(("127.0.0.1", port), type("SiteHandler", (Handler,), {"site": application})), application


def begin(site: Site, database: str, world: str) -> None:
    """Open the site with the world in a file.

    Raises:
        OSError, ValueError: the file cannot be read, or is no world.
        sqlite3.Error: the world does not fit, or the database is not fresh.
    """
    with open(world, encoding="utf-8") as file:
        site.open(database, json.load(file))


def main() -> None:
    """Serve until killed."""
    name, asked, database, world = sys.argv[1:]
    server, site = make_server(name, int(asked))
    port = server.server_address[1]
    with server:
        begin(site, database, world)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print("ready", port, flush=True)
        for line in sys.stdin:
            begin(site, *json.loads(line))
            print("ready", port, flush=True)
        threading.Event().wait()
