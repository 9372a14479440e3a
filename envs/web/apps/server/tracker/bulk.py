"""Bulk changes: close or reopen the selected issues after a confirmation."""

from ..data import Row
from ..html import bullets, button, count_of, form, hidden, join, link, tag
from ..requests import Form
from ..web import Page, Redirect, Refused, Reply, Request
from .base import issue_name, site

STATES = {"close": "closed", "reopen": "open"}


def _read_form(request: Request, form: Form) -> tuple[str, list[Row]]:
    request.member()
    action = form.text("action")
    if action not in STATES:
        raise Refused("Choose an action for the selected issues.", 422)
    rows = [request.one("SELECT * FROM issues WHERE id = ?", number) for number in sorted(form.numbers("issue"))]
    return action, rows


@site.get("/bulk")
def ask_change(request: Request) -> Reply:
    """Display the confirmation page."""
    action, rows = _read_form(request, request.query)
    if not rows:
        return Redirect("/issues", "Select at least one issue.")
    kept = [hidden("action", action), [hidden("issue", row["id"]) for row in rows]]
    body = join(
        bullets([issue_name(row) for row in rows]),
        form("/bulk", kept, button(f"{action.capitalize()} {count_of(len(rows), 'issue')}")),
        tag("p", link("Back to the issues", "/issues")),
    )
    return Page(f"{action.capitalize()} these issues?", body)


@site.post("/bulk")
def change(request: Request) -> Reply:
    """Change the issues."""
    action, rows = _read_form(request, request.form)
    for row in rows:
        request.db.run("UPDATE issues SET state = ? WHERE id = ?", STATES[action], row["id"])
    return Redirect("/issues", f"{count_of(len(rows), 'issue')} set to {STATES[action]}.")
