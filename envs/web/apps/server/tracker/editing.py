"""Issue forms: create, edit and delete an issue."""

from typing import Any

from ..changes import create_issue, delete_issue, set_labels
from ..choices import PRIORITIES, issue_name
from ..sites import TRACKER as site
from ..web import Page, Redirect, Reply, Request, confirm

EMPTY = {"title": "", "description": "", "assignee_id": None, "priority": "normal", "milestone_id": None}


def _read_form(request: Request, project_id: int) -> tuple[dict[str, Any], list[int], list[str]]:
    """Return the columns of the issue, its labels, and the errors."""
    form, db = request.form, request.db
    assignee, milestone = form.number("assignee"), form.number("milestone")
    values = {**form.texts("title", "description", "priority"), "assignee_id": assignee, "milestone_id": milestone}
    labels = [number for number in form.numbers("label") if db.find("labels", id=number)]
    errors = [] if values["title"] else ["The title must not be empty."]
    if assignee is not None and not db.find("users", id=assignee):
        errors.append("Choose an existing user.")
    if milestone is not None and not db.find("milestones", id=milestone, project_id=project_id):
        errors.append("Choose a milestone of the project.")
    if values["priority"] not in PRIORITIES:
        errors.append("Choose a priority.")
    return values, labels, errors


def _form(
    request: Request, title: str, project_id: int, values: dict[str, Any], ticked: list[int], errors: list[str]
) -> Page:
    return Page(
        title,
        "projects.edit_issue",
        errors,
        path=request.path,
        people=request.db.rows("SELECT id, name FROM users ORDER BY name, id"),
        milestones=request.db.rows(
            "SELECT id, title FROM milestones WHERE project_id = ? ORDER BY due, id", project_id
        ),
        labels=request.db.rows("SELECT * FROM labels ORDER BY name"),
        priorities=[(each, each) for each in PRIORITIES],
        values=values,
        ticked=ticked,
    )


@site.form("/projects/{}/issues/new")
def new(request: Request, project_id: int) -> Reply:
    """Create an issue."""
    user, project = request.member(), request.find("projects", id=project_id)
    values, labels, errors = dict[str, Any](EMPTY), list[int](), list[str]()
    if request.posted:
        values, labels, errors = _read_form(request, project_id)
        if not errors:
            issue_id = create_issue(request.db, request.today, user["id"], labels, project_id=project_id, **values)
            return Redirect(f"/issues/{issue_id}", f"Issue #{issue_id} has been saved.")
    return _form(request, f"New issue in {project['name']}", project_id, values, labels, errors)


@site.form("/issues/{}/edit")
def edit(request: Request, issue_id: int) -> Reply:
    """Display the edit form of an issue, and save it."""
    request.member()
    row = request.find("issues", id=issue_id)
    values, errors = dict(row), list[str]()
    labels = [label["label_id"] for label in request.db.find("issue_labels", issue_id=issue_id)]
    if request.posted:
        values, labels, errors = _read_form(request, row["project_id"])
        if not errors:
            request.db.edit("issues", {"id": issue_id}, **values)
            set_labels(request.db, issue_id, labels)
            return Redirect(f"/issues/{issue_id}", f"Issue #{issue_id} has been saved.")
    return _form(request, f"Edit issue #{issue_id}", row["project_id"], values, labels, errors)


@site.form("/issues/{}/delete")
def delete(request: Request, issue_id: int) -> Reply:
    """Delete an issue with its comments, after a confirmation."""
    request.member()
    row = request.find("issues", id=issue_id)
    if not request.posted:
        return confirm(f"Delete {issue_name(row)}?", "Delete issue", request.path, f"/issues/{issue_id}")
    delete_issue(request.db, issue_id)
    return Redirect("/issues", f"Issue #{issue_id} has been deleted.")
