"""Links that ``turnwise view --open`` takes: a path, a URL of a viewer, or the id of a run, a group or a trajectory."""

from urllib.parse import urlsplit

from ...errors import TurnwiseError
from ...store import queries
from ...store.database import Database
from ...store.errors import NotFound
from .opening import is_page
from .rendering import url


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
        try:
            queries.find_run(conn, link)
            return url("runs", link)
        except NotFound as error:
            missing = str(error)
        for kind, find in (("groups", queries.find_group), ("trajectories", queries.group_of)):
            try:
                find(conn, link)
                return url(kind, link)
            except NotFound:
                continue
    raise BadLink(f"`--open {link[:200]}`: the store has no run, group or trajectory of this id ({missing})")
