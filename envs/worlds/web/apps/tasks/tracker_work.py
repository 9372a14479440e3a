"""Tasks in the issue tracker on comments, duplicates, milestones, moves, many issues, and settings."""

from .....draws import NoInstance, SeededDraws
from ..server.choices import DIGESTS, count_of
from ..state import Row, World
from ..worlds.tracker import WORDS
from .plans import change
from .template import Act, Acts, Plan, as_user, button, choose, fill, link, log_in, radio, tick
from .tracker import edited, open_issue, registry, unrequested_close, untouched


def _date(draws: SeededDraws) -> str:
    return f"2032-{draws.integer(1, 12):02}-{draws.integer(1, 28):02}"


@registry.template("compound")
def comment_and_close(draws: SeededDraws, world: World) -> Plan:
    """Comment on an issue and close it."""
    user, (issue, other) = draws.choice(world.tables["users"]), draws.sample(world.find("issues", state="open"), 2)
    text, wrong = draws.sample(WORDS["remarks"], 2)
    expected = world.expected_state().edit("issues", {"id": issue["id"]}, state="closed")
    expected.add("comments", issue_id=issue["id"], author_id=user["id"], text=text, date=world.today)

    def done(issue: Row, text: str) -> Acts:
        form = (fill("Comment", text), button("Add comment"), button("Close issue"))
        return (*open_issue(issue), *form)

    goal = f"{as_user(user)}. Add the comment '{text}' to the issue '{issue['title']}', then close it."
    return change(goal, user, expected, done(issue, text), done(other, text), done(issue, wrong))


@registry.template("delete")
def delete_comment(draws: SeededDraws, world: World) -> Plan:
    """Delete the user's own comment, identified by its issue."""
    comment = draws.choice(world.tables["comments"])
    issue, user = world.row("issues", id=comment["issue_id"]), world.row("users", id=comment["author_id"])
    rows = world.find("comments", issue_id=issue["id"])
    if len([row for row in rows if row["author_id"] == user["id"]]) > 1:
        raise NoInstance
    other = draws.choice([row for row in world.find("comments", author_id=user["id"]) if row is not comment])

    def deleted(comment: Row) -> Acts:
        issue = world.row("issues", id=comment["issue_id"])
        number = world.find("comments", issue_id=issue["id"]).index(comment) + 1
        return (*open_issue(issue), link(f"Delete comment {number}"), button("Delete comment"))

    goal = f"{as_user(user)} and delete your comment on the issue '{issue['title']}'."
    expected = world.expected_state().remove("comments", id=comment["id"])
    more = (*deleted(comment), *unrequested_close(untouched(world)))
    return change(goal, user, expected, deleted(comment), deleted(other), more)


@registry.template("search")
def close_all(draws: SeededDraws, world: World) -> Plan:
    """Close all open issues of a project with a label."""
    user, project = draws.choice(world.tables["users"]), draws.choice(world.tables["projects"])
    label = draws.choice(world.tables["labels"])
    labeled = {row["issue_id"] for row in world.find("issue_labels", label_id=label["id"])}
    issues = [row for row in world.find("issues", project_id=project["id"], state="open") if row["id"] in labeled]
    if not 2 <= len(issues) <= 6:
        raise NoInstance
    expected = world.expected_state()
    for issue in issues:
        expected.edit("issues", {"id": issue["id"]}, state="closed")
    filters = (choose("Project", project["name"]), choose("State", "open"), choose("Label", label["name"]))

    def closed(issues: list[Row]) -> Acts:
        selected = (*(tick(f"Select #{issue['id']}") for issue in issues), button("Continue"))
        return (
            link("Issues"),
            *filters,
            button("Search"),
            *selected,
            button(f"Close {count_of(len(issues), 'issue')}"),
        )

    goal = (
        f"{as_user(user)} and close every open issue in the project {project['name']} that has the label "
        f"{label['name']}."
    )
    more = (*closed(issues), *unrequested_close(untouched(world, *issues)))
    return change(goal, user, expected, closed(issues), closed(issues[1:]), more)


@registry.template("compound")
def mark_duplicate(draws: SeededDraws, world: World) -> Plan:
    """Mark an issue as a duplicate of another one."""
    user = draws.choice(world.tables["users"])
    issue, original = draws.sample(world.find("issues", state="open"), 2)
    other = untouched(world, issue, original)

    def marked(issue: Row, original: Row) -> Acts:
        form = (link("Mark as duplicate"), fill("Number of the original issue", original["id"]))
        return (*open_issue(original), *open_issue(issue), *form, button("Mark as duplicate"))

    goal = f"{as_user(user)}. Mark the issue '{issue['title']}' as a duplicate of the issue '{original['title']}'."
    expected = world.expected_state()
    expected.edit("issues", {"id": issue["id"]}, duplicate_of=original["id"], state="closed")
    return change(goal, user, expected, marked(issue, original), marked(original, issue), marked(issue, other))


