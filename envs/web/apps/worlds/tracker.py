"""The initial data of the issue tracker."""

from typing import Any

from ....draws import SeededDraws, words
from ..server.choices import PRIORITIES
from ..state import Row, Tables
from .people import day, people

TODAY = "2031-06-03"
PROJECTS = {
    "Harbor": "Books berths and moorings for small boats.",
    "Lantern": "Shows opening times and prices of museums.",
    "Meadow": "Keeps the plan of an allotment garden.",
    "Pantry": "Tracks kitchen supplies and shopping lists.",
    "Quill": "A notebook that several people write in.",
    "Signal": "Sends messages when a machine stops.",
    "Trellis": "Draws plans of shelves and lists the cuts.",
}
LABELS = words("bug feature question security design docs performance mobile")
MILESTONES = ("Spring release", "Summer release", "Autumn release", "Public beta", "Big cleanup", "First pilot")
TROUBLES = (
    "Crash when opening",
    "Wrong totals in",
    "Slow loading of",
    "Missing button in",
    "Typo in",
    "No translation of",
    "Cannot print",
    "Empty page after saving",
    "Allow sorting of",
    "Add a shortcut to",
    "Dark colors for",
    "Old data shown in",
)
PLACES = (
    "the calendar",
    "the weekly report",
    "the address list",
    "the start page",
    "the price table",
    "the upload form",
    "the search results",
    "the user profile",
    "the invoice",
    "the archive",
    "the map view",
    "the help pages",
)
DETAILS = (
    "It happens every time.",
    "It started after the last update.",
    "Two customers have reported it.",
    "It happens on phones only.",
    "Nobody has looked into it yet.",
    "There is a workaround, but it is slow.",
)
REMARKS = (
    "I can reproduce this.",
    "Let us discuss it on Monday.",
    "This is less urgent than it looks.",
    "The same happens on my machine.",
    "I have an idea of the cause.",
    "Please add the version you use.",
    "Fixed on my branch, not tested yet.",
    "Can someone else take a look?",
)
USERS = 9
ISSUES = 84


def world(seed: int) -> dict[str, Any]:
    """Return ``today`` and ``tables`` of a tracker with 4 projects, 84 issues and 9 users."""
    draws = SeededDraws(f"tracker world {seed}")
    tables: Tables = {
        "users": [
            {
                "id": number,
                **person,
                "digest": draws.choice(("daily", "weekly", "never")),
                "mentions": draws.integer(0, 1),
            }
            for number, person in enumerate(people(draws, USERS), 1)
        ],
        "projects": [
            {"id": number, "name": name, "description": PROJECTS[name]}
            for number, name in enumerate(sorted(draws.sample(tuple(PROJECTS), 4)), 1)
        ],
        "labels": [{"id": number, "name": name} for number, name in enumerate(LABELS, 1)],
        "milestones": [],
    }
    for project in tables["projects"]:
        for title in draws.sample(MILESTONES, 3):
            tables["milestones"].append(_milestone(draws, len(tables["milestones"]) + 1, project["id"], title))
    tables["issues"] = _issues(draws, tables)
    tables["issue_labels"] = [
        {"issue_id": issue["id"], "label_id": label["id"]}
        for issue in tables["issues"]
        for label in draws.sample(tables["labels"], draws.choice((0, 1, 1, 2, 2, 3)))
    ]
    tables["comments"] = _comments(draws, tables)
    return {"site": "tracker", "today": TODAY, "tables": tables}


def _date(draws: SeededDraws) -> str:
    return f"2031-{draws.integer(7, 12):02}-{draws.integer(1, 28):02}"


def _milestone(draws: SeededDraws, number: int, project_id: int, title: str) -> Row:
    return {"id": number, "project_id": project_id, "title": title, "due": _date(draws), "state": "open"}


def _issues(draws: SeededDraws, tables: Tables) -> list[Row]:
    titles = draws.sample([f"{trouble} {place}" for trouble in TROUBLES for place in PLACES], ISSUES)
    days = sorted(draws.sample(range(400), ISSUES), reverse=True)
    issues = list[Row]()
    for number, (title, ago) in enumerate(zip(titles, days, strict=True), 1):
        project = draws.choice(tables["projects"])["id"]
        milestones = [row["id"] for row in tables["milestones"] if row["project_id"] == project]
        issues.append(
            {
                "id": number,
                "project_id": project,
                "title": title,
                "description": " ".join(draws.sample(DETAILS, 2)),
                "author_id": draws.choice(tables["users"])["id"],
                "assignee_id": draws.choice(tables["users"])["id"] if draws.chance(0.75) else None,
                "priority": draws.choice(PRIORITIES),
                "state": "open" if draws.chance(0.65) else "closed",
                "milestone_id": draws.choice(milestones) if draws.chance(0.6) else None,
                "duplicate_of": None,
                "created": day(ago),
            }
        )
    return issues


def _comments(draws: SeededDraws, tables: Tables) -> list[Row]:
    comments = list[Row]()
    for issue in tables["issues"]:
        for _ in range(draws.choice((0, 0, 1, 2, 3, 4))):
            comments.append(
                {
                    "id": len(comments) + 1,
                    "issue_id": issue["id"],
                    "author_id": draws.choice(tables["users"])["id"],
                    "text": draws.choice(REMARKS),
                    "date": day(0),
                }
            )
    return comments
