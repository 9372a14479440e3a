"""Dialogs are accepted with what they offer, and reported."""

import pytest
from turnwise.tests.envs.worlds.web.one_page import OnePage


@pytest.mark.parametrize(
    ("call", "note", "value"),
    [
        ("prompt('name?', 'default')", "(prompt): 'name?', with 'default'", "default"),
        ("prompt('name?')", "(prompt): 'name?'\n", ""),
        ("prompt('name?', '')", "(prompt): 'name?'\n", ""),
        ("prompt('a', 'two\\nlines')", "(prompt): 'a', with 'two lines'", "two\\nlines"),
        ("confirm('sure?')", "(confirm): 'sure?'\n", "true"),
    ],
)
def test_a_dialog_is_accepted_with_what_it_offers(page: OnePage, call: str, note: str, value: str) -> None:
    page.open(f'<button onclick="log(JSON.stringify({call}))">ask</button>')
    seen, _ = page.try_action("click({ask})", ask="button 'ask'")
    assert f"! a dialog was accepted {note}" in seen + "\n"
    assert f"log: {value};" in seen.replace('"', "").replace("\\\\", "\\")


@pytest.mark.parametrize("action", ["click({link})", 'goto("http://127.0.0.1:8080/other.html")'])
def test_leaving_a_page_that_asks_first_is_reported(page: OnePage, action: str) -> None:
    body = "<script>onbeforeunload = event => event.preventDefault()</script><button>act</button>"
    page.open(f"{body}<a href=other.html>leave</a>")
    page.try_action("click({act})", act="button 'act'")
    seen, _ = page.try_action(action, link="link 'leave'")
    assert "heading 'other'" in seen
    assert "! a dialog was accepted (beforeunload)" in seen
