"""Home, projects with their milestones, labels, users, and the user's settings."""

import re
from typing import Any

from ..choices import DIGESTS
from ..data import Row
from ..sites import TRACKER as site
from ..web import Page, Redirect, Reply, Request, confirm, listed
from .issues import STATES


@site.get("/")
def home(request: Request) -> Page:
    """Display the projects."""
    rows = request.db.rows(
        "SELECT projects.*, count(issues.id) AS issues, coalesce(sum(issues.state = 'open'), 0) AS open FROM projects"
        " LEFT JOIN issues ON project_id = projects.id GROUP BY projects.id ORDER BY projects.name"
    )
    return Page("Projects", "projects.home", projects=rows)


@site.get("/projects/{}")
def project(request: Request, project_id: int) -> Page:
    """Display a project with its milestones and newest issues."""
    row = request.find("projects", id=project_id)
    milestones = request.db.rows("SELECT * FROM milestones WHERE project_id = ? ORDER BY due, id", project_id)
    newest = request.db.rows(
        "SELECT * FROM issues WHERE project_id = ? ORDER BY created DESC, id DESC LIMIT 5", project_id
    )
    return Page(row["name"], "projects.project", project=row, milestones=milestones, issues=newest)


@site.form("/labels")
def labels(request: Request) -> Reply:
    """Display the labels, and add one."""
    name, errors = request.form.text("name"), []
    if request.posted:
        request.member()
        if not name:
            errors = ["The label must not be empty."]
        elif request.db.find("labels", name=name):
            errors = ["This label already exists."]
        else:
            request.db.add("labels", name=name)
            return Redirect("/labels", f"The label {name} has been added.")
    rows = request.db.rows(
        "SELECT labels.*, count(issue_id) AS issues FROM labels LEFT JOIN issue_labels ON label_id = labels.id"
        " GROUP BY labels.id ORDER BY name"
    )
    return Page("Labels", "projects.labels", errors, labels=rows, name=name)


@site.form("/labels/{}/delete")
def delete_label(request: Request, label_id: int) -> Reply:
    """Delete a label, and remove it from every issue, after a confirmation."""
    request.member()
    row = request.find("labels", id=label_id)
    if not request.posted:
        return confirm(f"Delete the label {row['name']}?", "Delete label", request.path, "/labels")
    request.db.remove("issue_labels", label_id=label_id)
    request.db.remove("labels", id=label_id)
    return Redirect("/labels", f"The label {row['name']} has been deleted.")


@site.get("/users/{}")
def person(request: Request, user_id: int) -> Page:
    """Display a user."""
    row = request.find("users", id=user_id)
    count = request.db.value("SELECT count(*) FROM issues WHERE assignee_id = ? AND state = 'open'", user_id)
    return Page(row["name"], "projects.person", user=row, count=count)


@site.form("/settings")
def settings(request: Request) -> Reply:
    """Display and save the settings."""
    values, errors = dict(request.member()), []
    if request.posted:
        values |= {**request.form.texts("name", "email", "digest"), "mentions": request.form.ticked("mentions")}
        errors = [] if values["name"] else ["The name must not be empty."]
        if "@" not in values["email"]:
            errors.append("Enter a valid e-mail address.")
        if values["digest"] not in DIGESTS:
            errors.append("Choose a digest.")
        if not errors:
            request.db.save("users", values)
            return Redirect("/settings", "Your settings have been saved.")
    return Page("Settings", "projects.settings", errors, values=values, digests=list(DIGESTS.items()))


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
    issues, pages = listed(request, "SELECT * FROM issues WHERE milestone_id = ? ORDER BY id", milestone_id)
    title = f"Milestone {row['title']}"
    return Page(title, "projects.milestone", milestone=row, closed=closed, issues=issues, pages=pages)


@site.form("/projects/{}/milestones/new")
def new_milestone(request: Request, project_id: int) -> Reply:
    """Create a milestone."""
    request.member()
    row = request.find("projects", id=project_id)
    values = {"project_id": project_id, "title": "", "due": "", "state": "open"}
    return _milestone_form(request, f"New milestone in {row['name']}", values)


@site.form("/milestones/{}/edit")
def edit_milestone(request: Request, milestone_id: int) -> Reply:
    """Display the edit form of a milestone, and save it."""
    return _milestone_form(request, "Edit milestone", dict(_milestone(request, milestone_id)))


def _milestone_form(request: Request, heading: str, values: dict[str, Any]) -> Reply:
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
@site.post("/milestones/{}/reopen")
def set_state(request: Request, milestone_id: int) -> Reply:
    """Close or reopen a milestone."""
    state = STATES[request.path.rpartition("/")[2]]
    row = _milestone(request, milestone_id)
    request.db.edit("milestones", {"id": milestone_id}, state=state)
    return Redirect(f"/milestones/{milestone_id}", f"The milestone {row['title']} is now {state}.")


@site.form("/milestones/{}/delete")
def delete_milestone(request: Request, milestone_id: int) -> Reply:
    """Delete a milestone and clear it in its issues, after a confirmation."""
    row = _milestone(request, milestone_id)
    if not request.posted:
        question = f"Delete the milestone {row['title']}?"
        return confirm(question, "Delete milestone", request.path, f"/milestones/{milestone_id}")
    request.db.edit("issues", {"milestone_id": milestone_id}, milestone_id=None)
    request.db.remove("milestones", id=milestone_id)
    return Redirect(f"/projects/{row['project_id']}", f"The milestone {row['title']} has been deleted.")
