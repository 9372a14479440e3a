"""Tasks in the issue tracker that take several issues, steps or things: comments, duplicates, milestones, moving."""

from ..draws import Deal, NoInstance
from ..state import Row, World
from ..worlds.tracker import REMARKS
from .acts import as_user, button, choose, fill, link, log_in, radio, tick
from .template import Acts, Plan
from .tracker import book, closed, open_issue, untouched

DIGESTS = {"daily": "Every day", "weekly": "Every week", "never": "Never"}


def _date(deal: Deal) -> str:
    return f"2032-{deal.number(1, 12):02}-{deal.number(1, 28):02}"


@book.template("two")
def comment_and_close(deal: Deal, world: World) -> Plan:
    """Comment on an issue and close it."""
    user, (issue, other) = deal.pick(world.tables["users"]), deal.several(world.rows("issues", state="open"), 2)
    text, wrong = deal.several(REMARKS, 2)
    after = world.after().edit("issues", {"id": issue["id"]}, state="closed")
    after.add("comments", issue_id=issue["id"], author_id=user["id"], text=text, date=world.today)

    def done(issue: Row, text: str) -> Acts:
        said = (fill("Comment", text), button("Add comment"), button("Close issue"))
        return (*log_in(user), *open_issue(issue), *said)

    return Plan(
        f"{as_user(user)}. Add the comment '{text}' to the issue '{issue['title']}', then close it.",
        done(issue, text),
        (done(other, text), done(issue, wrong), done(issue, text)[:-1]),
        after,
    )


@book.template("delete")
def delete_comment(deal: Deal, world: World) -> Plan:
    """Delete a comment of one's own, told by its issue."""
    comment = deal.pick(world.tables["comments"])
    issue, user = world.row("issues", id=comment["issue_id"]), world.row("users", id=comment["author_id"])
    rows = world.rows("comments", issue_id=issue["id"])
    if len([row for row in rows if row["author_id"] == user["id"]]) > 1:
        raise NoInstance
    other = deal.pick([row for row in world.rows("comments", author_id=user["id"]) if row is not comment])

    def deleted(comment: Row) -> Acts:
        issue = world.row("issues", id=comment["issue_id"])
        number = world.rows("comments", issue_id=issue["id"]).index(comment) + 1
        return (*open_issue(issue), link(f"Delete comment {number}"), button("Delete comment"))

    return Plan(
        f"{as_user(user)} and delete the comment that you wrote on the issue '{issue['title']}'.",
        (*log_in(user), *deleted(comment)),
        (
            (*log_in(user), *deleted(other)),
            (*log_in(user), *deleted(comment)[:-1]),
            (*log_in(user), *deleted(comment), *closed(untouched(world))),
        ),
        world.after().remove("comments", id=comment["id"]),
    )


@book.template("search")
def close_all(deal: Deal, world: World) -> Plan:
    """Close all open issues of a project that have a label."""
    user, project = deal.pick(world.tables["users"]), deal.pick(world.tables["projects"])
    label = deal.pick(world.tables["labels"])
    labelled = {row["issue_id"] for row in world.rows("issue_labels", label_id=label["id"])}
    issues = [row for row in world.rows("issues", project_id=project["id"], state="open") if row["id"] in labelled]
    if not 2 <= len(issues) <= 6:
        raise NoInstance
    after = world.after()
    for issue in issues:
        after.edit("issues", {"id": issue["id"]}, state="closed")
    begin = (
        *(*log_in(user), link("Issues"), choose("Project", project["name"]), choose("State", "open")),
        *(choose("Label", label["name"]), button("Search")),
    )

    def selected(issues: list[Row]) -> Acts:
        return (*(tick(f"Select #{issue['id']}") for issue in issues), button("Continue"))

    last = (button(f"Close {len(issues)} issues"),)
    return Plan(
        f"{as_user(user)} and close every open issue of the project {project['name']} that has the label "
        f"{label['name']}.",
        (*begin, *selected(issues), *last),
        (
            (*begin, *selected(issues[1:]), button(f"Close {len(issues) - 1} issues")),
            (*begin, *selected(issues)),
            (*begin, *selected(issues), *last, *closed(untouched(world, *issues))),
        ),
        after,
    )


@book.template("two")
def mark_duplicate(deal: Deal, world: World) -> Plan:
    """Mark an issue as a duplicate of another."""
    user = deal.pick(world.tables["users"])
    issue, original = deal.several(world.rows("issues", state="open"), 2)
    other = untouched(world, issue, original)

    def marked(issue: Row, original: Row) -> Acts:
        asked = (link("Mark as duplicate"), fill("Number of the original issue", original["id"]))
        return (*log_in(user), *open_issue(original), *open_issue(issue), *asked, button("Mark as duplicate"))

    return Plan(
        f"{as_user(user)}. Mark the issue '{issue['title']}' as a duplicate of the issue '{original['title']}'.",
        marked(issue, original),
        (marked(original, issue), marked(issue, other), marked(issue, original)[:-1]),
        world.after().edit("issues", {"id": issue["id"]}, duplicate_of=original["id"], state="closed"),
    )


