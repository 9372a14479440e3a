"""Run the web server of a task in the sandbox: a folder with the site's files, and the command that serves it.

Server, files and database belong to a user of the sandbox that neither the browser nor the driver runs as.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ...sandbox import SandboxError, SandboxLease

FILES_TIMEOUT_S = 10.0
START_TIMEOUT_S = 30.0

ROOT = "/tmp/site"  # noqa: S108 - a path in the sandbox
"""The private folder of the server's user; ``files`` in it is the site's folder."""
FILES = f"{ROOT}/files"
STOP_SCRIPT = """
if [ -s pid ]; then
  served=$(cat pid)
  kill -9 "-$served" 2>/dev/null
  for _ in $(seq 200); do kill -0 "-$served" 2>/dev/null || break; sleep 0.02; done
fi
rm -rf files pid && mkdir files
"""
"""Kills the server with all its processes, waits until the port is free, and empties the site's folder."""
START_SCRIPT = """
cd files || exit 1
setsid sh -c 'echo $$ > ../pid; exec sh -c "$1"' sh "$1" </dev/null >../log 2>&1 &
status=1
while [ $SECONDS -lt 15 ]; do
  (exec 3<>"/dev/tcp/127.0.0.1/$2") 2>/dev/null && exit
  read -r process 2>/dev/null <"/proc/$!/stat" && [[ $process != *") Z "* ]] || { status=2; break; }
  sleep 0.01
done
cat ../log
exit $status
"""
"""A script of bash that starts the command and exits with 0 once the port accepts connections, with 2 once the command
has ended, and with 1 after a timeout. Bash connects by itself, which costs less than another program.
"""
SERVER_ENDED = 2


@dataclass(frozen=True, slots=True)
class SiteServer:
    """A site to serve: ``command`` runs in the site's folder and listens on 127.0.0.1:``port``."""

    files: Mapping[str, bytes]
    """By path in the site's folder."""
    command: str
    port: int

    def start(self, sandbox: SandboxLease, user: int) -> None:
        """Replace the site and its server, which run as ``user``, and wait until the new server listens.

        Raises:
            SandboxError: the server ended or does not listen; the message ends with its output.
        """
        stopping = f"umask 077; mkdir -p {ROOT} && cd {ROOT} || exit 1{STOP_SCRIPT}"
        stopped = sandbox.exec(["sh", "-c", stopping], timeout_s=FILES_TIMEOUT_S, user=user)
        if stopped.exit_code:
            reason = stopped.stderr.decode(errors="replace").strip()[-500:]
            raise SandboxError(f"the previous site could not be removed: {reason}")
        files = {f"{FILES}/{path}": content for path, content in self.files.items()}
        sandbox.write(files, timeout_s=FILES_TIMEOUT_S, user=user)
        script = f"cd {ROOT} || exit 1{START_SCRIPT}"
        starting = ["bash", "-c", script, "bash", self.command, str(self.port)]
        result = sandbox.exec(starting, timeout_s=START_TIMEOUT_S, user=user)
        if result.exit_code:
            output = (result.stdout + result.stderr).decode(errors="replace").strip()[-500:]
            ended = result.exit_code == SERVER_ENDED
            problem = "ended at once" if ended else f"is running but not listening on 127.0.0.1:{self.port}"
            raise SandboxError(f"the site's server {problem} (command: `{self.command}`): {output or 'no output'}")
