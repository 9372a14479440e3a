"""Conformance: what a command is given, and what comes back of it."""

import asyncio
import os

from ...errors import SandboxLost
from ...sandbox import WORKSPACE
from ..harness import Case, MakeSandbox, expect, raises, sh

TEXT = "é 日本 \U0001f600"
BYTES = bytes(range(256)) * 8
LARGE = 4 << 20


async def exit_code(make: MakeSandbox) -> str:
    """A command's exit status comes back as it is."""
    sandbox = await make()
    for code in (0, 1, 3, 126, 255):
        done = await sandbox.exec(["sh", "-c", f"exit {code}"], timeout_s=10)
        expect(done.exit_code == code, f"exit {code} came back as {done.exit_code}")
        expect(not (done.timed_out or done.output_limit_exceeded or done.oom), f"exit {code} is said to be forced")
    return "0, 1, 3, 126, 255"


async def a_signal(make: MakeSandbox) -> str:
    """The number of the signal that ended a command comes back negative."""
    sandbox = await make()
    for name, number in (("TERM", 15), ("KILL", 9), ("SEGV", 11), ("PIPE", 13), ("INT", 2), ("XFSZ", 25)):
        done = await sandbox.exec(["sh", "-c", f"kill -{name} $$"], timeout_s=10)
        expect(done.exit_code == -number, f"SIG{name} came back as {done.exit_code}")
    return "TERM, KILL, SEGV, PIPE, INT, XFSZ"


async def standard_input(make: MakeSandbox) -> str:
    """Standard input arrives whole and then ends; without any it is at its end."""
    sandbox = await make()
    expect(await sh(sandbox, "cat", stdin=TEXT.encode()) == TEXT, "standard input did not arrive")
    expect(await sh(sandbox, "cat; echo end") == "end", "without input, standard input is not at its end")
    return "arrives, and ends"


