"""BrowserGym beside us: processes of ``browsergym_peer.py``, and MiniWoB's pages served to them.

Wants what ``tools/browsergym.sh`` makes.
"""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-browsergym" / "bin" / "python"
PROGRAM = "/usr/bin/chromium-headless-shell"
START_SECONDS = 30.0
ANSWER_SECONDS = 120.0


class Peer:
    """One environment of BrowserGym in a process of its own. Blocks."""

    def __init__(self, url: str, *options: str) -> None:
        """``url`` is what ``pages`` gives. Raises SystemExit where BrowserGym is not installed."""
        if not PYTHON.exists():
            raise SystemExit("BrowserGym is not here: run `bash tools/browsergym.sh` first")
        script = Path(__file__).with_name("browsergym_peer.py")
        self.process = subprocess.Popen(
            [PYTHON, script, "--program", PROGRAM, "--url", url, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        )

    def reset(self, task: str, seed: int) -> dict[str, Any]:
        """``goal``, ``nodes``, ``pixels``, ``seconds``."""
        return self._ask({"reset": task, "seed": seed})

    def step(self, action: str) -> dict[str, Any]:
        """The same, and ``reward``, ``over``, ``error``."""
        return self._ask({"step": action})

    def close(self) -> None:
        """End it."""
        assert self.process.stdin
        assert self.process.stdout
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        self.process.stdout.close()

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], ANSWER_SECONDS)[0]:
            self.process.kill()
            raise SystemExit(f"BrowserGym did not answer within {ANSWER_SECONDS:g} s: {message}")
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"BrowserGym ended with {self.process.wait(10)} at {message}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextlib.contextmanager
def pages() -> Iterator[str]:
    """The address of MiniWoB's pages, served on this machine as long as it lasts."""
    (folder,) = PYTHON.parents[1].glob("lib/python*/site-packages/miniwob/html")
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    command: Sequence[str] = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    server = subprocess.Popen([*command, "--directory", folder], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > until:
                    raise SystemExit(f"the pages were not served within {START_SECONDS:g} s") from None
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/miniwob/"
    finally:
        server.terminate()
        server.wait(10)
