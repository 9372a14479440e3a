"""Run one command: start its process, feed and drain its three pipes, and detect why it must be killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import select
import signal
import time

from .files import WORKSPACE
from .streams import Hub

Pipes = tuple[int, int, int]
CHUNK_BYTES = 65536
SET_PIPE_SIZE = 1031
"""``F_SETPIPE_SZ``, which ``fcntl`` names from Python 3.10 on."""
PIPE_MIN_BYTES = 4096
NICENESS = 19
"""Of commands that run in a control group: its processes never keep the guest agent from the group's share of cpu."""


class ChildExitPipe:
    """A pipe that becomes readable when a child exits, so that one ``poll`` waits for pipes and exits together."""

    def __init__(self) -> None:
        self.reader, writer = os.pipe()
        for end in (self.reader, writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def clear(self) -> None:
        """Discard the notifications so far."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.reader, 4096)


def start(argv: list[str], env: dict[str, str], user: int | None, limits: dict[str, int]) -> tuple[int, Pipes]:
    """Fork the command and return its pid and the agent's ends of stdin, stdout and stderr.

    ``user`` is the uid and gid of the command (None: the agent's own). ``limits`` maps names of resource limits without
    ``RLIMIT_`` to values.

    Raises:
        OSError: the fork failed, usually because the sandbox is at its process limit.
    """
    pairs = [os.pipe() for _ in range(3)]
    ours, theirs = (pairs[0][1], pairs[1][0], pairs[2][0]), (pairs[0][0], pairs[1][1], pairs[2][1])
    try:
        child = os.fork()
    except OSError:
        for end in ours + theirs:
            os.close(end)
        raise
    if child == 0:
        try:
            become(theirs, argv, env, user, limits)
        except BaseException as error:  # noqa: BLE001 - written to the stderr of the command
            os.write(2, f"{argv[0]}: {error}\n".encode(errors="backslashreplace"))
        finally:
            os._exit(127)
    for end in theirs:
        os.close(end)
    for end in ours:
        os.set_blocking(end, False)
    return child, ours


def become(ends: Pipes, argv: list[str], env: dict[str, str], user: int | None, limits: dict[str, int]) -> None:
    """Turn the forked child into the command: connect its pipes, drop all rights and exec. Raises OSError."""
    os.setsid()
    for number, end in enumerate(ends):
        os.dup2(end, number)
    # Before the change of user: afterwards root owns this file and the write would fail silently.
    with contextlib.suppress(OSError):
        # os.open instead of open: every page touched between fork and exec is copied.
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(file, b"1000")
        os.close(file)
    if user is not None:
        os.nice(NICENESS)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o022)
    os.chdir(WORKSPACE)
    os.execvpe(argv[0], argv, env)  # noqa: S606


class CommandPipes:
    """The three pipes of a running command, the rest of its stdin, and its output so far."""

    def __init__(self, pipes: Pipes, stdin: bytes, max_output_bytes: int) -> None:
        self.stdin, self.stdout, self.stderr = pipes
        self.unsent = memoryview(stdin)
        self.max_output_bytes = max_output_bytes
        """Limit of stdout and of stderr each."""
        self.output = [b"", b""]
        """Stdout and stderr, set by ``close``."""
        self.buffers: dict[int, bytearray] = {self.stdout: bytearray(), self.stderr: bytearray()}
        self.open = set(pipes)
        self.output_limit_exceeded = False
        if not self.unsent:
            self.shut(self.stdin)

    def interests(self) -> list[tuple[int, int]]:
        """Return (descriptor, poll events) of every open pipe."""
        return [(end, select.POLLOUT if end == self.stdin else select.POLLIN) for end in self.open]

    def move(self, end: int) -> bool:
        """Write to or read from one pipe once; return whether the pipe is finished and closed."""
        try:
            if end == self.stdin:
                self.unsent = self.unsent[os.write(end, self.unsent[:CHUNK_BYTES]) :]
                done = not self.unsent
            else:
                chunk = os.read(end, CHUNK_BYTES)
                buffer = self.buffers[end]
                buffer += chunk[: self.max_output_bytes - len(buffer) + 1]
                if len(buffer) > self.max_output_bytes:
                    del buffer[self.max_output_bytes :]
                    self.output_limit_exceeded = True
                done = not chunk
        except BlockingIOError:
            return False
        except BrokenPipeError:
            done = True
        if done:
            self.shut(end)
        return done

    def drain(self) -> None:
        """Read everything that the output pipes hold now, without waiting for other processes that hold them open."""
        for end in (self.stdout, self.stderr):
            while end in self.open and not self.output_limit_exceeded and select.select([end], [], [], 0)[0]:
                self.move(end)

    def shut(self, end: int) -> None:
        """Close one pipe and shrink it.

        The pages of a pipe count for the agent's uid, which is that of the agents of all sandboxes, as long as a
        background process holds its other end.
        """
        self.open.discard(end)
        with contextlib.suppress(OSError):
            fcntl.fcntl(end, SET_PIPE_SIZE, PIPE_MIN_BYTES)
        os.close(end)

    def close(self) -> None:
        """Close every open pipe and set ``output``."""
        for end in list(self.open):
            self.shut(end)
        self.output = [bytes(self.buffers[self.stdout]), bytes(self.buffers[self.stderr])]


def attend(child: int, pipes: CommandPipes, exits: ChildExitPipe, hub: Hub, until: float) -> tuple[int, str]:
    """Feed and drain a command until it exits or must be killed; return its exit code and why it must be killed.

    The reason is ``timeout``, ``output_limit``, ``disconnected`` (the host closed the connection) or empty. With a
    reason, the exit code is the one of SIGKILL, unless the command exited by itself and left too much output in its
    pipes. ``until`` is a value of ``time.monotonic()``. Streams keep moving meanwhile.
    """
    killed = -int(signal.SIGKILL)
    poll = select.poll()
    poll.register(exits.reader, select.POLLIN)
    poll.register(hub, select.POLLIN)
    for end, interest in pipes.interests():
        poll.register(end, interest)
    while True:
        left = until - time.monotonic()
        for end, _ in poll.poll(max(0.0, left) * 1000):
            if end == exits.reader:
                exits.clear()
            elif end == hub.fileno():
                if not hub.pump():
                    return killed, "disconnected"
            elif pipes.move(end):
                poll.unregister(end)
        if pipes.output_limit_exceeded:
            return killed, "output_limit"
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            pipes.drain()
            return os.waitstatus_to_exitcode(status), "output_limit" if pipes.output_limit_exceeded else ""
        if left <= 0:
            return killed, "timeout"
