"""The pages of the viewer, each as HTML and as JSON, and the images of episodes."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
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
from ...store.exchange.images import image_type
from ..terminal.output import jsonable
from .downloads import download
from .given import Given
from .live import events
from .opening import Tabs
from .pages.compare import load_comparison
from .pages.episode.token_strip import load_token_columns
from .pages.failures import load_failures
from .pages.group import load_group
from .pages.groups import load_groups_page
from .pages.logs import load_logs
from .pages.replay import load_replay
from .pages.run import load_now, load_run
from .pages.runs import load_runs
from .pages.search import load_search
from .pages.tasks import load_tasks
from .pages.trajectories import load_trajectories_page
from .pages.trajectory import load_trajectory_page
from .pages.update import load_update_page
from .rendering import environment, render
from .replays import Replays
from .security import Door, Guard
from .series import load_series
from .trouble import cause_of, status_of

HASH = re.compile(r"[0-9a-f]{64}")
STATIC = Path(__file__).parent / "static"
IMAGE_HEADERS = {
    "Cache-Control": "private, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
}


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its path, the template that prints its record, and the function that loads the record."""

    path: str
    template: str
    load: Callable[[Database, Given], Any]


PAGES = (
    Page("/runs", "runs.html", load_runs),
    Page("/compare", "compare.html", load_comparison),
    Page("/search", "search.html", load_search),
    Page("/trajectories", "trajectories.html", load_trajectories_page),
    Page("/trajectories/{trajectory:path}/replay", "replay.html", load_replay),
    Page("/trajectories/{trajectory:path}", "trajectory.html", load_trajectory_page),
    Page("/groups/{group:path}", "group.html", load_group),
    Page("/runs/{run:path}/groups", "groups.html", load_groups_page),
    Page("/runs/{run:path}/tasks", "tasks.html", load_tasks),
    Page("/runs/{run:path}/logs", "logs.html", load_logs),
    Page("/runs/{run:path}/failures", "failures.html", load_failures),
    Page("/runs/{run:path}/updates/{update}", "update.html", load_update_page),
    Page("/runs/{run:path}", "run.html", load_run),
)


def application(
    database: Database, door: Door, *, home: str = "/runs", notice: str = "", tabs: Tabs | None = None
) -> ASGIApp:
    """Return the viewer of a store.

    Args:
        home: the page that ``/`` leads to.
        notice: a sentence on every page.
        tabs: receives the tabs that listen for pages to open.
    """
    tabs, replays = tabs or Tabs(), Replays(database)
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
                return respond(request, page.template, 200, page.load(database, given), given)
            except (TurnwiseError, DBAPIError) as error:
                shown = cause_of(database, error)
                return respond(request, "error.html", status_of(shown), {"error": str(shown)}, given)

        return endpoint

    def downloaded(request: Request) -> Response:
        try:
            return download(database, request.path_params["trajectory"], request.path_params["format"])
        except TurnwiseError as error:
            return respond(request, "error.html", status_of(error), {"error": str(error)}, Given({}, {}))

    def image(request: Request) -> Response:
        name = request.path_params["hash"]
        if not HASH.fullmatch(name):
            raise HTTPException(404)
        try:
            with database.read() as conn:
                content = database.blobs.get(conn, name)
        except TurnwiseError as error:
            raise HTTPException(status_of(error)) from error
        kind = image_type(content)
        if kind is None:
            raise HTTPException(404)
        return Response(content, media_type=kind, headers=IMAGE_HEADERS)

    def missing(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        text = "there is no such page" if status == 404 else "the page cannot be shown"
        return respond(request, "error.html", status, {"error": text}, Given({}, {}))

    routes: list[Any] = [
        Route("/", lambda request: RedirectResponse(home)),
        Route("/trajectories/{trajectory:path}/replay/events", replays.events),
        Route("/opened", lambda _: tabs.events()),
        Route("/images/{hash}", image),
        Route("/trajectories/{trajectory:path}/download/{format}", downloaded),
        Route("/runs/{run:path}/now", page_of(Page("", "now.html", load_now))),
        Route("/runs/{run:path}/events", lambda request: events(database, request)),
        Route("/api/runs/{run:path}/series", page_of(Page("", "", load_series))),
        Route("/api/trajectories/{trajectory:path}/tokens", page_of(Page("", "", load_token_columns))),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    for page in PAGES:
        routes += [Route(prefix + page.path, page_of(page)) for prefix in ("/api", "")]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, door=door)],
        exception_handlers={HTTPException: missing, 500: missing},
    )
