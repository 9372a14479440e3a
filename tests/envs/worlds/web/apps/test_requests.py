"""Forms, queries and cookies round-trip, and no input breaks the parser."""

import urllib.parse
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.envs.worlds.web.apps.server.requests import (
    MAX_FIELDS,
    BadRequest,
    cleaned,
    parse_cookies,
    parse_form,
    query,
)
from turnwise.envs.worlds.web.apps.server.web import TEMPLATES
from turnwise.tests.envs.worlds.web.apps.elements import Document

NAMES = st.text("abcdefghijklmnopqrstuvwxyz_-", min_size=1, max_size=8)
PRINTED = st.text(st.characters(blacklist_categories=("Cc", "Cs")), max_size=40)


@given(st.lists(st.tuples(NAMES, PRINTED), max_size=12))
def test_a_form_round_trips(pairs: list[tuple[str, str]]) -> None:
    form = parse_form(urllib.parse.urlencode(pairs))
    wanted: dict[str, list[str]] = {}
    for name, value in pairs:
        wanted.setdefault(name, []).append(value.strip())
    assert form == wanted
    assert all(form.text(name) == values[-1] for name, values in wanted.items())


@given(st.text(max_size=200))
def test_any_body_is_a_form(body: str) -> None:
    for values in parse_form(body).values():
        for value in values:
            assert cleaned(value) == value
            assert "\r" not in value
            value.encode()


@given(st.text(max_size=100), NAMES)
def test_numbers_are_numbers_or_nothing(text: str, name: str) -> None:
    form = parse_form(urllib.parse.urlencode({name: text.encode("utf-8", "replace")}))
    number = form.number(name)
    assert number is None or str(number) == form.text(name).lstrip("0") or int(form.text(name)) == number
    assert form.numbers(name) == ([] if number is None else [number])


def test_a_form_of_too_many_fields_is_refused() -> None:
    assert len(parse_form("&".join(["a=1"] * MAX_FIELDS))["a"]) == MAX_FIELDS
    with pytest.raises(BadRequest):
        parse_form("&".join(["a=1"] * (MAX_FIELDS + 1)))


@given(st.dictionaries(NAMES, st.text("abcXYZ0123456789=-_", max_size=12), max_size=5))
def test_cookies_round_trip(cookies: dict[str, str]) -> None:
    assert parse_cookies("; ".join(f"{name}={value}" for name, value in cookies.items())) == cookies


@given(st.text(max_size=100))
def test_any_header_is_cookies(header: str) -> None:
    assert all(name and ";" not in value for name, value in parse_cookies(header).items())


@given(st.dictionaries(NAMES, PRINTED, max_size=4))
def test_a_query_contains_the_values_that_are_not_empty(values: dict[str, str]) -> None:
    read = parse_form(query(values).removeprefix("?"))
    assert {name: read.text(name) for name in read} == {name: value.strip() for name, value in values.items() if value}


@given(PRINTED, PRINTED)
def test_text_and_attributes_are_escaped(text: str, value: str) -> None:
    macros: Any = TEMPLATES.get_template("macros.html").module
    page = Document(macros.link(text, value))
    assert page.first("a").attributes["href"] == value
    assert page.first("a").raw == text
    assert Document(macros.area("Name", "name", text)).first("textarea").value == text
