"""Tasks in the issue tracker on single issues. Tasks on comments, milestones and bulk changes: ``tracker_work``."""

from .....draws import NoInstance, SeededDraws
from ..server.changes import create_issue
from ..server.changes import delete_issue as delete
from ..server.choices import PRIORITIES, issue_name
from ..state import Row, World
from ..worlds.tracker import WORDS, world
from .plans import change, question
from .template import Acts, AppRegistry, Plan, answer, as_user, button, choose, fill, link, log_in, search_for, tick

registry = AppRegistry("tracker", world)


def open_issue(issue: Row) -> Acts:
    """Find an issue by its title."""
    return link("Issues"), search_for(issue["title"]), button("Search"), link(issue_name(issue))


def unrequested_close(issue: Row) -> Acts:
    """Make a change that no goal requests: close an open issue."""
    return (*open_issue(issue), button("Close issue"))


def edited(issue: Row, changes: Acts) -> Acts:
    """Make changes in the form of an issue."""
    return (*open_issue(issue), link("Edit issue"), *changes, button("Save issue"))


def untouched(world: World, *others: Row) -> Row:
    """Return an open issue other than these."""
    taken = [issue["id"] for issue in others]
    return next(issue for issue in world.find("issues", state="open") if issue["id"] not in taken)


@registry.template("lookup")
def assignee(draws: SeededDraws, world: World) -> Plan:
    """Look up the assignee of an issue."""
    issue, other = draws.sample([row for row in world.tables["issues"] if row["assignee_id"]], 2)
    name, wrong = (world.row("users", id=row["assignee_id"])["name"] for row in (issue, other))
    if name == wrong:
        raise NoInstance
    user = draws.choice(world.tables["users"])
    goal = f"Who is the assignee of the issue '{issue['title']}'? Answer with the full name."
    more = (*log_in(user), *unrequested_close(untouched(world)), answer(name))
    return question(goal, open_issue(issue), name, (*open_issue(other), answer(wrong)), more)


@registry.template("lookup")
def milestone_due(draws: SeededDraws, world: World) -> Plan:
    """Look up the due date of an issue's milestone, two pages away."""
    issue = draws.choice([row for row in world.tables["issues"] if row["milestone_id"]])
    milestone = world.row("milestones", id=issue["milestone_id"])
    other = draws.choice([row for row in world.tables["milestones"] if row["due"] != milestone["due"]])
    seen = (*open_issue(issue), link(milestone["title"]))
    goal = f"What is the due date of the milestone of the issue '{issue['title']}'? Answer with the date as YYYY-MM-DD."
    wrong = (*seen, answer(other["due"])), (*open_issue(issue), answer(issue["created"]))
    return question(goal, seen, milestone["due"], *wrong)


@registry.template("search")
def count_issues(draws: SeededDraws, world: World) -> Plan:
    """Count the open issues with a label and one more property."""
    label = draws.choice(world.tables["labels"])
    labeled = {row["issue_id"] for row in world.find("issue_labels", label_id=label["id"])}
    found = [row for row in world.find("issues", state="open") if row["id"] in labeled]
    priority, project = draws.choice(PRIORITIES), draws.choice(world.tables["projects"])
    user = draws.choice(world.tables["users"])
    column, value, filters, condition = draws.choice(
        (
            ("priority", priority, choose("Priority", priority), f"and the priority {priority}"),
            (
                "project_id",
                project["id"],
                choose("Project", project["name"]),
                f"and belong to the project {project['name']}",
            ),
            ("assignee_id", user["id"], choose("Assignee", user["name"]), f"and are assigned to {user['name']}"),
            ("author_id", user["id"], choose("Author", user["name"]), f"and were created by {user['name']}"),
        )
    )
    fitting = [row for row in found if row[column] == value]
    count, all_of_them = len(fitting), len(found)
    if not 1 < count < all_of_them:
        raise NoInstance
    begin = (link("Issues"), choose("State", "open"), choose("Label", label["name"]))
    searched = (*begin, filters, button("Search"))
    goal = f"How many open issues have the label {label['name']} {condition}? Answer with the number."
    wrong = (*begin, button("Search"), answer(all_of_them)), (*searched, answer(count - 1))
    return question(goal, searched, count, *wrong)


@registry.template("search")
def oldest_issue(draws: SeededDraws, world: World) -> Plan:
    """Find the oldest open issue of an assignee."""
    user = draws.choice(world.tables["users"])
    rows = world.find("issues", state="open", assignee_id=user["id"])
    if len(rows) < 2:
        raise NoInstance
    rows.sort(key=lambda row: str(row["created"]))
    search = (
        *(link("Issues"), choose("State", "open"), choose("Assignee", user["name"])),
        *(choose("Sort by", "Oldest first"), button("Search")),
    )
    goal = f"Which of the open issues assigned to {user['name']} was created first? Answer with its title."
    right, *wrong = rows[0]["title"], rows[1]["title"], rows[-1]["title"]
    return question(goal, search, right, *((*search, answer(title)) for title in wrong), search)


