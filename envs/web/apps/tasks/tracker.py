"""Tasks in the issue tracker about issues; ``templates_tracker_work`` holds those about the work around them."""

from ..draws import Deal, NoInstance
from ..state import Row, World
from ..worlds.tracker import DETAILS, LABELS, PLACES, PRIORITIES, world
from .acts import answer, as_user, button, choose, fill, link, log_in, search_for, tick
from .template import Acts, Book, Plan

book = Book("tracker", world)


def named(issue: Row) -> str:
    """An issue as links call it."""
    return f"#{issue['id']} {issue['title']}"


def open_issue(issue: Row) -> Acts:
    """Find an issue by its title."""
    return link("Issues"), search_for(issue["title"]), button("Search"), link(named(issue))


def closed(issue: Row) -> Acts:
    """A change that nobody asked for, of an issue that is open."""
    return (*open_issue(issue), button("Close issue"))


def untouched(world: World, *but: Row) -> Row:
    """An open issue other than these."""
    taken = [issue["id"] for issue in but]
    return next(issue for issue in world.rows("issues", state="open") if issue["id"] not in taken)


@book.template("look-up")
def assignee(deal: Deal, world: World) -> Plan:
    """Who works on an issue."""
    issue, other = deal.several([row for row in world.tables["issues"] if row["assignee_id"]], 2)
    name, wrong = (world.row("users", id=row["assignee_id"])["name"] for row in (issue, other))
    if name == wrong:
        raise NoInstance
    user = deal.pick(world.tables["users"])
    return Plan(
        f"Who is the assignee of the issue '{issue['title']}'? Answer with the full name.",
        (*open_issue(issue), answer(name)),
        ((*open_issue(other), answer(wrong)), (*log_in(user), *closed(untouched(world)), answer(name))),
        answer=name,
    )


@book.template("look-up")
def milestone_due(deal: Deal, world: World) -> Plan:
    """When the milestone of an issue is due: two pages away."""
    issue = deal.pick([row for row in world.tables["issues"] if row["milestone_id"]])
    milestone = world.row("milestones", id=issue["milestone_id"])
    other = deal.pick([row for row in world.tables["milestones"] if row["due"] != milestone["due"]])
    seen = (*open_issue(issue), link(milestone["title"]))
    return Plan(
        f"When is the milestone due that the issue '{issue['title']}' belongs to? Answer with the date as YYYY-MM-DD.",
        (*seen, answer(milestone["due"])),
        ((*seen, answer(other["due"])), (*open_issue(issue), answer(issue["created"]))),
        answer=milestone["due"],
    )


@book.template("search")
def count_issues(deal: Deal, world: World) -> Plan:
    """How many open issues have a label, and something else besides."""
    label = deal.pick(world.tables["labels"])
    labelled = {row["issue_id"] for row in world.rows("issue_labels", label_id=label["id"])}
    found = [row for row in world.rows("issues", state="open") if row["id"] in labelled]
    priority, project = deal.pick(PRIORITIES), deal.pick(world.tables["projects"])
    user = deal.pick(world.tables["users"])
    column, value, filters, said = deal.pick(
        (
            ("priority", priority, choose("Priority", priority), f"and the priority {priority}"),
            ("project_id", project["id"], choose("Project", project["name"]), f"in the project {project['name']}"),
            ("assignee_id", user["id"], choose("Assignee", user["name"]), f"and the assignee {user['name']}"),
            ("author_id", user["id"], choose("Author", user["name"]), f"and the author {user['name']}"),
        )
    )
    fitting = [row for row in found if row[column] == value]
    count, all_of_them = len(fitting), len(found)
    if not 1 < count < all_of_them:
        raise NoInstance
    begin = (link("Issues"), choose("State", "open"), choose("Label", label["name"]))
    return Plan(
        f"How many open issues have the label {label['name']} {said}? Answer with the number.",
        (*begin, filters, button("Search"), answer(count)),
        ((*begin, button("Search"), answer(all_of_them)), (*begin, filters, button("Search"), answer(count - 1))),
        answer=str(count),
    )


@book.template("search")
def oldest_issue(deal: Deal, world: World) -> Plan:
    """The oldest open issue that somebody has."""
    user = deal.pick(world.tables["users"])
    rows = world.rows("issues", state="open", assignee_id=user["id"])
    if len(rows) < 2:
        raise NoInstance
    rows.sort(key=lambda row: str(row["created"]))
    search = (
        *(link("Issues"), choose("State", "open"), choose("Assignee", user["name"])),
        *(choose("Sort by", "Oldest first"), button("Search")),
    )
    return Plan(
        f"Which of the open issues assigned to {user['name']} was created first? Answer with its title.",
        (*search, answer(rows[0]["title"])),
        ((*search, answer(rows[1]["title"])), (*search, answer(rows[-1]["title"])), search),
        answer=rows[0]["title"],
    )


