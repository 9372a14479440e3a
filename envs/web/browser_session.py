"""The browser in a sandbox, as the environment uses it: steps in, what there is to see out. Blocks.

One sandbox serves many episodes: each gets a browser context of its own, which takes a tenth of the time of a sandbox.
What an episode itself can cost is its page, or its browser; both are replaced, and the episode goes on or is judged. A
sandbox that ends, and a browser that does not come back, are the world's failure, unless the memory that pages took is
to blame, or how much they said.
"""

import contextlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from ...sandbox import FileError, SandboxError, SandboxLease, SandboxLost, SandboxSpec, lease
from . import driver

SPEC = SandboxSpec(image="web", memory_mib=1024, cpus=2.0, pids=512, disk_mib=64, read_mib=64, output_kib=8192)
SOCKET = "/tmp/browser"  # noqa: S108 - the sandbox's own
DRIVER = f"import sys; sys.path[:0] = ['/opt/browser', '/workspace']; from driver.server import main; main('{SOCKET}')"
LEASE_SECONDS = 15.0
START_SECONDS = 30.0
OPEN_SECONDS = 15.0
STARTING = threading.BoundedSemaphore(os.cpu_count() or 1)
"""Browsers that start at once in this process: more of them, and none is up in time."""
TURN_SECONDS = 60.0
"""How long one may wait for its turn to start."""
STEP_SECONDS = 10.0
"""What one action and the look at what came of it may take before the page is given up."""
SLACK_SECONDS = 15.0
"""Beyond it, in which the driver gives the page up and starts another browser if it must."""
HOLDS = 1800.0
"""How long a sandbox is kept for one episode after another."""

STOP = """
if [ -s "/tmp/$1.pid" ]; then
  served=$(cat "/tmp/$1.pid")
  kill -9 "-$served" 2>/dev/null
  for _ in $(seq 200); do kill -0 "-$served" 2>/dev/null || break; sleep 0.02; done
fi
rm -rf "$1" "/tmp/$1.pid"; mkdir -p "$1"
"""
"""Ends what serves a folder, with all that it started, waits until it has let its port go, and empties the folder."""
SERVE = """
cd "$1" || exit 1
setsid sh -c 'echo $$ > "$1"; exec sh -c "$2"' sh "/tmp/$1.pid" "$2" </dev/null >"/tmp/$1.log" 2>&1 &
for _ in $(seq 200); do
  if python3 -I -S -c "import socket; socket.create_connection(('127.0.0.1', $3), 1)" 2>/dev/null; then exit 0; fi
  if [ -s "/tmp/$1.pid" ] && ! grep -q "^State:[^Z]*$" "/proc/$(cat "/tmp/$1.pid")/status" 2>/dev/null; then
    cat "/tmp/$1.log"; exit 2
  fi
  sleep 0.05
done
cat "/tmp/$1.log"
exit 1
"""

Steps = Sequence[Mapping[str, Any]]


