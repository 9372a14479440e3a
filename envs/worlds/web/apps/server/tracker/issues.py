"""Issues: the list with its filters and bulk changes, the page with its comments, and all changes of one issue."""

from typing import Any

from ..changes import create_issue, delete_issue, set_labels
from ..choices import PRIORITIES, count_of, issue_name
from ..data import Data, Row
from ..sites import TRACKER as site
from ..web import Filters, Page, Redirect, Refused, Reply, Request, confirm, listed

SORTS = {
    "newest": ("Newest first", "created DESC, issues.id DESC"),
    "oldest": ("Oldest first", "created, issues.id"),
    "title": ("Title", "issues.title, issues.id"),
    "priority": ("Priority, most urgent first", "instr('urgent high normal low', priority), issues.id"),
}
STATES = {"close": "closed", "reopen": "open"}
OPTIONS = {
    "people": "SELECT id, name FROM users ORDER BY name, id",
    "projects": "SELECT id, name FROM projects ORDER BY name",
    "labels": "SELECT id, name FROM labels ORDER BY name",
    "milestones": "SELECT milestones.id, projects.name || ': ' || title FROM milestones"
    " JOIN projects ON projects.id = project_id ORDER BY projects.name, due, milestones.id",
}


@site.get("/issues")
def issues(request: Request) -> Page:
    """Display the issues that match the filters."""
    filters = Filters(request.query, "issues.title || ' ' || issues.description")
    filters.number("project", "issues.project_id = ?")
    filters.text("state", "state = ?")
    filters.number("label", "issues.id IN (SELECT issue_id FROM issue_labels WHERE label_id = ?)")
    filters.text("priority", "priority = ?")
    filters.number("assignee", "coalesce(assignee_id, 0) = ?")
    filters.number("author", "author_id = ?")
    filters.number("milestone", "milestone_id = ?")
    order = SORTS.get(request.query.text("sort"), SORTS["newest"])[1]
    rows, pages = listed(
        request,
        "SELECT issues.*, projects.name AS project, users.name AS assignee FROM issues"
        " JOIN projects ON projects.id = project_id LEFT JOIN users ON users.id = assignee_id"
        f" WHERE {filters.where} ORDER BY {order}",
        *filters.values,
    )
    return Page(
        "Issues",
        "issues.issues",
        query=request.query,
        options={name: request.db.rows(sql) for name, sql in OPTIONS.items()},
        priorities=[(each, each) for each in PRIORITIES],
        sorts=[(key, text) for key, (text, _) in SORTS.items()],
        issues=rows,
        labels={row["id"]: label_names(request.db, row["id"]) for row in rows},
        pages=pages,
    )


def label_names(db: Data, issue_id: int) -> str:
    """Return the names of the labels of an issue in one text, ordered by name."""
    rows = db.rows("SELECT name FROM issue_labels JOIN labels ON id = label_id WHERE issue_id = ? ORDER BY 1", issue_id)
    return ", ".join(row["name"] for row in rows)


@site.get("/issues/{}")
def issue(request: Request, issue_id: int) -> Page:
    """Display an issue with its comments."""
    return issue_page(request, issue_id)


def issue_page(request: Request, issue_id: int, *errors: str) -> Page:
    """Return the page of an issue, with the errors of its comment form."""
    row = request.one(
        "SELECT issues.*, projects.name AS project, authors.name AS author, users.name AS assignee, milestones.title"
        " AS milestone FROM issues JOIN projects ON projects.id = issues.project_id"
        " JOIN users AS authors ON authors.id = author_id LEFT JOIN users ON users.id = assignee_id"
        " LEFT JOIN milestones ON milestones.id = milestone_id WHERE issues.id = ?",
        issue_id,
    )
    comments = request.db.rows(
        "SELECT comments.*, users.name FROM comments JOIN users ON users.id = author_id WHERE issue_id = ?"
        " ORDER BY comments.id",
        issue_id,
    )
    return Page(
        f"#{issue_id} {row['title']}",
        "issues.issue",
        errors,
        issue=row,
        original=request.db.row("SELECT * FROM issues WHERE id = ?", row["duplicate_of"]),
        labels=label_names(request.db, issue_id),
        comments=comments,
        user=request.user(),
    )


