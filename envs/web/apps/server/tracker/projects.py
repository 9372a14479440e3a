"""Home, projects, labels and users."""

from ..html import button, count_of, field, form, join, link, paragraphs, table, tag
from ..web import Page, Redirect, Reply, Request, confirm
from .base import issue_link, site


@site.get("/")
def home(request: Request) -> Page:
    """Display the projects."""
    rows = request.db.rows(
        "SELECT projects.*, count(issues.id) AS issues, coalesce(sum(issues.state = 'open'), 0) AS open FROM projects"
        " LEFT JOIN issues ON project_id = projects.id GROUP BY projects.id ORDER BY projects.name"
    )
    cells = [(link(row["name"], f"/projects/{row['id']}"), row["open"], row["issues"]) for row in rows]
    return Page("Projects", table("Projects", ("Project", "Open issues", "All issues"), cells))


@site.get("/projects/{}")
def project(request: Request, project_id: int) -> Page:
    """Display a project with its milestones and newest issues."""
    row = request.one("SELECT * FROM projects WHERE id = ?", project_id)
    milestones = request.db.rows("SELECT * FROM milestones WHERE project_id = ? ORDER BY due, id", project_id)
    newest = request.db.rows(
        "SELECT * FROM issues WHERE project_id = ? ORDER BY created DESC, id DESC LIMIT 5", project_id
    )
    cells = [(link(each["title"], f"/milestones/{each['id']}"), each["due"], each["state"]) for each in milestones]
    body = join(
        paragraphs(row["description"]),
        tag("p", link(f"All issues of {row['name']}", f"/issues?project={project_id}")),
        tag("p", link("New issue", f"/projects/{project_id}/issues/new")),
        tag("h2", "Milestones"),
        table("Milestones", ("Milestone", "Due", "State"), cells),
        tag("p", link("New milestone", f"/projects/{project_id}/milestones/new")),
        tag("h2", "Newest issues"),
        table("Newest issues", ("Issue", "State"), [(issue_link(each), each["state"]) for each in newest]),
    )
    return Page(row["name"], body)


@site.get("/labels")
def labels(request: Request) -> Page:
    """Display the labels and the form of a new one."""
    return _labels_page(request)


def _labels_page(request: Request, name: str = "", errors: tuple[str, ...] = ()) -> Page:
    rows = request.db.rows(
        "SELECT labels.*, count(issue_id) AS issues FROM labels LEFT JOIN issue_labels ON label_id = labels.id"
        " GROUP BY labels.id ORDER BY name"
    )
    cells = [
        (
            *(link(row["name"], f"/issues?label={row['id']}"), row["issues"]),
            link(f"Delete label {row['name']}", f"/labels/{row['id']}/delete"),
        )
        for row in rows
    ]
    new = form("/labels", field("New label", "name", name), button("Add label"))
    return Page("Labels", join(table("Labels", ("Label", "Issues", "Delete"), cells), new), errors)


@site.post("/labels")
def add_label(request: Request) -> Reply:
    """Add a label."""
    request.member()
    name = request.form.text("name")
    if not name:
        return _labels_page(request, name, ("The label must not be empty.",))
    if request.db.row("SELECT 1 FROM labels WHERE name = ?", name):
        return _labels_page(request, name, ("This label already exists.",))
    request.db.run("INSERT INTO labels (name) VALUES (?)", name)
    return Redirect("/labels", f"The label {name} has been added.")


@site.get("/labels/{}/delete")
def ask_delete_label(request: Request, label_id: int) -> Page:
    """Display the confirmation page."""
    request.member()
    row = request.one("SELECT * FROM labels WHERE id = ?", label_id)
    return confirm(f"Delete the label {row['name']}?", "Delete label", request.path, "/labels")


@site.post("/labels/{}/delete")
def delete_label(request: Request, label_id: int) -> Reply:
    """Delete a label, and remove it from every issue."""
    request.member()
    row = request.one("SELECT * FROM labels WHERE id = ?", label_id)
    request.db.run("DELETE FROM issue_labels WHERE label_id = ?", label_id)
    request.db.run("DELETE FROM labels WHERE id = ?", label_id)
    return Redirect("/labels", f"The label {row['name']} has been deleted.")


@site.get("/users/{}")
def person(request: Request, user_id: int) -> Page:
    """Display a user."""
    row = request.one("SELECT * FROM users WHERE id = ?", user_id)
    open_count = request.db.value("SELECT count(*) FROM issues WHERE assignee_id = ? AND state = 'open'", user_id)
    body = join(
        tag("p", f"User name {row['login']}, {row['email']}, {count_of(open_count, 'open issue')} assigned."),
        tag("p", link(f"Issues assigned to {row['name']}", f"/issues?assignee={user_id}")),
    )
    return Page(row["name"], body)
