"""Servers inside real sandboxes are used from outside: HTTP through ``connect``, MCP through ``open_process``."""

import asyncio
import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp.client.session import ClientSession
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from turnwise.sandbox import SandboxLease, SandboxSpec
from turnwise.sandbox.errors import SandboxError, StreamError
from turnwise.sandbox.provider import InProcessProvider
from turnwise.sandbox.streams import SandboxProcess

SPEC = SandboxSpec(memory_mib=256, disk_mib=16, trusted=True)
TIMEOUT_S = 10.0
MCP_SERVER = """
import json, pathlib, sys
TOOL = {"name": "count", "description": "Count the lines of a file.", "inputSchema": {"type": "object",
        "properties": {"path": {"type": "string"}}, "required": ["path"]}}
def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "lines", "version": "1"}}
    if method == "tools/list":
        return {"tools": [TOOL]}
    lines = pathlib.Path(params["arguments"]["path"]).read_text().splitlines()
    return {"content": [{"type": "text", "text": str(len(lines))}]}
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""

pytestmark = [pytest.mark.slow, pytest.mark.docker]


@pytest.fixture(scope="module", params=["docker", "local"])
def sandboxes(request: pytest.FixtureRequest) -> Iterator[InProcessProvider]:
    provider = InProcessProvider(request.param, capacity=1, warm=0)
    yield provider
    provider.close()


@pytest.fixture
def sandbox(sandboxes: InProcessProvider) -> Iterator[SandboxLease]:
    with sandboxes.lease(SPEC, timeout_s=60) as leased:
        yield leased


def serve_http(sandbox: SandboxLease) -> None:
    sandbox.write({"page.html": b"<p>inside</p>"}, timeout_s=TIMEOUT_S)
    command = ["python3", "-m", "http.server", "8000", "--bind", "127.0.0.1"]
    sandbox.open_process(command, timeout_s=TIMEOUT_S)
    until = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return sandbox.connect(8000, timeout_s=TIMEOUT_S).close()
        except StreamError:
            assert time.monotonic() < until
            time.sleep(0.02)


def test_http_through_a_stream(sandbox: SandboxLease) -> None:
    serve_http(sandbox)
    with sandbox.connect(8000, timeout_s=TIMEOUT_S) as stream, stream.makefile(timeout_s=TIMEOUT_S) as file:
        file.write(b"GET /page.html HTTP/1.0\r\n\r\n")
        file.flush()
        answer = file.read()
    assert answer.startswith(b"HTTP/1.0 200")
    assert answer.endswith(b"<p>inside</p>")


def test_http_through_a_port_of_this_machine_until_the_lease_ends(sandboxes: InProcessProvider, tmp_path: Path) -> None:
    with sandboxes.lease(SPEC, timeout_s=60) as sandbox:
        serve_http(sandbox)
        port = sandbox.forward(8000).port
        sandbox.forward(8000, to=tmp_path / "http")
        assert (tmp_path / "http").stat().st_mode & 0o777 == 0o600
        for _ in range(3):
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
            client.request("GET", "/page.html")
            assert client.getresponse().read() == b"<p>inside</p>"
            client.close()
    until = time.monotonic() + TIMEOUT_S
    while (tmp_path / "http").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    with pytest.raises(OSError, match="refused"):
        http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S).connect()


def test_mcp_server_answers_the_official_client(sandbox: SandboxLease) -> None:
    sandbox.write({"server.py": MCP_SERVER.encode(), "notes.txt": b"a\nb\nc\n"}, timeout_s=TIMEOUT_S)

    async def main(process: SandboxProcess) -> None:
        from_server, received = anyio.create_memory_object_stream[SessionMessage | Exception](8)
        sent, to_server = anyio.create_memory_object_stream[SessionMessage](8)

        async def read() -> None:
            file = process.makefile(timeout_s=TIMEOUT_S)
            while line := await asyncio.to_thread(file.readline):
                await from_server.send(SessionMessage(jsonrpc_message_adapter.validate_json(line)))

        async def write() -> None:
            async for message in to_server:
                line = message.message.model_dump_json(by_alias=True, exclude_none=True) + "\n"
                await asyncio.to_thread(process.send, line.encode(), timeout_s=TIMEOUT_S)
            process.end_input(timeout_s=TIMEOUT_S)

        async with from_server, received, sent, to_server, anyio.create_task_group() as group:
            group.start_soon(read)
            group.start_soon(write)
            async with ClientSession(received, sent) as client:
                assert (await client.initialize()).server_info.name == "lines"
                assert [tool.name for tool in (await client.list_tools()).tools] == ["count"]
                result = await client.call_tool("count", {"path": "notes.txt"})
                assert json.loads(result.content[0].model_dump_json())["text"] == "3"

    with sandbox.open_process(["python3", "server.py"], timeout_s=TIMEOUT_S) as process:
        asyncio.run(main(process))
        assert process.wait(timeout_s=TIMEOUT_S) == 0


def test_streams_end_with_the_lease(sandboxes: InProcessProvider) -> None:
    with sandboxes.lease(SPEC, timeout_s=60) as sandbox:
        process = sandbox.open_process(["cat"], timeout_s=TIMEOUT_S)
        process.send(b"x", timeout_s=TIMEOUT_S)
        assert process.recv(timeout_s=TIMEOUT_S) == b"x"
    with pytest.raises(SandboxError, match="reset"):
        process.recv(timeout_s=TIMEOUT_S)