@site.post("/issues/{}/close")
@site.post("/issues/{}/reopen")
def set_state(request: Request, issue_id: int) -> Reply:
    """Close or reopen an issue."""
    state = STATES[request.path.rpartition("/")[2]]
    request.member()
    request.find("issues", id=issue_id)
    request.db.edit("issues", {"id": issue_id}, state=state)
    return Redirect(f"/issues/{issue_id}", f"Issue #{issue_id} is now {state}.")


@site.form("/bulk")
def bulk(request: Request) -> Reply:
    """Close or reopen the selected issues after a confirmation."""
    request.member()
    form = request.form if request.posted else request.query
    action = form.text("action")
    if action not in STATES:
        raise Refused("Choose an action for the selected issues.", 422)
    rows: list[Row] = [request.find("issues", id=number) for number in sorted(form.numbers("issue"))]
    count = count_of(len(rows), "issue")
    if request.posted:
        for row in rows:
            request.db.edit("issues", {"id": row["id"]}, state=STATES[action])
        return Redirect("/issues", f"{count} set to {STATES[action]}.")
    if not rows:
        return Redirect("/issues", "Select at least one issue.")
    verb = action.capitalize()
    return Page(f"{verb} these issues?", "issues.bulk", action=action, issues=rows, yes=f"{verb} {count}")


NO_COMMENT = "The comment must not be empty."


@site.post("/issues/{}/comments")
def add_comment(request: Request, issue_id: int) -> Reply:
    """Add a comment to an issue."""
    user, text = request.member(), request.form.text("text")
    request.find("issues", id=issue_id)
    if not text:
        return issue_page(request, issue_id, NO_COMMENT)
    request.db.add("comments", issue_id=issue_id, author_id=user["id"], text=text, date=request.today)
    return Redirect(f"/issues/{issue_id}", "The comment has been added.")


@site.form("/comments/{}")
def edit_comment(request: Request, comment_id: int) -> Reply:
    """Display the edit form of a comment, and save it."""
    row = request.find("comments", id=comment_id, author_id=request.member()["id"])
    text = request.form.text("text") if request.posted else row["text"]
    if not request.posted or not text:
        return Page("Edit comment", "issues.comment", [NO_COMMENT] if not text else [], path=request.path, text=text)
    request.db.edit("comments", {"id": comment_id}, text=text)
    return Redirect(f"/issues/{row['issue_id']}", "The comment has been saved.")


@site.form("/comments/{}/delete")
def delete_comment(request: Request, comment_id: int) -> Reply:
    """Delete a comment after a confirmation."""
    row = request.find("comments", id=comment_id, author_id=request.member()["id"])
    back = f"/issues/{row['issue_id']}"
    if not request.posted:
        return confirm("Delete this comment?", "Delete comment", request.path, back, row["text"])
    request.db.remove("comments", id=comment_id)
    return Redirect(back, "The comment has been deleted.")


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