async def large_input(make: MakeSandbox) -> str:
    """Megabytes arrive, read or not."""
    sandbox = await make()
    given = os.urandom(1024) * (LARGE // 1024)
    expect(await sh(sandbox, "wc -c", stdin=given) == str(LARGE), "not all of it arrived")
    await sh(sandbox, "true", stdin=given)
    await sh(sandbox, "head -c 10 >/dev/null", stdin=given)
    await sh(sandbox, "exec 0<&-; sleep 0.05", stdin=given)
    return f"{LARGE >> 20} MiB, read, ignored and half read"


async def two_outputs(make: MakeSandbox) -> str:
    """Standard output and error come back apart."""
    sandbox = await make()
    done = await sandbox.exec(["sh", "-c", "echo one; echo two >&2; echo three"], timeout_s=10)
    expect((done.stdout, done.stderr) == (b"one\nthree\n", b"two\n"), f"{done.stdout!r} and {done.stderr!r}")
    return "apart, in order"


async def environment(make: MakeSandbox) -> str:
    """A command sees what it is given and a few fixed names, and nothing of the host's."""
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
    expect(all(names["GIVEN"] == TEXT for names in seen), "what was given did not arrive")
    fixed = {"PATH", "HOME", "LANG", "TERM", "PYTHONDONTWRITEBYTECODE", "GIVEN", "PWD", "OLDPWD", "SHLVL", "_"}
    expect(set(seen[1]) <= fixed, f"also there: {', '.join(sorted(set(seen[1]) - fixed))}")
    expect("canary" not in found, "a variable of the host is in some process's environment")
    return f"{len(seen[1])} names"


async def odd_arguments(make: MakeSandbox) -> str:
    """Arguments arrive as they are, whatever is in them."""
    sandbox = await make()
    given = ["", " ", TEXT, "a\nb", "'\"$(id)`;", "-n", "*", "x" * 50_000]
    program = "import sys; sys.stdout.buffer.write('\\1'.join(sys.argv[1:]).encode())"
    done = await sandbox.exec(["python3", "-c", program, *given], timeout_s=10)
    expect(done.stdout.decode() == "\1".join(given), "an argument was changed on its way")
    done = await sandbox.exec(["sh", "-c", f"echo {TEXT}"], timeout_s=10)
    expect(done.stdout.decode() == f"{TEXT}\n", "UTF-8 in a script was changed on its way")
    return f"{len(given)} arguments"


async def binary(make: MakeSandbox) -> str:
    """Every byte passes through standard input and output."""
    sandbox = await make()
    done = await sandbox.exec(["cat"], stdin=BYTES, timeout_s=10)
    expect(done.stdout == BYTES, "bytes were changed on their way")
    return f"{len(BYTES)} bytes"


async def cannot_start(make: MakeSandbox) -> str:
    """What cannot be started is exit 127 with a word of why, and the sandbox goes on."""
    sandbox = await make()
    await sh(sandbox, "echo text > plain")
    for argv in (["no-such-command"], ["/no/such"], ["./plain"], ["/workspace"], ["true", "x" * (1 << 18)], ["a\0b"]):
        done = await sandbox.exec(argv, timeout_s=10)
        expect(done.exit_code == 127, f"{argv[0]!r} came back as {done.exit_code}")
        expect(bool(done.stderr), f"{argv[0]!r}: no word of why")
    await sh(sandbox, "true")
    return "absent, not executable, a folder, too long, not a name"


async def working_folder(make: MakeSandbox) -> str:
    """Commands start in the work folder, which is theirs; the user is not root."""
    sandbox = await make()
    expect(await sh(sandbox, "pwd") == WORKSPACE, "commands start elsewhere")
    await sh(sandbox, "touch mine && mkdir -p a/b && test -O mine")
    user = await sh(sandbox, "id -u")
    expect(user != "0", "commands are root")
    await sh(sandbox, "touch /tmp/mine && test -w $HOME")
    return f"{WORKSPACE}, user {user}"


async def one_after_another(make: MakeSandbox) -> str:
    """Calls made at once are answered one after another, each with its own answer."""
    sandbox = await make()
    done = await asyncio.gather(*(sh(sandbox, f"echo {number}") for number in range(20)))
    expect(done == [str(number) for number in range(20)], "answers were mixed up")
    return "20 at once"


async def closing(make: MakeSandbox) -> str:
    """A closed sandbox is lost, at once and for every call; closing twice is the same as once."""
    sandbox = await make()
    await sh(sandbox, "sleep 60 >/dev/null 2>&1 &")
    await sandbox.close()
    await sandbox.close()
    for work in (sandbox.exec(["true"], timeout_s=5), sandbox.read(".", timeout_s=5), sandbox.reset(timeout_s=5)):
        await raises(SandboxLost, work, "a call of a closed sandbox")
    expect(not sandbox.alive, "a closed sandbox says that it is alive")
    return "lost to every call"


async def time_to_live(make: MakeSandbox) -> str:
    """A sandbox ends itself at its time, in the middle of a command too."""
    sandbox = await make(ttl_s=1.0)
    began = asyncio.get_running_loop().time()
    await raises(SandboxLost, sandbox.exec(["sleep", "30"], timeout_s=30), "a command beyond the time to live")
    took = asyncio.get_running_loop().time() - began
    expect(took < 3.0, f"it ended after {took:.1f} s, not 1")
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


async def asking(make: MakeSandbox) -> str:
    """What goes on listening between calls is asked and answers; where it does not, that is told."""
    sandbox = await make()
    none = await sandbox.request("/tmp/listener", b"", timeout_s=5)  # noqa: S108 - the sandbox's own
    expect(none.exit_code == 2, f"nobody listens, and the answer is {none}")
    expect(await sh(sandbox, 'python3 -c "$(cat)"', stdin=LISTENER.encode()) == "ready", "it did not start")
    given = os.urandom(1024) * 200
    for message in (b"", b"hello", given):
        done = await sandbox.request("/tmp/listener", message, timeout_s=10, output_kib=256)  # noqa: S108
        expect((done.exit_code, done.stdout) == (0, message[::-1]), f"{len(message)} bytes came back wrong")
    late = await sandbox.request("/tmp/listener", b"stay", timeout_s=0.5)  # noqa: S108
    expect(late.timed_out and not late.stdout, f"an answer that never came: {late}")
    flood = await sandbox.request("/tmp/listener", given, timeout_s=10, output_kib=1)  # noqa: S108
    expect(flood.output_limit_exceeded and len(flood.stdout) == 1024, "the cap on output does not hold")
    await sandbox.reset(timeout_s=10)
    gone = await sandbox.request("/tmp/listener", b"", timeout_s=5)  # noqa: S108
    expect(gone.exit_code == 2, "a listener outlived the reset")
    return f"0 to {len(given) >> 10} KiB, late, flooded, gone"


COMMANDS: dict[str, Case] = {
    "exit code": exit_code,
    "signal": a_signal,
    "stdin": standard_input,
    "large stdin": large_input,
    "stdout and stderr": two_outputs,
    "environment": environment,
    "odd arguments": odd_arguments,
    "binary": binary,
    "cannot start": cannot_start,
    "working folder": working_folder,
    "asking": asking,
    "calls at once": one_after_another,
    "close": closing,
    "time to live": time_to_live,
}
