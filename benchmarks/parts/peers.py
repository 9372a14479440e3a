"""Run BrowserGym for comparison: processes of ``peer_programs/browsergym_peer.py``, and a server of MiniWoB's pages.

Requires the virtual environment of ``tools/browsergym.sh``.
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

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-browsergym" / "bin" / "python"
PROGRAM = "/usr/bin/chromium-headless-shell"
START_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 120.0


class Peer:
    """The blocking client of one BrowserGym environment in a separate process."""

    def __init__(self, url: str, *options: str) -> None:
        """Start the process; ``url`` comes from ``pages``. Raises SystemExit if BrowserGym is not installed."""
        if not PYTHON.exists():
            raise SystemExit("BrowserGym is not installed: run `bash tools/browsergym.sh` first")
        script = Path(__file__).with_name("peer_programs") / "browsergym_peer.py"
        self.process = subprocess.Popen(
            [PYTHON, script, "--program", PROGRAM, "--url", url, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        )

    def reset(self, task: str, seed: int) -> dict[str, Any]:
        """Start an episode; return ``goal``, ``nodes``, ``pixels`` and ``seconds``."""
        return self._request({"reset": task, "seed": seed})

    def step(self, action: str) -> dict[str, Any]:
        """Execute an action; return ``nodes``, ``pixels``, ``seconds``, ``reward``, ``over`` and ``error``."""
        return self._request({"step": action})

    def close(self) -> None:
        """End the process."""
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

    def _request(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], ANSWER_TIMEOUT_S)[0]:
            self.process.kill()
            raise SystemExit(f"BrowserGym did not answer within {ANSWER_TIMEOUT_S:g} s: {message}")
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"BrowserGym exited with status {self.process.wait(10)} at {message}")
        response: dict[str, Any] = json.loads(line)
        return response


@contextlib.contextmanager
def pages() -> Iterator[str]:
    """Serve MiniWoB's pages on this machine and yield their address."""
    (folder,) = PYTHON.parents[1].glob("lib/python*/site-packages/miniwob/html")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command: Sequence[str] = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    server = subprocess.Popen([*command, "--directory", folder], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise SystemExit(f"the page server did not start within {START_TIMEOUT_S:g} s") from None
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/miniwob/"
    finally:
        server.terminate()
        server.wait(10)
