"""The world of the issue tracker: a pure function of the seed."""

from typing import Any

from ..draws import Deal, words
from ..state import Row, Tables
from .people import day, people

TODAY = "2031-06-03"
PROJECTS = {
    "Harbour": "Books berths and moorings for small boats.",
    "Lantern": "Shows opening times and prices of museums.",
    "Meadow": "Keeps the plan of an allotment garden.",
    "Pantry": "Counts what is left in a kitchen, and what to buy.",
    "Quill": "A notebook that several people write in.",
    "Signal": "Sends messages when a machine stops.",
    "Trellis": "Draws plans of shelves and tells what to saw.",
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
    "It began after the last update.",
    "Two customers have written about it.",
    "It happens on the telephone only.",
    "Nobody has looked into it yet.",
    "There is a way around it, but it takes long.",
)
REMARKS = (
    "I can reproduce this.",
    "Let us talk about it on Monday.",
    "This is less urgent than it looks.",
    "The same happens on my machine.",
    "I have a first idea of what is wrong.",
    "Please add the version you use.",
    "Fixed on my branch, not tested yet.",
    "Could somebody else have a look?",
)
PRIORITIES = ("low", "normal", "high", "urgent")
USERS = 9
ISSUES = 84


def world(seed: int) -> dict[str, Any]:
    """``today`` and ``tables`` of a tracker with 4 projects, 84 issues and 9 users."""
    deal = Deal(f"tracker world {seed}")
    tables: Tables = {
        "users": [
            {
                "id": number,
                **person,
                "digest": deal.pick(("daily", "weekly", "never")),
                "mentions": deal.number(0, 1),
            }
            for number, person in enumerate(people(deal, USERS), 1)
        ],
        "projects": [
            {"id": number, "name": name, "description": PROJECTS[name]}
            for number, name in enumerate(sorted(deal.several(tuple(PROJECTS), 4)), 1)
        ],
        "labels": [{"id": number, "name": name} for number, name in enumerate(LABELS, 1)],
        "milestones": [],
    }
    for project in tables["projects"]:
        for title in deal.several(MILESTONES, 3):
            tables["milestones"].append(_milestone(deal, len(tables["milestones"]) + 1, project["id"], title))
    tables["issues"] = _issues(deal, tables)
    tables["issue_labels"] = [
        {"issue_id": issue["id"], "label_id": label["id"]}
        for issue in tables["issues"]
        for label in deal.several(tables["labels"], deal.pick((0, 1, 1, 2, 2, 3)))
    ]
    tables["comments"] = _comments(deal, tables)
    return {"site": "tracker", "today": TODAY, "tables": tables}


def _date(deal: Deal) -> str:
    return f"2031-{deal.number(7, 12):02}-{deal.number(1, 28):02}"


def _milestone(deal: Deal, number: int, project_id: int, title: str) -> Row:
    return {"id": number, "project_id": project_id, "title": title, "due": _date(deal), "state": "open"}


def _issues(deal: Deal, tables: Tables) -> list[Row]:
    titles = deal.several([f"{trouble} {place}" for trouble in TROUBLES for place in PLACES], ISSUES)
    days = sorted(deal.several(range(400), ISSUES), reverse=True)
    issues = list[Row]()
    for number, (title, ago) in enumerate(zip(titles, days, strict=True), 1):
        project = deal.pick(tables["projects"])["id"]
        milestones = [row["id"] for row in tables["milestones"] if row["project_id"] == project]
        issues.append(
            {
                "id": number,
                "project_id": project,
                "title": title,
                "description": " ".join(deal.several(DETAILS, 2)),
                "author_id": deal.pick(tables["users"])["id"],
                "assignee_id": deal.pick(tables["users"])["id"] if deal.chance(0.75) else None,
                "priority": deal.pick(PRIORITIES),
                "state": "open" if deal.chance(0.65) else "closed",
                "milestone_id": deal.pick(milestones) if deal.chance(0.6) else None,
                "duplicate_of": None,
                "created": day(ago),
            }
        )
    return issues


def _comments(deal: Deal, tables: Tables) -> list[Row]:
    comments = list[Row]()
    for issue in tables["issues"]:
        for _ in range(deal.pick((0, 0, 1, 2, 3, 4))):
            comments.append(
                {
                    "id": len(comments) + 1,
                    "issue_id": issue["id"],
                    "author_id": deal.pick(tables["users"])["id"],
                    "text": deal.pick(REMARKS),
                    "date": day(0),
                }
            )
    return comments
