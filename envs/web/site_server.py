"""Run the web server of a task in the sandbox: a folder with the site's files, and the command that serves it."""

from collections.abc import Mapping
from dataclasses import dataclass

from ...sandbox import SandboxError, SandboxLease

FILES_TIMEOUT_S = 10.0
START_TIMEOUT_S = 30.0

STOP_SCRIPT = """
if [ -s "/tmp/$1.pid" ]; then
  served=$(cat "/tmp/$1.pid")
  kill -9 "-$served" 2>/dev/null
  for _ in $(seq 200); do kill -0 "-$served" 2>/dev/null || break; sleep 0.02; done
fi
rm -rf "$1" "/tmp/$1.pid"; mkdir -p "$1"
"""
"""Kills the folder's server with all its processes, waits until the port is free, and empties the folder."""
START_SCRIPT = """
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
"""Starts the command and waits until the port accepts connections; exits with 2 once the command has ended."""
SERVER_ENDED = 2


@dataclass(frozen=True, slots=True)
class SiteServer:
    """A site to serve: ``command`` runs in ``folder``, which holds ``files``, and listens on 127.0.0.1:``port``."""

    folder: str
    files: Mapping[str, bytes]
    """By path, ``folder`` included."""
    command: str
    port: int

    def start(self, sandbox: SandboxLease) -> None:
        """Replace the folder and its server in a sandbox, and wait until the new server listens.

        Raises:
            SandboxError: the server ended or does not listen; the message ends with its output.
        """
        sandbox.exec(["sh", "-c", STOP_SCRIPT, "sh", self.folder], timeout_s=FILES_TIMEOUT_S)
        sandbox.write(self.files, timeout_s=FILES_TIMEOUT_S)
        arguments = ["sh", self.folder, self.command, str(self.port)]
        result = sandbox.exec(["sh", "-c", START_SCRIPT, *arguments], timeout_s=START_TIMEOUT_S)
        if result.exit_code:
            output = (result.stdout + result.stderr).decode(errors="replace").strip()[-500:]
            ended = result.exit_code == SERVER_ENDED
            problem = "ended at once" if ended else f"is running but not listening on 127.0.0.1:{self.port}"
            raise SandboxError(f"the site's server {problem} (command: `{self.command}`): {output or 'no output'}")