@registry.template("compound")
def plan_milestone(draws: SeededDraws, world: World) -> Plan:
    """Create a milestone and assign an issue to it."""
    user, issue = draws.choice(world.tables["users"]), draws.choice(world.tables["issues"])
    project = world.row("projects", id=issue["project_id"])
    title, due = f"{draws.choice(('Version', 'Stage', 'Sprint'))} {draws.integer(2, 30)}", _date(draws)
    other = draws.choice([row for row in world.find("issues", project_id=project["id"]) if row is not issue])
    expected = world.expected_state()
    number = expected.add("milestones", project_id=project["id"], title=title, due=due, state="open")
    expected.edit("issues", {"id": issue["id"]}, milestone_id=number)
    made = (
        *(*log_in(user), link("Projects"), link(project["name"]), link("New milestone")),
        *(fill("Title", title), fill("Due date (YYYY-MM-DD)", due), button("Save milestone")),
    )

    def put(issue: Row) -> Acts:
        return edited(issue, (choose("Milestone", title),))

    return Plan(
        f"{as_user(user)}. In the project {project['name']}, create the milestone '{title}' with the due date {due}, "
        f"and set it as the milestone of the issue '{issue['title']}'.",
        (*made, *put(issue)),
        (made, (*made, *put(other)), (*made, *put(issue), *put(other))),
        expected,
    )


@registry.template("edit")
def postpone(draws: SeededDraws, world: World) -> Plan:
    """Change the due date of a milestone."""
    user, (milestone, other) = draws.choice(world.tables["users"]), draws.sample(world.tables["milestones"], 2)
    due = _date(draws)

    def changed(milestone: Row) -> Acts:
        project = world.row("projects", id=milestone["project_id"])
        opened = (link("Projects"), link(project["name"]), link(milestone["title"]), link("Edit milestone"))
        return (*opened, fill("Due date (YYYY-MM-DD)", due), button("Save milestone"))

    project = world.row("projects", id=milestone["project_id"])
    goal = (
        f"{as_user(user)}. Change the due date of the milestone {milestone['title']} in the project {project['name']} "
        f"to {due}."
    )
    expected = world.expected_state().edit("milestones", {"id": milestone["id"]}, due=due)
    right = changed(milestone)
    return change(goal, user, expected, right, changed(other), (*right, button("Close milestone")))


@registry.template("wizard")
def move_issue(draws: SeededDraws, world: World) -> Plan:
    """Move an issue to another project and one of its milestones."""
    user, (issue, other) = draws.choice(world.tables["users"]), draws.sample(world.find("issues", state="open"), 2)
    projects = [row for row in world.tables["projects"] if row["id"] not in (issue["project_id"], other["project_id"])]
    project = draws.choice(projects)
    milestone, wrong = draws.sample(world.find("milestones", project_id=project["id"]), 2)

    def moved(issue: Row, milestone: Row) -> Acts:
        return (
            *(*open_issue(issue), link("Move to another project"), radio(project["name"])),
            button("Continue to milestone"),
            *(choose("Milestone in the new project", milestone["title"]), button("Continue to confirmation")),
            button("Move issue"),
        )

    goal = (
        f"{as_user(user)}. Move the issue '{issue['title']}' to the project {project['name']}, with the milestone "
        f"{milestone['title']}."
    )
    expected = world.expected_state()
    expected.edit("issues", {"id": issue["id"]}, project_id=project["id"], milestone_id=milestone["id"])
    return change(goal, user, expected, moved(issue, milestone), moved(other, milestone), moved(issue, wrong))


@registry.template("edit")
def settings(draws: SeededDraws, world: World) -> Plan:
    """Change the name, the digest and the notifications of mentions."""
    user = draws.choice(world.tables["users"])
    name = (
        f"{user['name'].split()[0]} {draws.choice(('Archer', 'Baker', 'Carter', 'Dyer', 'Fisher', 'Mason', 'Weaver'))}"
    )
    digest, wrong = draws.sample([each for each in DIGESTS if each != user["digest"]], 2)
    wanted = 1 - user["mentions"]

    def saved(digest: str, *more: Act) -> Acts:
        return (link("Settings"), fill("Name", name), radio(DIGESTS[digest]), *more, button("Save settings"))

    goal = (
        f"{as_user(user)}. In the settings, change the name to {name}, set the e-mail digest to '{DIGESTS[digest]}', "
        f"and turn mention notifications {'on' if wanted else 'off'}."
    )
    expected = world.expected_state().edit("users", {"id": user["id"]}, name=name, digest=digest, mentions=wanted)
    mentions = tick("Notify me when I am mentioned")
    return change(goal, user, expected, saved(digest, mentions), saved(wrong, mentions), saved(digest))
