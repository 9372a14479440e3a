"""A quotation that a link names is marked where it is, and only there."""

from time import process_time

import pytest
from starlette.testclient import TestClient
from turnwise.console.viewer.pages.episode.quotation import split_at
from turnwise.store.database import Database
from turnwise.tests.console.viewer.conftest import client_of
from turnwise.tests.store.making import call, group, start, trajectory, turn

TEXT = "one two\n  three one  two\x1b <b>"


@pytest.mark.parametrize(
    ("quote", "occurrence", "parts"),
    [
        ("two three", 0, ("one ", "two\n  three", " one  two␛ <b>")),
        ("one two", 0, ("", "one two", "\n  three one  two␛ <b>")),
        ("one two", 1, ("one two\n  three ", "one  two", "␛ <b>")),
        ("one two", 9, ("one two\n  three ", "one  two", "␛ <b>")),
        ("two␛ <b>", 0, ("one two\n  three one  ", "two␛ <b>", "")),
        ("e t", 1, ("one two\n  three on", "e  t", "wo␛ <b>")),
        ("t.o", 0, None),
        ("two four", 0, None),
        (" ", 0, None),
    ],
)
def test_a_quotation_crosses_lines_and_has_a_number(
    quote: str, occurrence: int, parts: tuple[str, str, str] | None
) -> None:
    assert split_at(TEXT, quote, occurrence) == parts


def test_a_quotation_of_many_words_is_found_in_time_by_the_length_of_the_text() -> None:
    text, words, since = "a " * 500_000, ["a"] * 1_000, process_time()
    assert split_at(text, " ".join([*words, "b"]), 0) is None
    found = split_at(text, " ".join(words), 2**31 - 1)
    assert found is not None
    assert len(found[0]) == 998_000
    assert process_time() - since < 2


def test_the_page_marks_the_quotation_of_its_address(client: TestClient) -> None:
    address = "/trajectories/a-0?turn=1&field=observation&quote=page%20a%20long&occurrence=2#quote"
    found = client.get(address).text
    before, _, after = found.partition('<mark id="quote">page a long</mark>')
    assert (before.endswith("a long page a long page a long "), after.startswith(" page a long")) == (True, True)
    assert found.count("<mark") == 1
    assert 'Only turn 1 of the turns 0 to 1 is shown · <a href="/trajectories/a-0#turn-1">show all turns</a>' in found
    assert "show all turns" not in client.get("/trajectories/a-0").text
    record = client.get(f"/api{address}").json()
    assert (record["is_quoted"], record["quote"]) == (True, "page a long")
    assert "".join(record["turns"][0]["observation"]["quoted"]) == "a long page " * 400
    assert client.get("/api/trajectories/a-0?turn=1&quote=click").json()["turns"][0]["action"]["quoted"][1] == "click"
    missing = client.get("/trajectories/a-0?turn=1&quote=nowhere")
    assert "The quotation is not in the texts of this page." in missing.text
    assert client.get("/trajectories/a-0?turn=1&quote=click&field=other").status_code == 400


def test_a_turn_alone_has_a_bounded_text(own: Database) -> None:
    start(own)
    call(own, "open_group", group=group(size=1))
    call(own, "start_trajectory", trajectory=trajectory("t"))
    call(own, "append", trajectory="t", **turn(0, text="a " * 500_001))
    with client_of(own) as client:
        page = client.get("/trajectories/t?turn=0&quote=a+a+b").text
        assert "2 more characters · the downloads have them" in page
        assert 'more characters · <a href="/trajectories/t?turn=0">show all</a>' in client.get("/trajectories/t").text