@book.template("create")
def new_issue(deal: Deal, world: World) -> Plan:
    """Report an issue with all its fields."""
    user, project = deal.pick(world.tables["users"]), deal.pick(world.tables["projects"])
    person, wrong = deal.several(world.tables["users"], 2)
    milestone = deal.pick(world.rows("milestones", project_id=project["id"]))
    label, priority = deal.pick(world.tables["labels"]), deal.pick(("low", "high", "urgent"))
    title = (
        f"{deal.pick(('Broken link in', 'Wrong date in', 'Blank space in', 'Add an example to'))} {deal.pick(PLACES)}"
    )
    description = deal.pick(DETAILS)
    after = world.after()
    number = after.add(
        "issues",
        **{"project_id": project["id"], "title": title, "description": description, "author_id": user["id"]},
        **{"assignee_id": person["id"], "priority": priority, "state": "open", "milestone_id": milestone["id"]},
        **{"duplicate_of": None, "created": world.today},
    )
    after.link("issue_labels", issue_id=number, label_id=label["id"])

    def reported(person: Row, more: Acts = ()) -> Acts:
        return (
            *(*log_in(user), link("Projects"), link(project["name"]), link("New issue"), fill("Title", title)),
            *(fill("Description", description), choose("Assignee", person["name"]), choose("Priority", priority)),
            *(choose("Milestone", milestone["title"]), tick(label["name"]), *more, button("Save issue")),
        )

    second = next(name for name in LABELS if name != label["name"])
    return Plan(
        f"{as_user(user)} and create an issue in the project {project['name']} with the title '{title}', the "
        f"description '{description}', the assignee {person['name']}, the priority {priority}, the milestone "
        f"{milestone['title']} and the label {label['name']}.",
        reported(person),
        (reported(wrong), reported(person, (tick(second),)), reported(person)[:-1]),
        after,
    )


@book.template("edit")
def triage(deal: Deal, world: World) -> Plan:
    """Give an issue an assignee and a priority."""
    user, person = deal.pick(world.tables["users"]), deal.pick(world.tables["users"])
    issue, other = deal.several(world.rows("issues", state="open"), 2)
    priority = deal.pick([each for each in PRIORITIES if each != issue["priority"]])
    if issue["assignee_id"] == person["id"]:
        raise NoInstance

    def edited(issue: Row, *changes: Acts) -> Acts:
        done = tuple(act for acts in changes for act in acts)
        return (*log_in(user), *open_issue(issue), link("Edit issue"), *done, button("Save issue"))

    who, how = (choose("Assignee", person["name"]),), (choose("Priority", priority),)
    right = edited(issue, who, how)
    return Plan(
        f"{as_user(user)}. Assign the issue '{issue['title']}' to {person['name']} and set its priority to {priority}.",
        right,
        (edited(other, who, how), edited(issue, who), right[:-1], (*right, *closed(untouched(world, issue)))),
        world.after().edit("issues", {"id": issue["id"]}, assignee_id=person["id"], priority=priority),
    )


@book.template("edit")
def relabel(deal: Deal, world: World) -> Plan:
    """Replace one label of an issue by another."""
    user = deal.pick(world.tables["users"])
    issue = deal.pick(world.tables["issues"])
    has = {row["label_id"] for row in world.rows("issue_labels", issue_id=issue["id"])}
    old = deal.pick([row for row in world.tables["labels"] if row["id"] in has])
    new, wrong = deal.several([row for row in world.tables["labels"] if row["id"] not in has], 2)
    after = world.after().remove("issue_labels", issue_id=issue["id"], label_id=old["id"])
    after.link("issue_labels", issue_id=issue["id"], label_id=new["id"])
    begin = (*log_in(user), *open_issue(issue), link("Edit issue"))
    return Plan(
        f"{as_user(user)}. Take the label {old['name']} off the issue '{issue['title']}' and give it the label "
        f"{new['name']}.",
        (*begin, tick(old["name"]), tick(new["name"]), button("Save issue")),
        (
            (*begin, tick(old["name"]), tick(wrong["name"]), button("Save issue")),
            (*begin, tick(new["name"]), button("Save issue")),
            (*begin, tick(old["name"]), tick(new["name"])),
        ),
        after,
    )


@book.template("delete")
def delete_issue(deal: Deal, world: World) -> Plan:
    """Delete an issue."""
    user = deal.pick(world.tables["users"])
    issue, other = deal.several(world.tables["issues"], 2)
    after = world.after().remove("issues", id=issue["id"])
    after.remove("comments", issue_id=issue["id"]).remove("issue_labels", issue_id=issue["id"])

    def deleted(issue: Row) -> Acts:
        return (*log_in(user), *open_issue(issue), link("Delete issue"), button("Delete issue"))

    return Plan(
        f"{as_user(user)} and delete the issue '{issue['title']}'.",
        deleted(issue),
        (deleted(other), deleted(issue)[:-1], (*log_in(user), *open_issue(issue), button(_turn(issue)))),
        after,
    )


def _turn(issue: Row) -> str:
    return "Close issue" if issue["state"] == "open" else "Reopen issue"
