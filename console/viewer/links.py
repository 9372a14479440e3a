"""Links that ``turnwise view --open`` takes: a path, a URL of a viewer, or the id of a run, a group or a trajectory."""

from urllib.parse import urlsplit

from sqlalchemy import Connection

from ...errors import TurnwiseError
from ...store import queries
from ...store.database import Database
from ...store.errors import NotFound
from .rendering import url

SECTIONS = {"run": "runs", "group": "groups", "trajectory": "trajectories"}
"""The first part of the path of a page by the kind of its subject."""


class BadLink(TurnwiseError):
    """A link leads to no page of the viewer."""


def page_of(database: Database, link: str) -> str:
    """Return the path of the page of a link. Raises BadLink."""
    if "://" in link or link.startswith("/"):
        parts = urlsplit(link)
        path = parts._replace(scheme="", netloc="").geturl()
        if not is_page(path) or parts.scheme not in ("", "http", "https"):
            raise BadLink(f"`--open {link[:200]}` is not the URL of a page: copy one from the browser, or give an id")
        return path
    with database.read() as conn:
        if (found := page_of_id(conn, link)) is not None:
            return found
        try:
            queries.find_run(conn, link)
        except NotFound as error:
            raise BadLink(
                f"`--open {link[:200]}`: the store has no run, group or trajectory of this id ({error})"
            ) from error
    return url("runs", link)


def is_page(path: str) -> bool:
    """Return whether a text is the path of a page of this server, and names no other host."""
    return path.startswith("/") and path[1:2] not in ("/", "\\") and path.isprintable()


def page_of_id(conn: Connection, name: str) -> str | None:
    """Return the path of the page of a run, a group or a trajectory; None if none has this id."""
    kind = queries.kind_of(conn, name)
    return None if kind is None else url(SECTIONS[kind], name)
