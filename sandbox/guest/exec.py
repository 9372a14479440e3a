"""One command: its process, its three pipes, and when it must be ended."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import time

from .files import WORKSPACE

Pipes = tuple[int, int, int]
PIECE = 65536


class Wake:
    """A file that becomes readable when a child ends, so that one ``poll`` waits for everything."""

    def __init__(self) -> None:
        self.reader, writer = os.pipe()
        for end in (self.reader, writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def clear(self) -> None:
        """Forget what woke us."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.reader, 4096)


def start(argv: list[str], env: dict[str, str], user: int | None, limits: dict[str, int]) -> tuple[int, Pipes]:
    """Fork the command as ``user`` (None: this one) under ``limits``; its pid, and our ends of stdin, stdout, stderr.

    Raises:
        OSError: the payload's processes take up the limit on them.
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
        except BaseException as error:
            os.write(2, f"{argv[0]}: {error}\n".encode())
        os._exit(127)
    for end in theirs:
        os.close(end)
    for end in ours:
        os.set_blocking(end, False)
    return child, ours


def become(ends: Pipes, argv: list[str], env: dict[str, str], user: int | None, limits: dict[str, int]) -> None:
    """In the child: take the pipes, drop every right, and be the command."""
    os.setsid()
    for number, end in enumerate(ends):
        os.dup2(end, number)
    # Before the user changes: afterwards this file is root's, and the write fails silently.
    with contextlib.suppress(OSError):
        # Not ``open``: every page that is touched between fork and exec is copied.
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(file, b"1000")
        os.close(file)
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (most, most))
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o022)
    os.chdir(WORKSPACE)
    os.execvpe(argv[0], argv, env)  # noqa: S606


class Watched:
    """The three pipes of a running command: what is still to be fed, and what was printed."""

    def __init__(self, pipes: Pipes, stdin: bytes, cap: int) -> None:
        self.stdin, self.stdout, self.stderr = pipes
        self.left = memoryview(stdin)
        self.cap = cap
        self.kept = [b"", b""]
        self.parts: dict[int, bytearray] = {self.stdout: bytearray(), self.stderr: bytearray()}
        self.open = set(pipes)
        self.output_limit_exceeded = False
        if not self.left:
            self.shut(self.stdin)

    def interests(self) -> list[tuple[int, int]]:
        """What to poll for."""
        return [(end, select.POLLOUT if end == self.stdin else select.POLLIN) for end in self.open]

    def move(self, end: int) -> bool:
        """Feed or drain one pipe once; whether that was its end."""
        try:
            if end == self.stdin:
                self.left = self.left[os.write(end, self.left[:PIECE]) :]
                done = not self.left
            else:
                part = os.read(end, PIECE)
                kept = self.parts[end]
                kept += part[: self.cap - len(kept) + 1]
                if len(kept) > self.cap:
                    del kept[self.cap :]
                    self.output_limit_exceeded = True
                done = not part
        except BlockingIOError:
            return False
        except BrokenPipeError:
            done = True
        if done:
            self.shut(end)
        return done

    def drain(self) -> None:
        """Take what the pipes hold now, without waiting for whoever else may hold them."""
        for end in (self.stdout, self.stderr):
            while end in self.open and not self.output_limit_exceeded and select.select([end], [], [], 0)[0]:
                self.move(end)

    def shut(self, end: int) -> None:
        """Close one pipe."""
        self.open.discard(end)
        os.close(end)

    def close(self) -> None:
        """Close what is open; ``kept`` holds stdout and stderr."""
        for end in list(self.open):
            self.shut(end)
        self.kept = [bytes(self.parts[self.stdout]), bytes(self.parts[self.stderr])]


def attend(child: int, watch: Watched, wake: Wake, host: int, until: float) -> tuple[int, str]:
    """Feed and drain a command until it ends; its exit code (that of a kill where it is still to be killed), and why it
    must be: ``deadline``, ``flood``, ``gone`` (the host's end, ``host``, is closed), or nothing.
    """
    killed = -int(signal.SIGKILL)
    poll = select.poll()
    poll.register(wake.reader, select.POLLIN)
    poll.register(host, select.POLLIN | select.POLLRDHUP)
    for end, interest in watch.interests():
        poll.register(end, interest)
    while True:
        left = until - time.monotonic()
        for end, _ in poll.poll(max(0.0, left) * 1000):
            if end == wake.reader:
                wake.clear()
            elif end == host:
                return killed, "gone"
            elif watch.move(end):
                poll.unregister(end)
        if watch.output_limit_exceeded:
            return killed, "flood"
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            watch.drain()
            return os.waitstatus_to_exitcode(status), "flood" if watch.output_limit_exceeded else ""
        if left <= 0:
            return killed, "deadline"
