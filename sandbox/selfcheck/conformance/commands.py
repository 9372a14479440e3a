"""Conformance: the inputs of a command arrive unchanged, and its result is complete."""

import asyncio
import os

from ...errors import SandboxLost
from ...sandbox import WORKSPACE, Sandbox
from ..harness import Cases, MakeSandbox, expect, raises, sh

TEXT = "é 日本 \U0001f600"
BYTES = bytes(range(256)) * 8
LARGE = 4 << 20

CASES = Cases()


@CASES.add("exit code")
async def exit_code(sandbox: Sandbox) -> str:
    """The exit status of a command is returned unchanged."""
    for code in (0, 1, 3, 126, 255):
        done = await sandbox.exec(["sh", "-c", f"exit {code}"], timeout_s=10)
        expect(done.exit_code == code, f"exit {code} was returned as {done.exit_code}")
        expect(not (done.timed_out or done.output_limit_exceeded or done.oom), f"exit {code} has the flag of a kill")
    return "0, 1, 3, 126, 255"


@CASES.add("signal")
async def signals(sandbox: Sandbox) -> str:
    """The exit code of a command that a signal ended is the negative signal number."""
    for name, number in (("TERM", 15), ("KILL", 9), ("SEGV", 11), ("PIPE", 13), ("INT", 2), ("XFSZ", 25)):
        done = await sandbox.exec(["sh", "-c", f"kill -{name} $$"], timeout_s=10)
        expect(done.exit_code == -number, f"SIG{name} was returned as {done.exit_code}")
    return "TERM, KILL, SEGV, PIPE, INT, XFSZ"


@CASES.add("stdin")
async def standard_input(sandbox: Sandbox) -> str:
    """Standard input arrives completely and then ends; empty input ends at once."""
    expect(await sh(sandbox, "cat", stdin=TEXT.encode()) == TEXT, "standard input did not arrive")
    expect(await sh(sandbox, "cat; echo end") == "end", "empty standard input does not end")
    return "arrives and ends"


