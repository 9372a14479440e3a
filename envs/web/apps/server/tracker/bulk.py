"""Closing or reopening many issues at once, after a page that asks."""

from ..data import Row
from ..html import bullets, button, form, hidden, join, link, tag
from ..requests import Form
from ..web import Page, Redirect, Refused, Reply, Request
from .base import issue_name, site

STATES = {"close": "closed", "reopen": "open"}


def _asked(request: Request, form: Form) -> tuple[str, list[Row]]:
    request.member()
    action = form.text("action")
    if action not in STATES:
        raise Refused("Choose what to do with the selected issues.", 422)
    rows = [request.one("SELECT * FROM issues WHERE id = ?", number) for number in sorted(form.numbers("issue"))]
    return action, rows


@site.get("/bulk")
def request(request: Request) -> Reply:
    """Ask before many issues are changed."""
    action, rows = _asked(request, request.query)
    if not rows:
        return Redirect("/issues", "No issue was selected.")
    kept = [hidden("action", action), [hidden("issue", row["id"]) for row in rows]]
    body = join(
        bullets([issue_name(row) for row in rows]),
        form("/bulk", kept, button(f"{action.capitalize()} {len(rows)} issues")),
        tag("p", link("Back to the issues", "/issues")),
    )
    return Page(f"{action.capitalize()} these issues?", body)


@site.post("/bulk")
def change(request: Request) -> Reply:
    """Change them."""
    action, rows = _asked(request, request.form)
    for row in rows:
        request.db.run("UPDATE issues SET state = ? WHERE id = ?", STATES[action], row["id"])
    return Redirect("/issues", f"{len(rows)} issues are {STATES[action]}.")
