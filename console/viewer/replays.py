"""Verified re-execution in the viewer: the verdict on each turn, as server-sent events, as soon as it is known.

A stream starts only with the key of this server, which no page of another site can read, and only for a script: no
picture, link or prefetch starts one. One replay runs at a time; it ends when its page is left. The store is only read.
"""

import asyncio
import hmac
import json
import secrets
from collections.abc import AsyncIterator, Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from ...agents.reexecution.compare import StepVerdict
from ...agents.reexecution.reexecute import Report, reexecute
from ...errors import TurnwiseError
from ...store.database import Database
from ..terminal.output import jsonable
from .visible import visible

REPLAY_TIMEOUT_S = 600.0
KEEPALIVE_INTERVAL_S = 15.0

Put = Callable[[StepVerdict | Report | str], None]
"""Receives the verdicts in order, and at the end the report, or the reason why there is none."""


class Replays:
    """The replays of a server."""

    def __init__(self, database: Database) -> None:
        self.key = secrets.token_urlsafe(16)
        self._database = database
        self._running: asyncio.Task[None] | None = None

    def events(self, request: Request) -> Response:
        """Return the stream of a replay."""
        has_key = hmac.compare_digest(request.query_params.get("key", "").encode(), self.key.encode())
        if not has_key or request.headers.get("sec-fetch-dest", "empty") != "empty":
            return PlainTextResponse("a replay starts with the button of its page\n", 403)
        return StreamingResponse(self._stream(request.path_params["trajectory"]), media_type="text/event-stream")

    async def _stream(self, trajectory: str) -> AsyncIterator[str]:
        if self._running is not None and not self._running.done():
            yield _event(
                "ended",
                {"matches": False, "message": "another replay is running: wait until it has ended", "images": []},
            )
            return
        queue: asyncio.Queue[StepVerdict | Report | str] = asyncio.Queue()
        own = self._running = asyncio.create_task(_play(self._database, trajectory, queue.put_nowait))
        try:
            while True:
                try:
                    found = await asyncio.wait_for(queue.get(), KEEPALIVE_INTERVAL_S)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if isinstance(found, StepVerdict):
                    yield _event("turn", jsonable(found))
                    continue
                report = found if isinstance(found, Report) else Report(trajectory, False, found)
                images = [visible(one) for one in report.images or ()]
                yield _event("ended", {"matches": report.matches, "message": report.message, "images": images})
                return
        finally:
            own.cancel()  # the next replay may be running already


async def _play(database: Database, trajectory: str, put: Put) -> None:
    try:
        async with asyncio.timeout(REPLAY_TIMEOUT_S):
            put(await reexecute(database, trajectory, see=put))
    except TimeoutError:
        put(f"the replay was ended after {REPLAY_TIMEOUT_S:.0f} s")
    except TurnwiseError as error:
        put(str(error))
    except Exception as error:  # noqa: BLE001 - whatever an environment raises ends the stream
        put(f"the replay failed: {type(error).__name__}: {error}")


def _event(name: str, data: dict[str, object]) -> str:
    """Return an event whose texts are printed as the pages print them."""
    shown = {key: visible(value) if isinstance(value, str) else value for key, value in data.items()}
    return f"event: {name}\ndata: {json.dumps(shown)}\n\n"
