"""Shared parts of the tracker's pages: the schema, the menu, and the names of issues."""

from ..data import Data, Row
from ..html import Html, link
from ..web import Request, Site

SCHEMA = """
CREATE TABLE users (
    id INTEGER PRIMARY KEY AUTOINCREMENT, login TEXT NOT NULL UNIQUE, password TEXT NOT NULL, name TEXT NOT NULL,
    email TEXT NOT NULL, digest TEXT NOT NULL, mentions INTEGER NOT NULL);
CREATE TABLE projects (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, description TEXT NOT NULL);
CREATE TABLE labels (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE);
CREATE TABLE milestones (
    id INTEGER PRIMARY KEY AUTOINCREMENT, project_id INTEGER NOT NULL REFERENCES projects (id), title TEXT NOT NULL,
    due TEXT NOT NULL, state TEXT NOT NULL, UNIQUE (project_id, title));
CREATE TABLE issues (
    id INTEGER PRIMARY KEY AUTOINCREMENT, project_id INTEGER NOT NULL REFERENCES projects (id), title TEXT NOT NULL,
    description TEXT NOT NULL, author_id INTEGER NOT NULL REFERENCES users (id),
    assignee_id INTEGER REFERENCES users (id), priority TEXT NOT NULL, state TEXT NOT NULL,
    milestone_id INTEGER REFERENCES milestones (id), duplicate_of INTEGER REFERENCES issues (id),
    created TEXT NOT NULL);
CREATE TABLE issue_labels (
    issue_id INTEGER NOT NULL REFERENCES issues (id), label_id INTEGER NOT NULL REFERENCES labels (id),
    PRIMARY KEY (issue_id, label_id));
CREATE TABLE comments (
    id INTEGER PRIMARY KEY AUTOINCREMENT, issue_id INTEGER NOT NULL REFERENCES issues (id),
    author_id INTEGER NOT NULL REFERENCES users (id), text TEXT NOT NULL, date TEXT NOT NULL);
"""


def _menu(request: Request) -> list[Html]:
    always = [link("Projects", "/"), link("Issues", "/issues"), link("Labels", "/labels")]
    return always + ([link("Settings", "/settings")] if request.user() else [])


site = Site("tracker", "Tracker", SCHEMA, _menu)


def issue_name(row: Row) -> str:
    """Return the name of an issue in links: ``#12 Crash in the export``."""
    return f"#{row['id']} {row['title']}"


def issue_link(row: Row) -> Html:
    """Return the link to an issue."""
    return link(issue_name(row), f"/issues/{row['id']}")


def labels_of(db: Data, issue_id: int) -> list[Row]:
    """Return the labels of an issue, ordered by name."""
    return db.rows(
        "SELECT labels.* FROM issue_labels JOIN labels ON labels.id = label_id WHERE issue_id = ? ORDER BY name",
        issue_id,
    )
