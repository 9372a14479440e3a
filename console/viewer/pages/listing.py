"""The pages of the viewer, each with the parameters of its query; the routes come from here.

To add a page, write its loader and its template, and list it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ....base.logs import LEVELS
from ....records import GroupState, Purpose, Status
from ....store.database import Database
from ..given import NUMBER, SPAN, TEXT, Given, Values
from ..series import load_series
from . import compare, failures, group, groups, logs, replay, run, runs, search, tasks, trajectories, trajectory, update
from .episode.quotation import FIELDS
from .episode.token_strip import SHADES, load_token_columns

PURPOSES = tuple(one.value for one in Purpose)
CHARTS = {"smooth": TEXT, "log": TEXT, "from": TEXT, "to": TEXT, "open": TEXT}
"""What ``static/chart.js`` keeps in the URL."""
PLAYBACK = {"at": TEXT, "speed": TEXT, "skip": TEXT, "play": TEXT}
"""What ``static/playback.js`` keeps in the URL."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its path, the function that loads its record, and the parameters of its query."""

    path: str
    load: Callable[[Database, Given], Any]
    template: str = ""
    """Prints the record; a page without one is a part of the API alone."""
    query: Mapping[str, Values] = field(default_factory=dict)


PAGES = (
    Page(
        "/runs",
        runs.load_runs,
        "runs.html",
        {
            "kind": runs.KINDS,
            "status": runs.STATUSES,
            "environment": TEXT,
            "name": TEXT,
            "sort": tuple(runs.SORTS),
            "after": TEXT,
            "start": NUMBER,
        },
    ),
    Page(
        "/compare",
        compare.load_comparison,
        "compare.html",
        {"runs": TEXT, "axis": compare.AXES, "tasks": compare.TASKS, **CHARTS},
    ),
    Page("/search", search.load_search, "search.html", {"q": TEXT, "run": TEXT}),
    Page(
        "/trajectories",
        trajectories.load_trajectories_page,
        "trajectories.html",
        {
            "run": TEXT,
            "env": TEXT,
            "task": TEXT,
            "versions": SPAN,
            "status": tuple(one.value for one in Status),
            "purpose": PURPOSES,
            "success": ("true", "false"),
            "sort": trajectories.SORTS,
            "after": TEXT,
        },
    ),
    Page("/trajectories/{trajectory:path}/tokens", load_token_columns, query={"start": NUMBER, "all": ("1",)}),
    Page("/trajectories/{trajectory:path}/replay", replay.load_replay, "replay.html", {"start": NUMBER}),
    Page(
        "/trajectories/{trajectory:path}",
        trajectory.load_trajectory_page,
        "trajectory.html",
        {
            "view": trajectory.VIEWS,
            "start": NUMBER,
            "turn": NUMBER,
            "field": FIELDS,
            "quote": TEXT,
            "occurrence": NUMBER,
            "shade": tuple(SHADES),
            "token": NUMBER,
            "all": ("1",),
            **PLAYBACK,
        },
    ),
    Page("/groups/{group:path}", group.load_group, "group.html", {"members": TEXT, "start": NUMBER}),
    Page(
        "/runs/{run:path}/groups",
        groups.load_groups_page,
        "groups.html",
        {
            "state": tuple(one.value for one in GroupState),
            "purpose": PURPOSES,
            "task": TEXT,
            "update": NUMBER,
            "reason": TEXT,
            "after": TEXT,
        },
    ),
    Page(
        "/runs/{run:path}/tasks",
        tasks.load_tasks,
        "tasks.html",
        {
            "purpose": PURPOSES,
            "family": TEXT,
            "sort": tasks.SORTS,
            "columns": ("all",),
            "from": TEXT,
            "to": TEXT,
            "start": NUMBER,
        },
    ),
    Page(
        "/runs/{run:path}/logs",
        logs.load_logs,
        "logs.html",
        {"level": LEVELS, "process": TEXT, "text": TEXT, "libraries": ("yes",), "cursor": TEXT},
    ),
    Page("/runs/{run:path}/failures", failures.load_failures, "failures.html"),
    Page("/runs/{run:path}/updates/{update}", update.load_update_page, "update.html", {"start": NUMBER}),
    Page("/runs/{run:path}/series", load_series, query={"cursor": TEXT, "from": NUMBER, "to": NUMBER}),
    Page("/runs/{run:path}/now", run.load_now, "now.html"),
    Page("/runs/{run:path}", run.load_run, "run.html", CHARTS),
)
"""The first one whose path fits an address is its page."""
