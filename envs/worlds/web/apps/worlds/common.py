"""The parts that the worlds of all apps share: words, people and dates."""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .....draws import SeededDraws
from ..state import Row, Tables

TODAY = "2031-06-03"


def _frozen(value: Any) -> Any:
    """Return a value of TOML with its lists as tuples."""
    if isinstance(value, dict):
        return {name: _frozen(each) for name, each in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


_WORDS: dict[str, dict[str, Any]] = _frozen(tomllib.loads((Path(__file__).parent / "words.toml").read_text()))
PEOPLE = _WORDS["people"]


def words_of(site: str) -> dict[str, Any]:
    """Return the words of an app: tuples, and tables of them, by name."""
    return _WORDS[site]


def as_world(site: str, tables: Tables) -> dict[str, Any]:
    """Return the initial data of an app as its server reads it."""
    return {"site": site, "today": TODAY, "tables": tables}


def numbered(rows: Iterable[Row]) -> list[Row]:
    """Return the rows with an id each, from 1."""
    return [{"id": number, **row} for number, row in enumerate(rows, 1)]


def people(draws: SeededDraws, count: int) -> list[Row]:
    """Draw people with different first names, as rows with login, password, name and email."""
    found = []
    for first in draws.sample(PEOPLE["first"], count):
        login = first.lower()
        found.append(
            {
                "login": login,
                # Part of a task, and not secret.
                "password": f"{draws.choice(PEOPLE['passwords'])}-{draws.integer(10, 99)}",
                "name": f"{first} {draws.choice(PEOPLE['last'])}",
                "email": f"{login}@example.com",
            }
        )
    return found


def day(days_before: int) -> str:
    """Return a date before the end of May 2031 as YYYY-MM-DD, in a calendar whose months have 28 days."""
    months, days = divmod(days_before, 28)
    years, month = divmod(4 - months, 12)
    return f"{2031 + years}-{month + 1:02}-{28 - days:02}"
