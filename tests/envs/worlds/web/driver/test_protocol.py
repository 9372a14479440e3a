"""The shared pipe of Chromium: who gets a message, over real pipes."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from turnwise.envs.worlds.web.driver.protocol import OWN_IDS, Connection, ProtocolError, Session

SESSION = "AB12"


class Ends:
    """The other ends of the pipes: Chromium's and Playwright's."""

    def __init__(self) -> None:
        from_chromium, self.chromium_writes = os.pipe()
        self.chromium_reads, to_chromium = os.pipe()
        from_playwright, self.playwright_writes = os.pipe()
        self.playwright_reads, to_playwright = os.pipe()
        self.closings = 0
        self.connection = Connection(
            (from_chromium, to_chromium), (from_playwright, to_playwright), lambda: setattr(self, "closings", 1)
        )

    async def chromium_sends(self, *messages: object) -> None:
        await asyncio.to_thread(
            os.write,
            self.chromium_writes,
            b"".join(json.dumps(one).encode().replace(b": ", b":").replace(b", ", b",") + b"\0" for one in messages),
        )
        await asyncio.sleep(0.01)

    async def received(self, end: int) -> list[Any]:
        await asyncio.sleep(0.01)
        os.set_blocking(end, False)
        try:
            return [json.loads(one) for one in os.read(end, 1 << 20).split(b"\0") if one]
        except BlockingIOError:
            return []

    def close(self) -> None:
        self.connection.close()
        for end in (self.chromium_writes, self.chromium_reads, self.playwright_writes, self.playwright_reads):
            os.close(end)


def run(check: Callable[[Ends], Awaitable[None]]) -> None:
    async def opened(ends: Ends) -> None:
        await ends.connection.open()
        await check(ends)

    run_unopened(opened)


def run_unopened(check: Callable[[Ends], Awaitable[None]]) -> None:
    """Run a check, after which asyncio must have reported no error."""
    errors = list[dict[str, Any]]()

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, error: errors.append(error))
        ends = Ends()
        try:
            await check(ends)
        finally:
            ends.close()
            await asyncio.sleep(0.01)

    asyncio.run(main())
    assert errors == []


def test_each_side_gets_its_own_messages() -> None:
    async def check(ends: Ends) -> None:
        session, events = Session(ends.connection, SESSION), list[Any]()
        session.on("Page.loaded", events.append)
        answer = session.start("Page.enable", {"a": "é\ud800"})
        (command,) = await ends.received(ends.chromium_reads)
        assert command == {"id": OWN_IDS + 1, "method": "Page.enable", "params": {"a": "é?"}, "sessionId": SESSION}
        theirs = {"id": 7, "result": {}}, {"method": "Page.loaded", "params": {}, "sessionId": "CD34"}
        await ends.chromium_sends(
            {"method": "Page.loaded", "params": {"number": 1}, "sessionId": SESSION},
            theirs[0],
            {"id": command["id"], "result": {"done": True}, "sessionId": SESSION},
            theirs[1],
        )
        assert (events, await answer) == ([{"number": 1}], {"done": True})
        assert await ends.received(ends.playwright_reads) == [*theirs]
        os.write(ends.playwright_writes, b'{"id":8}\0{"id"')
        assert await ends.received(ends.chromium_reads) == [{"id": 8}]
        os.write(ends.playwright_writes, b":9}\0")
        assert await ends.received(ends.chromium_reads) == [{"id": 9}]

    run(check)


def test_text_of_a_page_is_no_address() -> None:
    async def check(ends: Ends) -> None:
        Session(ends.connection, SESSION)
        posing = {
            "method": "Runtime.consoleAPICalled",
            "params": {"text": f'"sessionId":"{SESSION}"}}'},
            "sessionId": "CD34",
        }
        await ends.chromium_sends(posing)
        assert await ends.received(ends.playwright_reads) == [posing]

    run(check)


def test_a_refusal_and_the_end_of_a_session_are_errors() -> None:
    async def check(ends: Ends) -> None:
        session = Session(ends.connection, SESSION)
        refused, lost = session.start("A.one"), session.start("A.other")
        await ends.chromium_sends({"id": OWN_IDS + 1, "error": {"message": "no"}, "sessionId": SESSION})
        with pytest.raises(ProtocolError, match=r"A\.one: no"):
            await refused
        session.close("the page has been closed")
        for future in (lost, session.start("A.third")):
            with pytest.raises(ProtocolError, match="the page has been closed"):
                await future

    run(check)


def test_playwright_gets_the_events_of_requests_once_an_action_needs_them() -> None:
    async def check(ends: Ends) -> None:
        for number, session in enumerate(("CD34", "EF56")):
            command = {"id": number, "method": "Network.enable", "params": {}, "sessionId": session}
            os.write(ends.playwright_writes, json.dumps(command, separators=(",", ":")).encode() + b"\0")
        typed = {"id": 3, "method": "Input.insertText", "params": {"text": '"method":"Network.enable"'}}
        os.write(ends.playwright_writes, json.dumps(typed, separators=(",", ":")).encode() + b"\0")
        assert await ends.received(ends.chromium_reads) == [typed]
        answers = [{"id": number, "result": {}, "sessionId": one} for number, one in enumerate(("CD34", "EF56"))]
        assert await ends.received(ends.playwright_reads) == answers

        ended = {"method": "Target.detachedFromTarget", "params": {"sessionId": "EF56"}}
        await ends.chromium_sends(ended)
        assert await ends.received(ends.playwright_reads) == [ended]
        ends.connection.report_requests()
        ends.connection.report_requests()
        (command,) = await ends.received(ends.chromium_reads)
        assert command == {"id": OWN_IDS + 1, "method": "Network.enable", "params": {}, "sessionId": "CD34"}
        # No command of Playwright has this id, and Playwright ends at an answer without a command.
        event = {"method": "Network.dataReceived", "params": {}, "sessionId": "CD34"}
        await ends.chromium_sends({"id": command["id"], "result": {}, "sessionId": "CD34"}, event)
        assert await ends.received(ends.playwright_reads) == [event]

    run(check)


def test_an_event_without_a_listener_is_not_parsed() -> None:
    async def check(ends: Ends) -> None:
        session, events = Session(ends.connection, SESSION), list[Any]()
        session.on("Page.loaded", events.append)
        received = b'{"method":"Page.%s","params":{%s},"sessionId":"AB12"}\0'
        os.write(ends.chromium_writes, received % (b"resized", b"not JSON") + received % (b"loaded", b""))
        await asyncio.sleep(0.01)
        assert events == [{}]
        assert await ends.received(ends.playwright_reads) == []

    run(check)


@pytest.mark.parametrize("end", ["chromium_reads", "chromium_writes", "playwright_reads", "playwright_writes"])
def test_the_end_of_either_side_ends_the_connection(end: str) -> None:
    async def check(ends: Ends) -> None:
        waiting = ends.connection.root.start("Browser.getVersion")
        os.dup2(os.open(os.devnull, os.O_WRONLY), getattr(ends, end))
        with pytest.raises(ProtocolError, match="the browser has been closed"):
            await asyncio.wait_for(waiting, 2)
        assert (ends.connection.closed, ends.closings) == (True, 1)

    run(check)


def assert_closed_for(ends: Ends, side: str) -> None:
    """Check that the connection has closed its ends of a side."""
    reads, writes = getattr(ends, f"{side}_reads"), getattr(ends, f"{side}_writes")
    os.set_blocking(reads, False)
    assert os.read(reads, 1) == b""
    with pytest.raises(BrokenPipeError):
        os.write(writes, b"x")


@pytest.mark.parametrize("side", ["chromium", "playwright"])
def test_a_side_that_ended_before_the_start_ends_the_connection(side: str) -> None:
    async def check(ends: Ends) -> None:
        gone = os.open(os.devnull, os.O_RDWR)
        for end in (f"{side}_reads", f"{side}_writes"):
            os.dup2(gone, getattr(ends, end))
        await ends.connection.open()
        await asyncio.sleep(0.01)
        assert (ends.connection.closed, ends.closings) == (True, 1)
        assert_closed_for(ends, "playwright" if side == "chromium" else "chromium")

    run_unopened(check)


@pytest.mark.parametrize("turns", range(6))
def test_a_cancelled_start_closes_all_ends(turns: int) -> None:
    async def check(ends: Ends) -> None:
        opening = asyncio.ensure_future(ends.connection.open())
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait({opening})
        ends.connection.close()
        await asyncio.sleep(0.01)
        assert_closed_for(ends, "chromium")
        assert_closed_for(ends, "playwright")

    run_unopened(check)


def test_a_long_message_waits_for_its_reader() -> None:
    async def check(ends: Ends) -> None:
        text = "x" * (3 << 20)
        os.set_blocking(ends.chromium_reads, True)
        ends.connection.root.start("Page.navigate", {"text": text})
        ends.connection.root.start("Page.other")
        read = bytearray()
        while read.count(b"\0") < 2:
            read += await asyncio.to_thread(os.read, ends.chromium_reads, 1 << 20)
        assert [json.loads(one)["method"] for one in bytes(read).split(b"\0")[:2]] == ["Page.navigate", "Page.other"]

    run(check)
