"""Move an issue to another project in three steps; mark an issue as a duplicate of another one."""

from typing import Any

from ..data import Row
from ..html import button, choice, facts, field, form, join, press, select, tag
from ..web import Page, Redirect, Reply, Request
from .base import issue_name, site


def _issue(request: Request, issue_id: int) -> Row:
    request.member()
    return request.one("SELECT * FROM issues WHERE id = ?", issue_id)


def _draft(request: Request, issue_id: int) -> dict[str, Any]:
    return request.session.drafts.setdefault(f"move {issue_id}", {})


@site.get("/issues/{}/move")
def choose_project(request: Request, issue_id: int) -> Page:
    """Display step 1."""
    return _project_page(request, issue_id)


def _project_page(request: Request, issue_id: int, errors: tuple[str, ...] = ()) -> Page:
    row = _issue(request, issue_id)
    others = request.db.rows("SELECT * FROM projects WHERE id != ? ORDER BY name", row["project_id"])
    options = [(each["id"], each["name"]) for each in others]
    chosen = choice("New project", "project", options, _draft(request, issue_id).get("project", ""))
    body = form(f"/issues/{issue_id}/move", chosen, button("Continue to milestone"))
    return Page(f"Move issue #{issue_id}, step 1 of 3: project", body, errors)


@site.post("/issues/{}/move")
def keep_project(request: Request, issue_id: int) -> Reply:
    """Store the project in the draft."""
    row, project = _issue(request, issue_id), request.form.number("project")
    if not request.db.row("SELECT 1 FROM projects WHERE id = ? AND id != ?", project, row["project_id"]):
        return _project_page(request, issue_id, ("Choose a project.",))
    draft = _draft(request, issue_id)
    draft.clear()
    draft["project"] = project
    return Redirect(f"/issues/{issue_id}/move/milestone")


@site.get("/issues/{}/move/milestone")
def choose_milestone(request: Request, issue_id: int) -> Reply:
    """Display step 2."""
    _issue(request, issue_id)
    draft = _draft(request, issue_id)
    if "project" not in draft:
        return Redirect(f"/issues/{issue_id}/move")
    rows = request.db.rows("SELECT * FROM milestones WHERE project_id = ? ORDER BY due, id", draft["project"])
    options = [("", "None"), *((row["id"], row["title"]) for row in rows)]
    body = form(
        request.path,
        select("Milestone in the new project", "milestone", options, draft.get("milestone") or ""),
        button("Continue to confirmation"),
    )
    return Page(f"Move issue #{issue_id}, step 2 of 3: milestone", body)


@site.post("/issues/{}/move/milestone")
def keep_milestone(request: Request, issue_id: int) -> Reply:
    """Store the milestone in the draft."""
    _issue(request, issue_id)
    draft, number = _draft(request, issue_id), request.form.number("milestone")
    if "project" not in draft:
        return Redirect(f"/issues/{issue_id}/move")
    known = request.db.row("SELECT 1 FROM milestones WHERE id = ? AND project_id = ?", number, draft["project"])
    draft["milestone"] = number if known else None
    return Redirect(f"/issues/{issue_id}/move/confirm")


@site.get("/issues/{}/move/confirm")
def confirm_move(request: Request, issue_id: int) -> Reply:
    """Display step 3."""
    row, draft = _issue(request, issue_id), _draft(request, issue_id)
    if "milestone" not in draft:
        return Redirect(f"/issues/{issue_id}/move/milestone")
    project = request.db.value("SELECT name FROM projects WHERE id = ?", draft["project"])
    milestone = request.db.value("SELECT title FROM milestones WHERE id = ?", draft["milestone"])
    summary = facts([("Issue", issue_name(row)), ("New project", project), ("Milestone", milestone or "none")])
    return Page(f"Move issue #{issue_id}, step 3 of 3: confirm", join(summary, press("Move issue", request.path)))


@site.post("/issues/{}/move/confirm")
def move(request: Request, issue_id: int) -> Reply:
    """Move the issue."""
    _issue(request, issue_id)
    draft = request.session.drafts.pop(f"move {issue_id}", {})
    if "milestone" not in draft:
        return Redirect(f"/issues/{issue_id}/move")
    request.db.run(
        "UPDATE issues SET project_id = ?, milestone_id = ? WHERE id = ?",
        draft["project"],
        draft["milestone"],
        issue_id,
    )
    return Redirect(f"/issues/{issue_id}", f"Issue #{issue_id} has been moved.")


@site.get("/issues/{}/duplicate")
def ask_duplicate(request: Request, issue_id: int) -> Page:
    """Display the form for the original issue."""
    return _duplicate_page(request, _issue(request, issue_id), "")


def _duplicate_page(request: Request, row: Row, number: str, errors: tuple[str, ...] = ()) -> Page:
    note = tag("p", "The issue will be closed and linked to the original.")
    body = join(
        note, form(request.path, field("Number of the original issue", "original", number), button("Mark as duplicate"))
    )
    return Page(f"Mark {issue_name(row)} as duplicate", body, errors)


@site.post("/issues/{}/duplicate")
def duplicate(request: Request, issue_id: int) -> Reply:
    """Close the issue as a duplicate."""
    row, text = _issue(request, issue_id), request.form.text("original").removeprefix("#")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    original = request.db.row("SELECT * FROM issues WHERE id = ?", number)
    if original is None or number == issue_id or original["duplicate_of"] == issue_id:
        return _duplicate_page(request, row, text, ("Enter the number of another issue.",))
    request.db.run("UPDATE issues SET duplicate_of = ?, state = 'closed' WHERE id = ?", number, issue_id)
    return Redirect(f"/issues/{issue_id}", f"Issue #{issue_id} is now a duplicate of #{number}.")
