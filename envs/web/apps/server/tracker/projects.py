"""Home, projects, labels, users, and the user's settings."""

from ..choices import DIGESTS
from ..sites import TRACKER as site
from ..web import Page, Redirect, Reply, Request, confirm


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
