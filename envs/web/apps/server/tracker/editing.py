"""Issue forms: create, edit and delete an issue."""

from dataclasses import dataclass

from ..choices import PRIORITIES
from ..data import Data, Row
from ..html import area, button, field, form, select, tag, tick
from ..web import Page, Redirect, Reply, Request, confirm
from .base import issue_name, labels_of, site


@dataclass(frozen=True)
class Fields:
    """The values of an issue's form."""

    title: str = ""
    description: str = ""
    assignee: int | None = None
    priority: str = "normal"
    milestone: int | None = None
    labels: tuple[int, ...] = ()


def _form(request: Request, title: str, project_id: int, values: Fields, errors: tuple[str, ...] = ()) -> Page:
    people = request.db.rows("SELECT * FROM users ORDER BY name, id")
    milestones = request.db.rows("SELECT * FROM milestones WHERE project_id = ? ORDER BY due, id", project_id)
    labels = request.db.rows("SELECT * FROM labels ORDER BY name")
    ticks = [tag("div", tick(row["name"], "label", row["id"] in values.labels, row["id"])) for row in labels]
    body = form(
        request.path,
        field("Title", "title", values.title),
        area("Description", "description", values.description, 5),
        select(
            "Assignee", "assignee", [("", "Unassigned"), *((row["id"], row["name"]) for row in people)], values.assignee
        ),
        select("Priority", "priority", [(each, each) for each in PRIORITIES], values.priority),
        select(
            "Milestone",
            "milestone",
            [("", "None"), *((row["id"], row["title"]) for row in milestones)],
            values.milestone,
        ),
        tag("fieldset", tag("legend", "Labels"), ticks),
        tag("p", button("Save issue")),
    )
    return Page(title, body, errors)


def _read_form(request: Request, project_id: int) -> tuple[Fields, tuple[str, ...]]:
    form, db = request.form, request.db
    values = Fields(
        form.text("title"),
        form.text("description"),
        form.number("assignee"),
        form.text("priority"),
        form.number("milestone"),
        tuple(number for number in form.numbers("label") if db.row("SELECT 1 FROM labels WHERE id = ?", number)),
    )
    errors = [] if values.title else ["The title must not be empty."]
    if values.assignee is not None and not db.row("SELECT 1 FROM users WHERE id = ?", values.assignee):
        errors.append("Choose an existing user.")
    milestone = "SELECT 1 FROM milestones WHERE id = ? AND project_id = ?"
    if values.milestone is not None and not db.row(milestone, values.milestone, project_id):
        errors.append("Choose a milestone of the project.")
    if values.priority not in PRIORITIES:
        errors.append("Choose a priority.")
    return values, tuple(errors)


def _label(db: Data, issue_id: int, labels: tuple[int, ...]) -> None:
    db.run("DELETE FROM issue_labels WHERE issue_id = ?", issue_id)
    for label in labels:
        db.run("INSERT INTO issue_labels VALUES (?, ?)", issue_id, label)


def _project(request: Request, project_id: int) -> Row:
    return request.one("SELECT * FROM projects WHERE id = ?", project_id)


@site.get("/projects/{}/issues/new")
def new(request: Request, project_id: int) -> Page:
    """Display the form for a new issue."""
    request.member()
    return _form(request, f"New issue in {_project(request, project_id)['name']}", project_id, Fields())


@site.post("/projects/{}/issues/new")
def create(request: Request, project_id: int) -> Reply:
    """Create an issue."""
    user, project = request.member(), _project(request, project_id)
    values, errors = _read_form(request, project_id)
    if errors:
        return _form(request, f"New issue in {project['name']}", project_id, values, errors)
    issue_id = request.db.run(
        "INSERT INTO issues (project_id, title, description, author_id, assignee_id, priority, state, milestone_id,"
        " created) VALUES (?, ?, ?, ?, ?, ?, 'open', ?, ?)",
        *(project_id, values.title, values.description, user["id"], values.assignee, values.priority),
        *(values.milestone, request.today),
    )
    _label(request.db, issue_id, values.labels)
    return Redirect(f"/issues/{issue_id}", f"Issue #{issue_id} has been saved.")


def _issue(request: Request, issue_id: int) -> Row:
    request.member()
    return request.one("SELECT * FROM issues WHERE id = ?", issue_id)


@site.get("/issues/{}/edit")
def edit(request: Request, issue_id: int) -> Page:
    """Display the edit form of an issue."""
    row = _issue(request, issue_id)
    labels = tuple(label["id"] for label in labels_of(request.db, issue_id))
    values = Fields(row["title"], row["description"], row["assignee_id"], row["priority"], row["milestone_id"], labels)
    return _form(request, f"Edit issue #{issue_id}", row["project_id"], values)


@site.post("/issues/{}/edit")
def save(request: Request, issue_id: int) -> Reply:
    """Save an issue."""
    row = _issue(request, issue_id)
    values, errors = _read_form(request, row["project_id"])
    if errors:
        return _form(request, f"Edit issue #{issue_id}", row["project_id"], values, errors)
    request.db.run(
        "UPDATE issues SET title = ?, description = ?, assignee_id = ?, priority = ?, milestone_id = ? WHERE id = ?",
        *(values.title, values.description, values.assignee, values.priority, values.milestone, issue_id),
    )
    _label(request.db, issue_id, values.labels)
    return Redirect(f"/issues/{issue_id}", f"Issue #{issue_id} has been saved.")


@site.get("/issues/{}/delete")
def ask_delete(request: Request, issue_id: int) -> Page:
    """Display the confirmation page."""
    row = _issue(request, issue_id)
    return confirm(f"Delete {issue_name(row)}?", "Delete issue", request.path, f"/issues/{issue_id}")


@site.post("/issues/{}/delete")
def delete(request: Request, issue_id: int) -> Reply:
    """Delete an issue with its comments."""
    _issue(request, issue_id)
    request.db.run("UPDATE issues SET duplicate_of = NULL WHERE duplicate_of = ?", issue_id)
    request.db.run("DELETE FROM comments WHERE issue_id = ?", issue_id)
    request.db.run("DELETE FROM issue_labels WHERE issue_id = ?", issue_id)
    request.db.run("DELETE FROM issues WHERE id = ?", issue_id)
    return Redirect("/issues", f"Issue #{issue_id} has been deleted.")
