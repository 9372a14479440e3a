"""Whatever a guest agent sends, the host raises SandboxBroken with the reason, in bounded time and memory."""

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from turnwise.sandbox.errors import SandboxBroken
from turnwise.sandbox.guest.frames import encode
from turnwise.sandbox.sandbox import Sandbox
from turnwise.sandbox.spec import SandboxSpec
from turnwise.sandbox.transport.listener import UnixListener

RESULT = {
    "exit_code": 0,
    "timed_out": False,
    "output_limit_exceeded": False,
    "oom": False,
    "duration_s": 0.1,
    "stdout_bytes": 0,
}
OPERATIONS: dict[str, Callable[[Sandbox], Awaitable[object]]] = {
    "exec": lambda sandbox: sandbox.exec(["true"], timeout_s=1),
    "request": lambda sandbox: sandbox.request("/s", b"", timeout_s=1),
    "read": lambda sandbox: sandbox.read(".", timeout_s=1),
    "read_tree": lambda sandbox: sandbox.read_changes(".", "known", timeout_s=1),
    "write": lambda sandbox: sandbox.write({"a": b""}, timeout_s=1),
    "reset": lambda sandbox: sandbox.reset(timeout_s=1),
}


def frame(header: bytes, payload: bytes = b"") -> bytes:
    return struct.pack("!II", len(header), len(payload)) + header + payload


async def answered(operation: str, answer: bytes, folder: Path) -> object:
    """Return the result of an operation on a sandbox whose guest agent sends ``answer``."""
    async with UnixListener("guest", folder / "s") as listener:
        reader, writer = await asyncio.open_unix_connection(folder / "s")
        writer.write(encode({"python": "3", "token": ""}))
        connection = await listener.accept(5)

    async def on_close() -> None:
        pass

    sandbox = Sandbox("guest", SandboxSpec(), connection, on_close)
    working = asyncio.ensure_future(OPERATIONS[operation](sandbox))
    await reader.read(1)
    writer.write(answer)
    try:
        return await working
    finally:
        assert not sandbox.alive or not working.exception()
        await sandbox.close()
        writer.close()


@pytest.mark.parametrize(
    "answer",
    [
        frame(b"[" * 1_000_000),
        frame(b'{"a":' * 200_000),
        frame(b"\xff\xfe{}"),
        frame(b"[]"),
        frame(b'{"exit_code":' + b"9" * 10_000 + b"}"),
        frame(b'{"stream":[]}'),
        struct.pack("!II", 1 << 31, 0),
        struct.pack("!II", 2, 200 << 20) + b"{}",
    ],
    ids=["nested lists", "nested objects", "not text", "no object", "huge number", "stream", "header", "payload"],
)
def test_a_malformed_frame_loses_the_sandbox(answer: bytes, tmp_path: Path) -> None:
    with pytest.raises(SandboxBroken, match=r"^sandbox guest: exec: its guest agent sent a malformed frame: "):
        asyncio.run(answered("exec", answer, tmp_path))


@pytest.mark.parametrize(
    ("operation", "header", "payload"),
    [
        ("exec", {}, b""),
        ("exec", {**RESULT, "more": 1}, b""),
        ("exec", {**RESULT, "exit_code": "0"}, b""),
        ("exec", {**RESULT, "duration_s": float("nan")}, b""),
        ("exec", {**RESULT, "stdout_bytes": -1}, b"ab"),
        ("exec", {"error": {"a": 1}}, b""),
        ("request", {"exit_code": 0}, b""),
        ("read", {"files": 3}, b""),
        ("read", {"files": [["a", -1], ["b", 2]]}, b"a"),
        ("read", {"files": [["a", 1]]}, b"ab"),
        ("read", {"files": [["../a", 1]]}, b"a"),
        ("read", {"files": [["/a", 1]]}, b"a"),
        ("read_tree", {"digest": 5}, b""),
        ("read_tree", {"digest": "new"}, b""),
        *(
            ("read_tree", {"digest": "new", "entries": entries}, b"a")
            for entries in (
                [["../a", "file", 0o644, 1, 1]],
                [["/a", "file", 0o644, 1, 1]],
                [["a/./b", "file", 0o644, 1, 1]],
                [["a\0", "link", 0o644, 1, 1]],
                [["a", "device", 0o644, 1, 1]],
                [["a", "file", 0o10644, 1, 1]],
                [["a", "file", 0o644, 1, 2]],
                [["a", "file", 0o644, 1, -1]],
                [["b", "same", 0o644, 1, 1]],
                [["a", "folder", 0o644, 1, 0], ["b", "same", 0o644, 1, 1]],
                [["a", "file", 0o644, 1, 1], ["a", "file", 0o644, 1, 0]],
            )
        ),
        ("write", {"error": None}, b""),
        ("reset", {"error": 1}, b""),
    ],
)
def test_a_malformed_answer_loses_the_sandbox(
    operation: str, header: dict[str, Any], payload: bytes, tmp_path: Path
) -> None:
    answer = frame(json.dumps(header).encode(), payload)
    with pytest.raises(SandboxBroken, match=rf"^sandbox guest: {operation}: its guest agent sent a malformed answer: "):
        asyncio.run(answered(operation, answer, tmp_path))


def test_a_result_may_have_all_the_output_of_its_limit_and_no_more(tmp_path: Path) -> None:
    limit = SandboxSpec().output_kib << 10
    whole = frame(json.dumps({**RESULT, "stdout_bytes": limit}).encode(), bytes(2 * limit))
    result: Any = asyncio.run(answered("exec", whole, tmp_path))
    assert (len(result.stdout), len(result.stderr)) == (limit, limit)
    with pytest.raises(SandboxBroken, match="exceeds the limits"):
        asyncio.run(answered("exec", frame(json.dumps(RESULT).encode(), bytes(2 * limit + 1)), tmp_path))
