"""The list of issues with its filters, and the page of an issue."""

from ..choices import PRIORITIES
from ..data import Row
from ..html import Html, area, button, facts, field, form, join, link, paragraphs, press, select, table, tag, tick
from ..web import Page, Redirect, Reply, Request, paged
from .base import issue_link, issue_name, labels_of, site

SORTS = {
    "newest": ("Newest first", "created DESC, issues.id DESC"),
    "oldest": ("Oldest first", "created, issues.id"),
    "title": ("Title", "issues.title, issues.id"),
    "priority": (
        "Priority, most urgent first",
        "instr('urgent high normal low', priority), issues.id",
    ),
}


@site.get("/issues")
def issues(request: Request) -> Page:
    """Display the issues that match the filters."""
    where, values = _where(request)
    count = request.db.value(f"SELECT count(*) FROM issues WHERE {where}", *values)
    skip, pages = paged(request, count)
    order = SORTS.get(request.query.text("sort"), SORTS["newest"])[1]
    rows = request.db.rows(
        "SELECT issues.*, projects.name AS project, users.name AS assignee FROM issues"
        " JOIN projects ON projects.id = project_id LEFT JOIN users ON users.id = assignee_id"
        f" WHERE {where} ORDER BY {order} LIMIT 10 OFFSET ?",
        *values,
        skip,
    )
    return Page("Issues", join(_filters(request), tag("h2", "Results"), _list(request, rows), pages))


def _options(request: Request, sql: str) -> list[tuple[object, str]]:
    return [("", "Any"), *((row["id"], row["name"]) for row in request.db.rows(sql))]


def _filters(request: Request) -> Html:
    asked = request.query
    people = _options(request, "SELECT id, name FROM users ORDER BY name, id")
    milestones = "SELECT milestones.id, projects.name || ': ' || title AS name FROM milestones JOIN projects"
    milestones += " ON projects.id = project_id ORDER BY projects.name, due, milestones.id"
    states = [("", "Any"), ("open", "open"), ("closed", "closed")]
    return form(
        "/issues",
        field("Search for", "text", asked.text("text"), "search"),
        select(
            "Project",
            "project",
            _options(request, "SELECT id, name FROM projects ORDER BY name"),
            asked.text("project"),
        ),
        select("State", "state", states, asked.text("state")),
        select("Label", "label", _options(request, "SELECT id, name FROM labels ORDER BY name"), asked.text("label")),
        select("Priority", "priority", [("", "Any"), *((each, each) for each in PRIORITIES)], asked.text("priority")),
        select("Assignee", "assignee", [*people, (0, "Unassigned")], asked.text("assignee")),
        select("Author", "author", people, asked.text("author")),
        select("Milestone", "milestone", _options(request, milestones), asked.text("milestone")),
        select("Sort by", "sort", [(key, text) for key, (text, _) in SORTS.items()], asked.text("sort")),
        tag("p", button("Search")),
        method="get",
    )


def _where(request: Request) -> tuple[str, list[object]]:
    asked = request.query
    where, values = ["1"], list[object]()
    for word in asked.text("text").lower().split():
        where.append("instr(lower(issues.title || ' ' || issues.description), ?) > 0")
        values.append(word)
    for name, clause, value in (
        ("project", "issues.project_id = ?", asked.number("project")),
        ("state", "state = ?", asked.text("state")),
        ("label", "issues.id IN (SELECT issue_id FROM issue_labels WHERE label_id = ?)", asked.number("label")),
        ("priority", "priority = ?", asked.text("priority")),
        ("assignee", "coalesce(assignee_id, 0) = ?", asked.number("assignee")),
        ("author", "author_id = ?", asked.number("author")),
        ("milestone", "milestone_id = ?", asked.number("milestone")),
    ):
        if asked.text(name) and value is not None:
            where.append(clause)
            values.append(value)
    return " AND ".join(where), values


