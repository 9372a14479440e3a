"""What is new in a run, as server-sent events with one cursor per series: an event carries no value twice.

The id of an event is the cursor after it, so that a browser that lost the connection continues where it was.
"""

import asyncio
import json
from collections.abc import AsyncIterator

from sqlalchemy.exc import DBAPIError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ...errors import TurnwiseError
from ...store.database import Database, check_revision
from ..terminal.output import jsonable
from .given import Given
from .series import Cursor, Series, new_series
from .trouble import cause_of

POLL_INTERVAL_S = 1.0
KEEPALIVE_INTERVAL_S = 15.0


def events(database: Database, request: Request) -> Response:
    """Return the stream of a run's new updates and evaluations; it ends when the run has ended."""
    given = Given(request.path_params, request.query_params)
    cursor = Cursor.parse(request.headers.get("last-event-id") or given.text("cursor") or "")
    stream = _stream(database, request, given.path["run"], cursor)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _stream(database: Database, request: Request, run: str, cursor: Cursor) -> AsyncIterator[str]:
    yield "retry: 2000\n\n"
    silent, status = 0.0, ""
    while not await request.is_disconnected():
        try:
            found = await run_in_threadpool(_news, database, run, cursor)
        except (TurnwiseError, DBAPIError) as error:
            cause = await run_in_threadpool(cause_of, database, error)
            yield _event("trouble", {"error": str(cause)}, cursor)
            return
        if found is None:
            yield _event("rewound", {}, Cursor())
            return
        if found.cursor != cursor or found.status != status:
            cursor, status, silent = found.cursor, found.status, 0.0
            yield _event("series", found, cursor)
        if found.status != "running":
            yield _event("ended", {"status": found.status}, cursor)
            return
        if silent >= KEEPALIVE_INTERVAL_S:
            silent = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(POLL_INTERVAL_S)
        silent += POLL_INTERVAL_S


def _news(database: Database, run: str, cursor: Cursor) -> Series | None:
    """Return ``new_series`` of a store whose schema is still this program's. Raises WrongRevision."""
    check_revision(database)
    return new_series(database, run, cursor)


def _event(name: str, data: Series | dict[str, str], cursor: Cursor) -> str:
    return f"event: {name}\nid: {cursor}\ndata: {json.dumps(jsonable(data), separators=(',', ':'))}\n\n"