@registry.template("create")
def new_issue(draws: SeededDraws, world: World) -> Plan:
    """Create an issue with all its fields."""
    user, project = draws.choice(world.tables["users"]), draws.choice(world.tables["projects"])
    person, wrong = draws.sample(world.tables["users"], 2)
    milestone = draws.choice(world.find("milestones", project_id=project["id"]))
    label, priority = draws.choice(world.tables["labels"]), draws.choice(("low", "high", "urgent"))
    trouble = draws.choice(("Broken link in", "Wrong date in", "Blank space in", "Add an example to"))
    title = f"{trouble} {draws.choice(WORDS['places'])}"
    description = draws.choice(WORDS["details"])
    expected = world.expected_state()
    values = {"title": title, "description": description, "priority": priority, "milestone_id": milestone["id"]}
    ids = {"project_id": project["id"], "assignee_id": person["id"]}
    create_issue(expected, world.today, user["id"], [label["id"]], **ids, **values)

    def reported(person: Row, more: Acts = ()) -> Acts:
        return (
            *(link("Projects"), link(project["name"]), link("New issue"), fill("Title", title)),
            *(fill("Description", description), choose("Assignee", person["name"]), choose("Priority", priority)),
            *(choose("Milestone", milestone["title"]), tick(label["name"]), *more, button("Save issue")),
        )

    second = next(name for name in WORDS["labels"] if name != label["name"])
    goal = (
        f"{as_user(user)} and create an issue in the project {project['name']} with the title '{title}', the "
        f"description '{description}', the assignee {person['name']}, the priority {priority}, the milestone "
        f"{milestone['title']} and the label {label['name']}."
    )
    return change(goal, user, expected, reported(person), reported(wrong), reported(person, (tick(second),)))


@registry.template("edit")
def triage(draws: SeededDraws, world: World) -> Plan:
    """Set the assignee and the priority of an issue."""
    user, person = draws.choice(world.tables["users"]), draws.choice(world.tables["users"])
    issue, other = draws.sample(world.find("issues", state="open"), 2)
    priority = draws.choice([each for each in PRIORITIES if each != issue["priority"]])
    if issue["assignee_id"] == person["id"]:
        raise NoInstance

    who, how = choose("Assignee", person["name"]), choose("Priority", priority)
    goal = (
        f"{as_user(user)}. Assign the issue '{issue['title']}' to {person['name']} and set its priority to {priority}."
    )
    expected = world.expected_state()
    expected.edit("issues", {"id": issue["id"]}, assignee_id=person["id"], priority=priority)
    right = edited(issue, (who, how))
    wrong = edited(other, (who, how)), edited(issue, (who,)), (*right, *unrequested_close(untouched(world, issue)))
    return change(goal, user, expected, right, *wrong)


@registry.template("edit")
def relabel(draws: SeededDraws, world: World) -> Plan:
    """Replace a label of an issue by another one."""
    user = draws.choice(world.tables["users"])
    issue = draws.choice(world.tables["issues"])
    has = {row["label_id"] for row in world.find("issue_labels", issue_id=issue["id"])}
    old = draws.choice([row for row in world.tables["labels"] if row["id"] in has])
    new, wrong = draws.sample([row for row in world.tables["labels"] if row["id"] not in has], 2)
    expected = world.expected_state().remove("issue_labels", issue_id=issue["id"], label_id=old["id"])
    expected.link("issue_labels", issue_id=issue["id"], label_id=new["id"])
    goal = (
        f"{as_user(user)}. Remove the label {old['name']} from the issue '{issue['title']}' and add the label "
        f"{new['name']}."
    )
    removed, added, another = (tick(label["name"]) for label in (old, new, wrong))
    right, others = edited(issue, (removed, added)), (edited(issue, (removed, another)), edited(issue, (added,)))
    return change(goal, user, expected, right, *others)


@registry.template("delete")
def delete_issue(draws: SeededDraws, world: World) -> Plan:
    """Delete an issue."""
    user = draws.choice(world.tables["users"])
    issue, other = draws.sample(world.tables["issues"], 2)
    expected = world.expected_state()
    delete(expected, issue["id"])

    def deleted(issue: Row) -> Acts:
        return (*open_issue(issue), link("Delete issue"), button("Delete issue"))

    goal = f"{as_user(user)} and delete the issue '{issue['title']}'."
    toggled = (*open_issue(issue), button("Close issue" if issue["state"] == "open" else "Reopen issue"))
    return change(goal, user, expected, deleted(issue), deleted(other), toggled)