def _list(request: Request, rows: list[Row]) -> Html:
    cells = [
        (
            *(tick(f"Select #{row['id']}", "issue", value=row["id"]), issue_link(row), row["project"], row["state"]),
            *(row["priority"], row["assignee"] or "unassigned"),
            ", ".join(label["name"] for label in labels_of(request.db, row["id"])),
        )
        for row in rows
    ]
    headers = ("Select", "Issue", "Project", "State", "Priority", "Assignee", "Labels")
    actions = select("Action for selected issues", "action", [("close", "Close"), ("reopen", "Reopen")])
    return form("/bulk", table("Issues", headers, cells), actions, button("Continue"), method="get")


@site.get("/issues/{}")
def issue(request: Request, issue_id: int) -> Page:
    """Display an issue with its comments."""
    return issue_page(request, issue_id)


def issue_page(request: Request, issue_id: int, text: str = "", errors: tuple[str, ...] = ()) -> Page:
    """Return the page of an issue; ``text`` is the content of the comment form."""
    row = request.one(
        "SELECT issues.*, projects.name AS project, authors.name AS author, users.name AS assignee, milestones.title"
        " AS milestone FROM issues JOIN projects ON projects.id = issues.project_id"
        " JOIN users AS authors ON authors.id = author_id LEFT JOIN users ON users.id = assignee_id"
        " LEFT JOIN milestones ON milestones.id = milestone_id WHERE issues.id = ?",
        issue_id,
    )
    original = request.db.row("SELECT * FROM issues WHERE id = ?", row["duplicate_of"])
    summary = facts(
        [
            ("Project", link(row["project"], f"/projects/{row['project_id']}")),
            ("State", row["state"]),
            ("Priority", row["priority"]),
            ("Author", row["author"]),
            ("Assignee", link(row["assignee"], f"/users/{row['assignee_id']}") if row["assignee"] else "unassigned"),
            ("Milestone", link(row["milestone"], f"/milestones/{row['milestone_id']}") if row["milestone"] else "none"),
            ("Labels", ", ".join(label["name"] for label in labels_of(request.db, issue_id)) or "none"),
            ("Created", row["created"]),
            ("Duplicate of", issue_link(original) if original else "none"),
        ]
    )
    path = f"/issues/{issue_id}"
    actions = [link("Edit issue", f"{path}/edit"), " ", link("Move to another project", f"{path}/move"), " "]
    actions += [link("Mark as duplicate", f"{path}/duplicate"), " ", link("Delete issue", f"{path}/delete")]
    toggle = (
        press("Close issue", f"{path}/close") if row["state"] == "open" else press("Reopen issue", f"{path}/reopen")
    )
    comment = form(f"{path}/comments", area("Comment", "text", text, 4), button("Add comment"))
    body = join(
        summary,
        paragraphs(row["description"]),
        tag("p", actions),
        toggle,
        tag("h2", "Comments"),
        _comments(request, issue_id),
    )
    return Page(issue_name(row), join(body, comment), errors)


def _comments(request: Request, issue_id: int) -> Html:
    rows = request.db.rows(
        "SELECT comments.*, users.name FROM comments JOIN users ON users.id = author_id WHERE issue_id = ?"
        " ORDER BY comments.id",
        issue_id,
    )
    user = request.user()

    def shown(number: int, row: Row) -> Html:
        own = None
        if user and user["id"] == row["author_id"]:
            edit = link(f"Edit comment {number}", f"/comments/{row['id']}")
            own = tag("p", edit, " ", link(f"Delete comment {number}", f"/comments/{row['id']}/delete"))
        return tag(
            "article", tag("h3", f"Comment {number} by {row['name']}, {row['date']}"), paragraphs(row["text"]), own
        )

    return join([shown(number, row) for number, row in enumerate(rows, 1)])


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
    request.one("SELECT 1 FROM issues WHERE id = ?", issue_id)
    request.db.run("UPDATE issues SET state = ? WHERE id = ?", state, issue_id)
    return Redirect(f"/issues/{issue_id}", f"Issue #{issue_id} is now {state}.")
