"""Milestone pages: display, create, edit, close and delete."""

import re
from typing import Any

from ..data import Row
from ..sites import TRACKER as site
from ..web import Page, Redirect, Reply, Request, confirm, paged

DATE = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")


def _milestone(request: Request, milestone_id: int) -> Row:
    request.member()
    return request.find("milestones", id=milestone_id)


@site.get("/milestones/{}")
def milestone(request: Request, milestone_id: int) -> Page:
    """Display a milestone and its issues."""
    row = request.one(
        "SELECT milestones.*, projects.name AS project FROM milestones JOIN projects ON projects.id = project_id"
        " WHERE milestones.id = ?",
        milestone_id,
    )
    closed = request.db.value("SELECT count(*) FROM issues WHERE milestone_id = ? AND state = 'closed'", milestone_id)
    pages = paged(request, request.db.value("SELECT count(*) FROM issues WHERE milestone_id = ?", milestone_id))
    issues = request.db.rows(
        "SELECT * FROM issues WHERE milestone_id = ? ORDER BY id LIMIT 10 OFFSET ?", milestone_id, pages.offset
    )
    title = f"Milestone {row['title']}"
    return Page(title, "projects.milestone", milestone=row, closed=closed, issues=issues, pages=pages)


@site.form("/projects/{}/milestones/new")
def new(request: Request, project_id: int) -> Reply:
    """Create a milestone."""
    request.member()
    row = request.find("projects", id=project_id)
    values = {"project_id": project_id, "title": "", "due": "", "state": "open"}
    return _form(request, f"New milestone in {row['name']}", values)


@site.form("/milestones/{}/edit")
def edit(request: Request, milestone_id: int) -> Reply:
    """Display the edit form of a milestone, and save it."""
    return _form(request, "Edit milestone", dict(_milestone(request, milestone_id)))


def _form(request: Request, heading: str, values: dict[str, Any]) -> Reply:
    """Display the form of a new milestone or, if its values have an id, of an old one, and save it."""
    errors = []
    if request.posted:
        values |= request.form.texts("title", "due")
        title, number = values["title"], values.get("id", 0)
        errors = [] if title else ["The title must not be empty."]
        if not DATE.fullmatch(values["due"]):
            errors.append("The due date must be a date such as 2031-06-30.")
        same = request.db.find("milestones", project_id=values["project_id"], title=title)
        if [row for row in same if row["id"] != number]:
            errors.append("The project already has a milestone with this title.")
        if not errors:
            number = request.db.save("milestones", values)
            return Redirect(f"/milestones/{number}", f"The milestone {title} has been saved.")
    return Page(heading, "projects.edit_milestone", errors, path=request.path, values=values)


@site.post("/milestones/{}/close")
def close(request: Request, milestone_id: int) -> Reply:
    """Close a milestone."""
    return _set_state(request, milestone_id, "closed")


@site.post("/milestones/{}/reopen")
def reopen(request: Request, milestone_id: int) -> Reply:
    """Reopen a milestone."""
    return _set_state(request, milestone_id, "open")


def _set_state(request: Request, milestone_id: int, state: str) -> Reply:
    row = _milestone(request, milestone_id)
    request.db.edit("milestones", {"id": milestone_id}, state=state)
    return Redirect(f"/milestones/{milestone_id}", f"The milestone {row['title']} is now {state}.")


@site.form("/milestones/{}/delete")
def delete(request: Request, milestone_id: int) -> Reply:
    """Delete a milestone and clear it in its issues, after a confirmation."""
    row = _milestone(request, milestone_id)
    if not request.posted:
        question = f"Delete the milestone {row['title']}?"
        return confirm(question, "Delete milestone", request.path, f"/milestones/{milestone_id}")
    request.db.edit("issues", {"milestone_id": milestone_id}, milestone_id=None)
    request.db.remove("milestones", id=milestone_id)
    return Redirect(f"/projects/{row['project_id']}", f"The milestone {row['title']} has been deleted.")