@book.template("two")
def plan_milestone(deal: Deal, world: World) -> Plan:
    """Make a milestone and put an issue into it."""
    user, issue = deal.pick(world.tables["users"]), deal.pick(world.tables["issues"])
    project = world.row("projects", id=issue["project_id"])
    title, due = f"{deal.pick(('Version', 'Stage', 'Sprint'))} {deal.number(2, 30)}", _date(deal)
    other = deal.pick([row for row in world.rows("issues", project_id=project["id"]) if row is not issue])
    after = world.after()
    number = after.add("milestones", project_id=project["id"], title=title, due=due, state="open")
    after.edit("issues", {"id": issue["id"]}, milestone_id=number)
    made = (
        *(*log_in(user), link("Projects"), link(project["name"]), link("New milestone")),
        *(fill("Title", title), fill("Due date (YYYY-MM-DD)", due), button("Save milestone")),
    )

    def put(issue: Row) -> Acts:
        return (*open_issue(issue), link("Edit issue"), choose("Milestone", title), button("Save issue"))

    return Plan(
        f"{as_user(user)}. In the project {project['name']}, create a milestone '{title}' that is due on {due}, and "
        "put "
        f"the issue '{issue['title']}' into it.",
        (*made, *put(issue)),
        (made, (*made, *put(other)), (*made, *put(issue), *put(other))),
        after,
    )


@book.template("edit")
def postpone(deal: Deal, world: World) -> Plan:
    """Change when a milestone is due."""
    user, (milestone, other) = deal.pick(world.tables["users"]), deal.several(world.tables["milestones"], 2)
    due = _date(deal)

    def changed(milestone: Row) -> Acts:
        project = world.row("projects", id=milestone["project_id"])
        opened = (link("Projects"), link(project["name"]), link(milestone["title"]), link("Edit milestone"))
        return (*log_in(user), *opened, fill("Due date (YYYY-MM-DD)", due), button("Save milestone"))

    project = world.row("projects", id=milestone["project_id"])
    right = changed(milestone)
    return Plan(
        f"{as_user(user)}. Change the due date of the milestone {milestone['title']} of the project "
        f"{project['name']} to "
        f"{due}.",
        right,
        (changed(other), right[:-1], (*right, button("Close milestone"))),
        world.after().edit("milestones", {"id": milestone["id"]}, due=due),
    )


@book.template("steps")
def move_issue(deal: Deal, world: World) -> Plan:
    """Move an issue to another project and a milestone there."""
    user, (issue, other) = deal.pick(world.tables["users"]), deal.several(world.rows("issues", state="open"), 2)
    projects = [row for row in world.tables["projects"] if row["id"] not in (issue["project_id"], other["project_id"])]
    project = deal.pick(projects)
    milestone, wrong = deal.several(world.rows("milestones", project_id=project["id"]), 2)

    def moved(issue: Row, milestone: Row) -> Acts:
        return (
            *(*log_in(user), *open_issue(issue), link("Move to another project"), radio(project["name"])),
            button("Continue to milestone"),
            *(choose("Milestone in the new project", milestone["title"]), button("Continue to confirmation")),
            button("Move issue"),
        )

    right = moved(issue, milestone)
    return Plan(
        f"{as_user(user)}. Move the issue '{issue['title']}' to the project {project['name']}, into the milestone "
        f"{milestone['title']} there.",
        right,
        (moved(other, milestone), moved(issue, wrong), right[:-1]),
        world.after().edit("issues", {"id": issue["id"]}, project_id=project["id"], milestone_id=milestone["id"]),
    )


@book.template("edit")
def settings(deal: Deal, world: World) -> Plan:
    """Change the name, the digest and whether to be told of mentions."""
    user = deal.pick(world.tables["users"])
    name = f"{user['name'].split()[0]} {deal.pick(('Archer', 'Baker', 'Carter', 'Dyer', 'Fisher', 'Mason', 'Weaver'))}"
    digest, wrong = deal.several([each for each in DIGESTS if each != user["digest"]], 2)
    wanted = 1 - user["mentions"]
    begin = (*log_in(user), link("Settings"), fill("Name", name))
    mentions, save = tick("Tell me when I am mentioned"), button("Save settings")
    turn = "" if wanted else "not "
    return Plan(
        f"{as_user(user)}. In the settings, change the name to {name}, choose the digest '{DIGESTS[digest]}', and ask "
        f"{turn}to be told of mentions.",
        (*begin, radio(DIGESTS[digest]), mentions, save),
        (
            (*begin, radio(DIGESTS[wrong]), mentions, save),
            (*begin, radio(DIGESTS[digest]), save),
            (*begin, radio(DIGESTS[digest]), mentions),
        ),
        world.after().edit("users", {"id": user["id"]}, name=name, digest=digest, mentions=wanted),
    )
