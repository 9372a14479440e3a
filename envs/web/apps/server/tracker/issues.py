"""The list of issues with its filters and bulk changes, and the page of an issue with its comments."""

from ..choices import PRIORITIES, count_of
from ..data import Data, Row
from ..sites import TRACKER as site
from ..web import Filters, Page, Redirect, Refused, Reply, Request, confirm, paged

SORTS = {
    "newest": ("Newest first", "created DESC, issues.id DESC"),
    "oldest": ("Oldest first", "created, issues.id"),
    "title": ("Title", "issues.title, issues.id"),
    "priority": (
        "Priority, most urgent first",
        "instr('urgent high normal low', priority), issues.id",
    ),
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
    pages = paged(request, request.db.value(f"SELECT count(*) FROM issues WHERE {filters.where}", *filters.values))
    order = SORTS.get(request.query.text("sort"), SORTS["newest"])[1]
    rows = request.db.rows(
        "SELECT issues.*, projects.name AS project, users.name AS assignee FROM issues"
        " JOIN projects ON projects.id = project_id LEFT JOIN users ON users.id = assignee_id"
        f" WHERE {filters.where} ORDER BY {order} LIMIT 10 OFFSET ?",
        *(*filters.values, pages.offset),
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
def close(request: Request, issue_id: int) -> Reply:
    """Close an issue."""
    return _set_state(request, issue_id, "closed")


@site.post("/issues/{}/reopen")
def reopen(request: Request, issue_id: int) -> Reply:
    """Reopen an issue."""
    return _set_state(request, issue_id, "open")


def _set_state(request: Request, issue_id: int, state: str) -> Reply:
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
def add(request: Request, issue_id: int) -> Reply:
    """Add a comment to an issue."""
    user, text = request.member(), request.form.text("text")
    request.find("issues", id=issue_id)
    if not text:
        return issue_page(request, issue_id, NO_COMMENT)
    request.db.add("comments", issue_id=issue_id, author_id=user["id"], text=text, date=request.today)
    return Redirect(f"/issues/{issue_id}", "The comment has been added.")


@site.form("/comments/{}")
def edit(request: Request, comment_id: int) -> Reply:
    """Display the edit form of a comment, and save it."""
    row = request.find("comments", id=comment_id, author_id=request.member()["id"])
    text = request.form.text("text") if request.posted else row["text"]
    if not request.posted or not text:
        return Page("Edit comment", "projects.comment", [NO_COMMENT] if not text else [], path=request.path, text=text)
    request.db.edit("comments", {"id": comment_id}, text=text)
    return Redirect(f"/issues/{row['issue_id']}", "The comment has been saved.")


@site.form("/comments/{}/delete")
def delete(request: Request, comment_id: int) -> Reply:
    """Delete a comment after a confirmation."""
    row = request.find("comments", id=comment_id, author_id=request.member()["id"])
    back = f"/issues/{row['issue_id']}"
    if not request.posted:
        return confirm("Delete this comment?", "Delete comment", request.path, back, row["text"])
    request.db.remove("comments", id=comment_id)
    return Redirect(back, "The comment has been deleted.")
