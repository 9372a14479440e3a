"""A hostile text in every field that a store can hold changes no page's markup, and no page fails."""

import json
import re
from collections import Counter
from typing import Any
from urllib.parse import parse_qs

import pytest
from sqlalchemy import JSON, Column, Table, Text, update
from starlette.testclient import TestClient
from turnwise.store.database import Database, open_database
from turnwise.store.maintenance.search_index import drop_index, update_index
from turnwise.store.operations.rewards import reward_digest
from turnwise.store.schema import metadata, reward
from turnwise.store.schema.types import ExactText
from turnwise.tests.console.viewer.conftest import client_of
from turnwise.tests.console.viewer.test_security import ACTING, HOSTILE, Structure
from turnwise.tests.store.content.sealing import reseal
from turnwise.tests.store.maintenance.populated import populate
from turnwise.tests.store.making import sqlite_store

VOCABULARIES = {"purpose", "state", "status", "source", "reached", "ended_by", "cut_by", "outcome"}
"""Columns whose values the schema's rules fix; ``turnwise db check`` finds any other value."""
REFERENCES = {
    "blob",
    "store_setting",
    "kind",
    "split",
    "run.driver",
    "lease",
    "trajectory.writer",
    "policy_version.weights_hash",
}
"""Tables and columns that name something else, which the pages look up."""
FIRST = ("//evil.example/", "javascript:alert(1)", "../../")
TEXTS = tuple("  ".join((first, *HOSTILE[place:-1:3])) for place, first in enumerate(FIRST))
"""What they begin with would act in an attribute."""
PLAIN = re.sub(r"[^a-z0-9 ]", "a", max(TEXTS, key=len))
"""The same words, with nothing that acts."""
PAGES_PER_KIND = 3


def fill(database: Database, value: str) -> None:
    """Put ``value`` into every text and into every document, as text, as a key and as the name of a number."""
    stored = value.replace("\x00", "").encode(errors="ignore").decode()  # as a driver requires it of names
    with database.transaction() as tx:
        for table in metadata.sorted_tables:
            columns = [column for column in table.c if is_free(table, column)]
            keys = list(table.primary_key.columns)
            for row in tx.conn.execute(table.select()).mappings().all() if columns else ():
                values = {
                    column.name: changed(
                        row[column.name], column, value if isinstance(column.type, ExactText) else stored
                    )
                    for column in columns
                }
                if table is reward:
                    values["digest"] = reward_digest({**row, **values})
                same = [column == row[column.name] for column in keys]
                tx.conn.execute(update(table).where(*same).values(**values))
    reseal(database)


def is_free(table: Table, column: Column[Any]) -> bool:
    names = {table.name, column.name, f"{table.name}.{column.name}"}
    return isinstance(column.type, Text | ExactText | JSON) and not names & (VOCABULARIES | REFERENCES)


def changed(old: Any, column: Column[Any], value: str) -> Any:
    if isinstance(column.type, JSON):
        return document(old, column.name, value)
    if old is None or column.name != "id":
        return None if old is None else value
    return f"{value.replace('%', '')} {old}"  # the test client, unlike a server, decodes the path of a URL twice


def document(old: Any, name: str, value: str) -> Any:
    """Return a document of the same form with more entries."""
    if old is None or name in ("rewards", "recipe"):
        return old
    if name == "verdicts":
        return [{value: value, "score": 1.0, "reason": value}]
    if name == "changes":
        return [{"after_update": 1, "keys": {value: [value, value]}}]
    if name == "reward_parts":
        return {value: 0.5}
    if name == "options":
        return old | {value: 1}
    if name in ("metrics", "data"):
        return old | {f"reward_part/{value}": 0.5, value: value}
    return old | {value: {value: [value]}, "environments": [{"id": value, "options": {value: value}}]}


def crawl(client: TestClient) -> dict[str, Structure]:
    """Return every page that a link leads to, in HTML; its record is JSON without a number that is not finite."""
    found: dict[str, Structure] = {}
    waiting = ["/runs", "/trajectories", "/compare", "/search?q=page", "/search?q=evil"]
    kinds = Counter[tuple[object, ...]]()
    while waiting:
        path = waiting.pop(0)
        place, _, query = path.partition("?")
        kind = place.split("/")[1], place.count("/"), *sorted(parse_qs(query))
        kinds[kind] += path not in found
        if path in found or kinds[kind] > PAGES_PER_KIND:
            continue
        answer = client.get(path)
        assert answer.status_code == 200, (client.get(f"/api{path}").text[:2000], path[-300:])
        if not answer.headers["content-type"].startswith("text/html"):
            continue
        assert not ACTING.intersection(answer.text), path
        page = found[path] = Structure(answer.text)
        wrong = [one for one in page.addresses if one[:1] not in ("/", "#", "?", "") or one.startswith(("//", "/\\"))]
        wrong = [one for one in wrong if one != "data:,"]  # the empty icon of a page that is a file
        assert not wrong, path
        if answer.headers.get("content-disposition"):
            continue  # a file, which has no record
        record = client.get(f"/api{path}")
        assert record.status_code == 200, path
        json.loads(record.content.decode(), parse_constant=pytest.fail)
        links = [one.split("#")[0] for one in page.addresses if one.startswith("/")]
        waiting += [one for one in links if one not in found and not one.startswith(("/static", "/api", "/images"))]
    return found


@pytest.fixture
def filled(own: Database) -> Database:
    populate(own)
    drop_index(own)
    return own


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Counter[tuple[str, ...]]:
    """The tags of all pages of a store with plain texts of the same length."""
    database = open_database(sqlite_store(tmp_path_factory.mktemp("plain")))
    populate(database)
    drop_index(database)
    fill(database, PLAIN)
    assert update_index(database)
    with client_of(database) as client:
        pages = crawl(client)
    database.close()
    return Counter(tag for page in pages.values() for tag in page.tags)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(text, id=name, marks=[pytest.mark.soak] * (name != "address"))
        for name, text in {
            "address": "  ".join((FIRST[0], *HOSTILE[:-1])),
            "script": TEXTS[1],
            "path": TEXTS[2],
        }.items()
    ],
)
def test_no_field_of_a_store_becomes_markup(filled: Database, plain: Counter[tuple[str, ...]], value: str) -> None:
    fill(filled, value)
    assert update_index(filled)
    with client_of(filled) as client:
        pages = crawl(client)
    tags = Counter(tag for page in pages.values() for tag in page.tags)
    assert len(pages) > 30
    assert set(tags) - set(plain) == set()


def test_every_text_column_is_filled() -> None:
    kept = {
        f"{table.name}.{column.name}"
        for table in metadata.sorted_tables
        for column in table.c
        if is_free(table, column)
    }
    assert {
        "run.error",
        "step.action",
        "step.reward_parts",
        "trajectory.policy",
        "task.options",
        "reward.verdicts",
    } <= kept
    assert len(kept) > 30