def _issue_form(
    request: Request, title: str, project_id: int, values: dict[str, Any], ticked: list[int], errors: list[str]
) -> Page:
    return Page(
        title,
        "issues.edit_issue",
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
def new_issue(request: Request, project_id: int) -> Reply:
    """Create an issue."""
    user, project = request.member(), request.find("projects", id=project_id)
    values, labels, errors = dict[str, Any](EMPTY), list[int](), list[str]()
    if request.posted:
        values, labels, errors = _read_form(request, project_id)
        if not errors:
            issue_id = create_issue(request.db, request.today, user["id"], labels, project_id=project_id, **values)
            return Redirect(f"/issues/{issue_id}", f"Issue #{issue_id} has been saved.")
    return _issue_form(request, f"New issue in {project['name']}", project_id, values, labels, errors)


@site.form("/issues/{}/edit")
def edit_issue(request: Request, issue_id: int) -> Reply:
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
    return _issue_form(request, f"Edit issue #{issue_id}", row["project_id"], values, labels, errors)


@site.form("/issues/{}/delete")
def remove_issue(request: Request, issue_id: int) -> Reply:
    """Delete an issue with its comments, after a confirmation."""
    request.member()
    row = request.find("issues", id=issue_id)
    if not request.posted:
        return confirm(f"Delete {issue_name(row)}?", "Delete issue", request.path, f"/issues/{issue_id}")
    delete_issue(request.db, issue_id)
    return Redirect("/issues", f"Issue #{issue_id} has been deleted.")


@site.form("/issues/{}/move")
def choose_project(request: Request, issue_id: int) -> Reply:
    """Step 1: choose a project."""
    request.member()
    row, draft, errors = request.find("issues", id=issue_id), request.draft(f"move {issue_id}"), []
    rows = request.db.rows("SELECT id, name FROM projects WHERE id != ? ORDER BY name", row["project_id"])
    if request.posted:
        project = request.form.number("project")
        if project in [each["id"] for each in rows]:
            draft.clear()
            draft["project"] = project
            return Redirect(f"/issues/{issue_id}/move/milestone")
        errors = ["Choose a project."]
    title = f"Move issue #{issue_id}, step 1 of 3: project"
    return Page(title, "issues.choose_project", errors, path=request.path, projects=rows, draft=draft)


@site.form("/issues/{}/move/milestone")
def choose_milestone(request: Request, issue_id: int) -> Reply:
    """Step 2: choose a milestone."""
    request.member()
    request.find("issues", id=issue_id)
    draft = request.draft(f"move {issue_id}")
    if "project" not in draft:
        return Redirect(f"/issues/{issue_id}/move")
    rows = request.db.rows("SELECT id, title FROM milestones WHERE project_id = ? ORDER BY due, id", draft["project"])
    if request.posted:
        number = request.form.number("milestone")
        draft["milestone"] = number if number in [row["id"] for row in rows] else None
        return Redirect(f"/issues/{issue_id}/move/confirm")
    title = f"Move issue #{issue_id}, step 2 of 3: milestone"
    return Page(title, "issues.choose_milestone", path=request.path, milestones=rows, draft=draft)


@site.form("/issues/{}/move/confirm")
def move(request: Request, issue_id: int) -> Reply:
    """Step 3: move the issue."""
    request.member()
    row, draft = request.find("issues", id=issue_id), request.draft(f"move {issue_id}")
    if not request.posted:
        if "milestone" not in draft:
            return Redirect(f"/issues/{issue_id}/move/milestone")
        project = request.db.value("SELECT name FROM projects WHERE id = ?", draft["project"])
        milestone = request.db.value("SELECT title FROM milestones WHERE id = ?", draft["milestone"])
        facts = {"Issue": issue_name(row), "New project": project, "Milestone": milestone or "none"}
        title = f"Move issue #{issue_id}, step 3 of 3: confirm"
        return Page(title, "common.review", path=request.path, facts=facts, yes="Move issue")
    del request.session.drafts[f"move {issue_id}"]
    if "milestone" not in draft:
        return Redirect(f"/issues/{issue_id}/move")
    request.db.edit("issues", {"id": issue_id}, project_id=draft["project"], milestone_id=draft["milestone"])
    return Redirect(f"/issues/{issue_id}", f"Issue #{issue_id} has been moved.")


@site.form("/issues/{}/duplicate")
def duplicate(request: Request, issue_id: int) -> Reply:
    """Close the issue as a duplicate of another one."""
    request.member()
    row, text, errors = request.find("issues", id=issue_id), request.form.text("original").removeprefix("#"), []
    if request.posted:
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
        original = request.db.row("SELECT * FROM issues WHERE id = ?", number)
        if original is not None and number != issue_id and original["duplicate_of"] != issue_id:
            request.db.edit("issues", {"id": issue_id}, duplicate_of=number, state="closed")
            return Redirect(f"/issues/{issue_id}", f"Issue #{issue_id} is now a duplicate of #{number}.")
        errors = ["Enter the number of another issue."]
    title = f"Mark {issue_name(row)} as duplicate"
    return Page(title, "issues.duplicate", errors, path=request.path, number=text)
