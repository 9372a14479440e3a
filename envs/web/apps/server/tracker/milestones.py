"""Milestone pages: display, create, edit, close and delete."""

import re

from ..data import Row
from ..html import button, facts, field, form, join, link, press, table, tag
from ..web import Page, Redirect, Reply, Request, confirm, paged
from .base import issue_link, site

DATE = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")


def _milestone(request: Request, milestone_id: int) -> Row:
    return request.one(
        "SELECT milestones.*, projects.name AS project FROM milestones JOIN projects ON projects.id = project_id"
        " WHERE milestones.id = ?",
        milestone_id,
    )


@site.get("/milestones/{}")
def milestone(request: Request, milestone_id: int) -> Page:
    """Display a milestone and its issues."""
    row = _milestone(request, milestone_id)
    count = request.db.value("SELECT count(*) FROM issues WHERE milestone_id = ?", milestone_id)
    closed = request.db.value("SELECT count(*) FROM issues WHERE milestone_id = ? AND state = 'closed'", milestone_id)
    skip, pages = paged(request, count)
    rows = request.db.rows(
        "SELECT * FROM issues WHERE milestone_id = ? ORDER BY id LIMIT 10 OFFSET ?", milestone_id, skip
    )
    path = f"/milestones/{milestone_id}"
    toggle = ("Close milestone", "close") if row["state"] == "open" else ("Reopen milestone", "reopen")
    body = join(
        facts(
            [
                ("Project", link(row["project"], f"/projects/{row['project_id']}")),
                ("Due", row["due"]),
                ("State", row["state"]),
                ("Progress", f"{closed} of {count} issues closed"),
            ]
        ),
        tag("p", link("Edit milestone", f"{path}/edit"), " ", link("Delete milestone", f"{path}/delete")),
        press(toggle[0], f"{path}/{toggle[1]}"),
        table(
            "Issues",
            ("Issue", "State", "Priority"),
            [(issue_link(each), each["state"], each["priority"]) for each in rows],
        ),
        pages,
    )
    return Page(f"Milestone {row['title']}", body)


def _form(request: Request, title: str, name: str, due: str, errors: tuple[str, ...] = ()) -> Page:
    fields = [field("Title", "title", name), field("Due date (YYYY-MM-DD)", "due", due)]
    return Page(title, form(request.path, fields, tag("p", button("Save milestone"))), errors)


def _read_form(request: Request, project_id: int, own: int = 0) -> tuple[str, str, tuple[str, ...]]:
    title, due = request.form.text("title"), request.form.text("due")
    errors = [] if title else ["The title must not be empty."]
    if not DATE.fullmatch(due):
        errors.append("The due date must be a date such as 2031-06-30.")
    taken = "SELECT 1 FROM milestones WHERE project_id = ? AND title = ? AND id != ?"
    if request.db.row(taken, project_id, title, own):
        errors.append("The project already has a milestone with this title.")
    return title, due, tuple(errors)


@site.get("/projects/{}/milestones/new")
def new(request: Request, project_id: int) -> Page:
    """Display the form for a new milestone."""
    request.member()
    row = request.one("SELECT * FROM projects WHERE id = ?", project_id)
    return _form(request, f"New milestone in {row['name']}", "", "")


@site.post("/projects/{}/milestones/new")
def create(request: Request, project_id: int) -> Reply:
    """Create a milestone."""
    request.member()
    row = request.one("SELECT * FROM projects WHERE id = ?", project_id)
    title, due, errors = _read_form(request, project_id)
    if errors:
        return _form(request, f"New milestone in {row['name']}", title, due, errors)
    number = request.db.run(
        "INSERT INTO milestones (project_id, title, due, state) VALUES (?, ?, ?, 'open')", project_id, title, due
    )
    return Redirect(f"/milestones/{number}", f"The milestone {title} has been saved.")


@site.get("/milestones/{}/edit")
def edit(request: Request, milestone_id: int) -> Page:
    """Display the edit form of a milestone."""
    request.member()
    row = _milestone(request, milestone_id)
    return _form(request, "Edit milestone", row["title"], row["due"])


@site.post("/milestones/{}/edit")
def save(request: Request, milestone_id: int) -> Reply:
    """Save a milestone."""
    request.member()
    row = _milestone(request, milestone_id)
    title, due, errors = _read_form(request, row["project_id"], milestone_id)
    if errors:
        return _form(request, "Edit milestone", title, due, errors)
    request.db.run("UPDATE milestones SET title = ?, due = ? WHERE id = ?", title, due, milestone_id)
    return Redirect(f"/milestones/{milestone_id}", f"The milestone {title} has been saved.")


@site.post("/milestones/{}/close")
def close(request: Request, milestone_id: int) -> Reply:
    """Close a milestone."""
    return _set_state(request, milestone_id, "closed")


@site.post("/milestones/{}/reopen")
def reopen(request: Request, milestone_id: int) -> Reply:
    """Reopen a milestone."""
    return _set_state(request, milestone_id, "open")


def _set_state(request: Request, milestone_id: int, state: str) -> Reply:
    request.member()
    row = _milestone(request, milestone_id)
    request.db.run("UPDATE milestones SET state = ? WHERE id = ?", state, milestone_id)
    return Redirect(f"/milestones/{milestone_id}", f"The milestone {row['title']} is now {state}.")


@site.get("/milestones/{}/delete")
def ask_delete(request: Request, milestone_id: int) -> Page:
    """Display the confirmation page."""
    request.member()
    row = _milestone(request, milestone_id)
    return confirm(
        f"Delete the milestone {row['title']}?", "Delete milestone", request.path, f"/milestones/{milestone_id}"
    )


@site.post("/milestones/{}/delete")
def delete(request: Request, milestone_id: int) -> Reply:
    """Delete a milestone, and clear it in its issues."""
    request.member()
    row = _milestone(request, milestone_id)
    request.db.run("UPDATE issues SET milestone_id = NULL WHERE milestone_id = ?", milestone_id)
    request.db.run("DELETE FROM milestones WHERE id = ?", milestone_id)
    return Redirect(f"/projects/{row['project_id']}", f"The milestone {row['title']} has been deleted.")