class Browser:
    """Not of several threads. ``servers`` are commands left running beside the browser."""

    def __init__(self, servers: Sequence[str] = ()) -> None:
        self.servers = servers
        self.box: SandboxLease | None = None
        self._since = 0.0
        self._served: tuple[str, Mapping[str, bytes], str, int] | None = None

    def open(self, steps: Steps) -> tuple[dict[str, Any], bytes]:
        """Begin an episode: in the sandbox there is, or in a new one if that fails.

        Raises:
            SandboxError: not in a new one either.
        """
        if self.box is not None and monotonic() - self._since < HOLDS / 2:
            with contextlib.suppress(SandboxLost):
                answer, shot = self._do(steps, OPEN_SECONDS)
                if "lost" not in answer:
                    return answer, shot
        self._renew()
        answer, shot = self._do(steps, OPEN_SECONDS)
        if "lost" in answer:
            raise SandboxError(f"the browser shows nothing in a new sandbox: {answer['lost']}")
        return answer, shot

    def do(self, steps: Steps) -> tuple[dict[str, Any], bytes]:
        """Go on with an episode; ``lost`` in the answer says that its page is gone, and ``broken`` that the browser is.

        Raises:
            SandboxError: the world failed.
        """
        return self._do(steps, STEP_SECONDS)

    def serve(self, folder: str, files: Mapping[str, bytes], command: str, port: int) -> None:
        """Start ``command`` in ``folder``, which holds ``files`` and nothing else, and wait until it listens; what was
        served before is ended. In a new sandbox if that is not to be had in this one.

        Raises:
            SandboxError: the server does not come up.
        """
        self._served = (folder, files, command, port)
        if self.box is None or monotonic() - self._since > HOLDS / 2:
            self._renew()
            return
        try:
            self._serve(self.box, *self._served)
        except SandboxLost:
            self._renew()

    def left(self, folder: str) -> dict[str, bytes] | None:
        """What lies in a folder of the sandbox now; None where it cannot be read, or the browser is gone.

        Raises:
            SandboxError: the world failed.
        """
        if self.box is None:
            return None
        try:
            return self.box.read(folder, timeout_s=STEP_SECONDS)
        except FileError:
            return None

    def _serve(self, box: SandboxLease, folder: str, files: Mapping[str, bytes], command: str, port: int) -> None:
        box.exec(["sh", "-c", STOP, "sh", folder], timeout_s=STEP_SECONDS)
        box.write(files, timeout_s=STEP_SECONDS)
        done = box.exec(["sh", "-c", SERVE, "sh", folder, command, str(port)], timeout_s=START_SECONDS)
        if done.exit_code:
            said = (done.stdout + done.stderr).decode(errors="replace").strip()[-500:]
            how = {2: "ended at once"}.get(done.exit_code, f"runs, but nothing listens on 127.0.0.1:{port}")
            raise SandboxError(f"what serves the site {how}: {command}" + (f": {said}" if said else ""))

    def close(self) -> None:
        """Give the sandbox back."""
        box, self.box = self.box, None
        if box is not None:
            box.release()

    def _do(self, steps: Steps, timeout_s: float) -> tuple[dict[str, Any], bytes]:
        if self.box is None:
            return {"lost": "the browser is closed", "broken": "closed"}, b""
        message = json.dumps({"steps": list(steps), "deadline": timeout_s}).encode()
        try:
            done = self.box.request(SOCKET, message, timeout_s=2 * timeout_s + SLACK_SECONDS)
        except SandboxError:
            self.close()
            raise
        head, _, shot = done.stdout.partition(b"\n")
        try:
            answer = json.loads(head)
        except ValueError:
            why = (
                "did not answer in time"
                if done.timed_out
                else "said too much"
                if done.output_limit_exceeded
                else "ended"
            )
            answer = {"lost": f"the browser {why}", "broken": why}
        if "broken" in answer:
            self.close()
            if not (done.oom or done.output_limit_exceeded):
                raise SandboxLost(f"the browser does not come back: {answer['broken']}")
        return answer, shot

    def _renew(self) -> None:
        self.close()
        if not STARTING.acquire(timeout=TURN_SECONDS):
            raise SandboxError(f"other browsers were starting for {TURN_SECONDS:g} s, and this one had to wait")
        try:
            self._start()
        finally:
            STARTING.release()

    def _start(self) -> None:
        box = lease(SPEC, timeout_s=LEASE_SECONDS, max_duration_s=HOLDS)
        try:
            program = {f"driver/{file.name}": file.read_bytes() for file in Path(driver.__file__).parent.glob("*.py")}
            box.write(program, timeout_s=STEP_SECONDS)
            started = [f'python3 -I -c "{DRIVER}"', *self.servers]
            script = "\n".join(f"{one} >{number}.log 2>&1 </dev/null &" for number, one in enumerate(started))
            box.exec(["sh", "-c", script], timeout_s=STEP_SECONDS)
            until = monotonic() + START_SECONDS
            while box.request(SOCKET, b'{"steps": [], "deadline": 5}', timeout_s=5).exit_code:
                if monotonic() > until:
                    said = box.read(".", timeout_s=STEP_SECONDS).get("0.log", b"").decode(errors="replace")
                    raise SandboxError(f"the browser did not start within {START_SECONDS:g} s: {said.strip()[-500:]}")
                sleep(0.02)
            if self._served is not None:
                self._serve(box, *self._served)
        except BaseException:
            box.release()
            raise
        self.box, self._since = box, monotonic()
