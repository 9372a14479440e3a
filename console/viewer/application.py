"""The pages of the viewer, each as HTML and as JSON, and the images of episodes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DBAPIError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from ...errors import TurnwiseError
from ...store.database import Database
from ..terminal.output import jsonable
from .downloads import download
from .given import BadAddress, Given
from .images import image
from .live import events
from .pages.listing import PAGES, Page
from .pages.prometheus import CONTENT_TYPE, exposition
from .rendering import environment, render
from .replays import Replays
from .security import Door, Guard
from .trouble import cause_of, status_of

STATIC = Path(__file__).parent / "static"


def application(database: Database, door: Door, *, home: str = "/runs", notice: str = "") -> ASGIApp:
    """Return the viewer of a store.

    Args:
        home: the page that ``/`` leads to.
        notice: a sentence on every page.
    """
    replays = Replays(database)
    templates = environment()

    def respond(request: Request, name: str, status: int, record: object, given: Given) -> Response:
        if request.scope["path"].startswith("/api/"):
            return Response(json.dumps(jsonable(record)), status, media_type="application/json")
        context = {
            "page": record,
            "given": given,
            "here": request.scope["raw_path"].partition(b"?")[0].decode("latin-1"),
            "query": dict(request.query_params),
            "notice": notice,
            "replay_key": replays.key,
        }
        return HTMLResponse(render(templates, name, context).encode(errors="replace"), status)

    def page_of(page: Page) -> Callable[[Request], Response]:
        def endpoint(request: Request) -> Response:
            given = Given(request.path_params, request.query_params)
            try:
                if len(request.query_params.multi_items()) > len(request.query_params):
                    raise BadAddress("a parameter occurs twice: write each once, several runs as `runs=a,b`")
                given.check(page.query)
                return respond(request, page.template, 200, page.load(database, given), given)
            except (TurnwiseError, DBAPIError) as error:
                shown = cause_of(database, error)
                return respond(request, "error.html", status_of(shown), {"error": str(shown)}, given)

        return endpoint

    def downloaded(request: Request) -> Response:
        try:
            return download(database, request.path_params["trajectory"], request.path_params["format"])
        except (TurnwiseError, DBAPIError) as error:
            shown = cause_of(database, error)
            return respond(request, "error.html", status_of(shown), {"error": str(shown)}, Given({}, {}))

    def missing(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        text = "there is no such page" if status == 404 else "the viewer failed: its terminal has the traceback"
        return respond(request, "error.html", status, {"error": text}, Given({}, {}))

    routes: list[Any] = [
        Route("/", lambda request: RedirectResponse(home)),
        Route("/trajectories/{trajectory:path}/replay/events", replays.events),
        Route("/metrics", lambda _: Response(exposition(database), media_type=CONTENT_TYPE)),
        Route("/images/{hash}", lambda request: image(database, request)),
        Route("/trajectories/{trajectory:path}/download/{format}", downloaded),
        Route("/runs/{run:path}/events", lambda request: events(database, request)),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    for page in PAGES:
        prefixes = ("/api", "") if page.template else ("/api",)
        routes += [Route(prefix + page.path, page_of(page)) for prefix in prefixes]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, door=door)],
        exception_handlers={HTTPException: missing, 500: missing},
    )