@CASES.add("large stdin")
async def large_input(sandbox: Sandbox) -> str:
    """Megabytes of standard input arrive, even if the command reads only part of them."""
    given = os.urandom(1024) * (LARGE // 1024)
    expect(await sh(sandbox, "wc -c", stdin=given) == str(LARGE), "part of standard input did not arrive")
    await sh(sandbox, "true", stdin=given)
    await sh(sandbox, "head -c 10 >/dev/null", stdin=given)
    await sh(sandbox, "exec 0<&-; sleep 0.05", stdin=given)
    return f"{LARGE >> 20} MiB: read, ignored, partly read"


@CASES.add("stdout and stderr")
async def two_outputs(sandbox: Sandbox) -> str:
    """Standard output and standard error are returned separately."""
    done = await sandbox.exec(["sh", "-c", "echo one; echo two >&2; echo three"], timeout_s=10)
    expect((done.stdout, done.stderr) == (b"one\nthree\n", b"two\n"), f"{done.stdout!r} and {done.stderr!r}")
    return "separate, in order"


async def environment(make: MakeSandbox) -> str:
    """The environment of a command has the given and a few fixed variables, and none of the host."""
    sandbox = await make()
    os.environ["TURNWISE_CANARY"] = "canary"
    try:
        other = await make(pids=63)
        seen = [
            dict(line.partition("=")[::2] for line in (await sh(one, "env", env={"GIVEN": TEXT})).splitlines())
            for one in (sandbox, other)
        ]
        found = await sh(other, "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; true")
    finally:
        del os.environ["TURNWISE_CANARY"]
    expect(all(names["GIVEN"] == TEXT for names in seen), "a given variable did not arrive")
    fixed = {"PATH", "HOME", "LANG", "TERM", "PYTHONDONTWRITEBYTECODE", "GIVEN", "PWD", "OLDPWD", "SHLVL", "_"}
    expect(set(seen[1]) <= fixed, f"additional variables: {', '.join(sorted(set(seen[1]) - fixed))}")
    expect("canary" not in found, "a variable of the host is in the environment of a process")
    return f"{len(seen[1])} variables"


CASES["environment"] = environment


@CASES.add("odd arguments")
async def odd_arguments(sandbox: Sandbox) -> str:
    """Arguments arrive unchanged, including quotes, newlines and empty ones."""
    given = ["", " ", TEXT, "a\nb", "'\"$(id)`;", "-n", "*", "x" * 50_000]
    program = "import sys; sys.stdout.buffer.write('\\1'.join(sys.argv[1:]).encode())"
    done = await sandbox.exec(["python3", "-c", program, *given], timeout_s=10)
    expect(done.stdout.decode() == "\1".join(given), "an argument was changed")
    done = await sandbox.exec(["sh", "-c", f"echo {TEXT}"], timeout_s=10)
    expect(done.stdout.decode() == f"{TEXT}\n", "UTF-8 in a script was changed")
    return f"{len(given)} arguments"


@CASES.add("binary")
async def binary(sandbox: Sandbox) -> str:
    """Every byte value passes through standard input and output."""
    done = await sandbox.exec(["cat"], stdin=BYTES, timeout_s=10)
    expect(done.stdout == BYTES, "bytes were changed")
    return f"{len(BYTES)} bytes"


@CASES.add("cannot start")
async def cannot_start(sandbox: Sandbox) -> str:
    """A command that cannot be started has exit code 127 and an explanation on stderr; the sandbox stays usable."""
    await sh(sandbox, "echo text > plain")
    for argv in (
        ["no-such-command"],
        ["/no/such"],
        ["./plain"],
        ["/workspace"],
        ["true", "x" * (1 << 18)],
        ["a\0b"],
        ["\udcff"],
        ["\ud800"],
    ):
        done = await sandbox.exec(argv, timeout_s=10)
        expect(done.exit_code == 127, f"{argv[0]!r} was returned as {done.exit_code}")
        expect(bool(done.stderr), f"{argv[0]!r}: no explanation")
    await sh(sandbox, "true")
    return "missing, not executable, a folder, too long, invalid name"


@CASES.add("working directory")
async def working_directory(sandbox: Sandbox) -> str:
    """Commands start in the working directory, which their user owns; the user is not root."""
    expect(await sh(sandbox, "pwd") == WORKSPACE, "commands start in another folder")
    await sh(sandbox, "touch mine && mkdir -p a/b && test -O mine")
    user = await sh(sandbox, "id -u")
    expect(user != "0", "commands run as root")
    await sh(sandbox, "touch /tmp/mine && test -w $HOME")
    return f"{WORKSPACE}, user {user}"


@CASES.add("concurrent calls")
async def concurrent_calls(sandbox: Sandbox) -> str:
    """Concurrent calls are answered one after another, each with its own answer."""
    done = await asyncio.gather(*(sh(sandbox, f"echo {number}") for number in range(20)))
    expect(done == [str(number) for number in range(20)], "answers were mixed up")
    return "20 concurrent calls"


@CASES.add("close")
async def closing(sandbox: Sandbox) -> str:
    """Every call of a closed sandbox raises SandboxLost at once; closing it again does nothing."""
    await sh(sandbox, "sleep 60 >/dev/null 2>&1 &")
    await sandbox.close()
    await sandbox.close()
    for work in (sandbox.exec(["true"], timeout_s=5), sandbox.read(".", timeout_s=5), sandbox.reset(timeout_s=5)):
        await raises(SandboxLost, work, "a call of a closed sandbox")
    expect(not sandbox.alive, "a closed sandbox reports that it is alive")
    return "every call raises SandboxLost"


@CASES.add("time to live", ttl_s=1.0)
async def time_to_live(sandbox: Sandbox) -> str:
    """A sandbox ends itself at the end of its time to live, even during a command."""
    began = asyncio.get_running_loop().time()
    await raises(SandboxLost, sandbox.exec(["sleep", "30"], timeout_s=30), "a command that outlasts the time to live")
    took = asyncio.get_running_loop().time() - began
    expect(took < 3.0, f"it ended after {took:.1f} s instead of 1 s")
    return f"1 s, ended after {took:.2f} s"


LISTENER = """
import os, socket
end = socket.socket(socket.AF_UNIX)
end.bind("/tmp/listener")
end.listen()
print("ready", flush=True)
os.fork() and os._exit(0)
os.close(1), os.close(2)
while True:
    one, _ = end.accept()
    got = b""
    while piece := one.recv(65536):
        got += piece
    if got == b"stay":
        held = one
        continue
    one.sendall(got[::-1])
    one.close()
"""


@CASES.add("requests")
async def requests(sandbox: Sandbox) -> str:
    """A process that listens between calls receives requests; without a listener, the errno is returned."""
    missing = await sandbox.request("/tmp/listener", b"", timeout_s=5)  # noqa: S108 - folder of the sandbox
    expect(missing.exit_code == 2, f"without a listener, the result is {missing}")
    expect(await sh(sandbox, 'python3 -c "$(cat)"', stdin=LISTENER.encode()) == "ready", "the listener did not start")
    given = os.urandom(1024) * 200
    for message in (b"", b"hello", given):
        done = await sandbox.request("/tmp/listener", message, timeout_s=10, output_kib=256)  # noqa: S108
        expect((done.exit_code, done.stdout) == (0, message[::-1]), f"{len(message)} bytes were returned wrong")
    late = await sandbox.request("/tmp/listener", b"stay", timeout_s=0.5)  # noqa: S108
    expect(late.timed_out and not late.stdout, f"a request without a reply has the result {late}")
    flood = await sandbox.request("/tmp/listener", given, timeout_s=10, output_kib=1)  # noqa: S108
    expect(flood.output_limit_exceeded and len(flood.stdout) == 1024, "the output limit does not hold")
    await sandbox.reset(timeout_s=10)
    gone = await sandbox.request("/tmp/listener", b"", timeout_s=5)  # noqa: S108
    expect(gone.exit_code == 2, "a listener outlived the reset")
    return f"0 to {len(given) >> 10} KiB, timeout, output limit, no listener"
