"""The initial data of the issue tracker."""

from typing import Any

from .....draws import SeededDraws
from ..server.choices import PRIORITIES
from ..state import Row, Tables
from .common import as_world, day, numbered, people, words_of

WORDS = words_of("tracker")
USERS = 9
ISSUES = 84


def world(seed: int) -> dict[str, Any]:
    """Return ``today`` and ``tables`` of a tracker with 4 projects, 84 issues and 9 users."""
    draws = SeededDraws(f"tracker world {seed}")
    tables: Tables = {
        "users": numbered(
            {**person, "digest": draws.choice(("daily", "weekly", "never")), "mentions": draws.integer(0, 1)}
            for person in people(draws, USERS)
        ),
        "projects": numbered(
            {"name": name, "description": WORDS["projects"][name]}
            for name in sorted(draws.sample(tuple(WORDS["projects"]), 4))
        ),
        "labels": numbered({"name": name} for name in WORDS["labels"]),
    }
    tables["milestones"] = numbered(
        {"project_id": project["id"], "title": title, "due": _date(draws), "state": "open"}
        for project in tables["projects"]
        for title in draws.sample(WORDS["milestones"], 3)
    )
    tables["issues"] = _issues(draws, tables)
    tables["issue_labels"] = [
        {"issue_id": issue["id"], "label_id": label["id"]}
        for issue in tables["issues"]
        for label in draws.sample(tables["labels"], draws.choice((0, 1, 1, 2, 2, 3)))
    ]
    tables["comments"] = _comments(draws, tables)
    return as_world("tracker", tables)


def _date(draws: SeededDraws) -> str:
    return f"2031-{draws.integer(7, 12):02}-{draws.integer(1, 28):02}"


def _issues(draws: SeededDraws, tables: Tables) -> list[Row]:
    titles = draws.sample([f"{trouble} {place}" for trouble in WORDS["troubles"] for place in WORDS["places"]], ISSUES)
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
                "description": " ".join(draws.sample(WORDS["details"], 2)),
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
    return numbered(
        {
            "issue_id": issue["id"],
            "author_id": draws.choice(tables["users"])["id"],
            "text": draws.choice(WORDS["remarks"]),
            "date": day(0),
        }
        for issue in tables["issues"]
        for _ in range(draws.choice((0, 0, 1, 2, 3, 4)))
    )
