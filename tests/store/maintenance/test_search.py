"""Full-text search finds turns by their words, on both databases, and no text becomes a query."""

from time import process_time

import pytest
from turnwise.records import Status
from turnwise.store.database import Database
from turnwise.store.maintenance.search_index import drop_index, update_index
from turnwise.store.queries import search as queries_search
from turnwise.store.queries.search import END, BadSearch, excerpts, parse, search
from turnwise.tests.store.making import call, group, play_group, start, trajectory, turn


@pytest.fixture
def searched(database: Database) -> Database:
    start(database)
    call(database, "open_group", group=group(size=3))
    for member, text in enumerate(("the blue boat is late", "a red boat\x00 \ud800 sails", "boat " * 1000 + "harbor")):
        call(database, "start_trajectory", trajectory=trajectory(f"t{member}", member=member))
        call(database, "append", trajectory=f"t{member}", **turn(0, text=text))
        call(
            database,
            "finish_trajectory",
            trajectory=f"t{member}",
            status=Status.ENV_ERROR,
            error="the crane collapsed" if member == 1 else "",
            final_observation="",
        )
    assert update_index(database)
    return database


def found(database: Database, query: str, run: str | None = None) -> set[tuple[str, int]]:
    with database.read() as conn:
        return {(entry.trajectory, entry.turn) for entry in search(conn, parse(query), run=run).entries}


QUERIES: dict[str, set[tuple[str, int]]] = {
    "boat": {("t0", 0), ("t1", 0), ("t2", 0)},
    "BOAT late": {("t0", 0)},
    '"blue boat"': {("t0", 0)},
    '"boat blue"': set(),
    "boat -red -blue": {("t2", 0)},
    "late OR harbor": {("t0", 0), ("t2", 0)},
    "crane": {("t1", END)},
    "click": {("t0", 0), ("t1", 0), ("t2", 0)},
    "words: NEAR(a b) * ^ '; DROP TABLE run; --": set(),
    "sails*": {("t1", 0)},
}


def test_words_that_the_index_splits_are_indexed_up_to_a_size(database: Database) -> None:
    """PostgreSQL counts `ab-cd` as three words, and refuses an entry above 1 MiB."""
    start(database)
    call(database, "open_group", group=group(size=1))
    call(database, "start_trajectory", trajectory=trajectory("t"))
    letters = [chr(0x20000 + number) for number in range(40_000)]
    words = " ".join(f"{a}{b}-{b}{a}" for a, b in zip(letters[::2], letters[1::2], strict=True))
    call(database, "append", trajectory="t", **turn(0, text=f"harbor {words} {words}"))
    call(database, "finish_trajectory", trajectory="t", status=Status.ENV_ERROR)
    assert update_index(database)
    assert found(database, "harbor") == {("t", 0)}


def test_a_query_finds_the_turns_with_its_words(searched: Database) -> None:
    assert {query: found(searched, query) for query in QUERIES} == QUERIES


def test_a_search_of_one_run(searched: Database) -> None:
    assert found(searched, "boat", run="r")
    assert found(searched, "boat", run="other") == set()


@pytest.mark.parametrize(
    "query", ["", "-boat", '"boat', "boat OR", "OR", "***", "boat OR -red", "a " * 33, f'x "{"a " * 32}"', "a -b " * 17]
)
def test_a_query_that_cannot_be_read_is_explained(query: str) -> None:
    with pytest.raises(BadSearch, match=r"the search (`|has 3[34] words; at most 32 are searched)"):
        parse(query)


def test_new_trajectories_are_added_in_bounded_steps(searched: Database) -> None:
    call(searched, "start_trajectory", trajectory=trajectory("late", member=3))
    call(searched, "append", trajectory="late", **turn(0, text="a ferry"))
    assert update_index(searched)
    assert found(searched, "ferry") == set()
    call(searched, "finish_trajectory", trajectory="late", status=Status.COMPLETED, final_observation="ferry")
    assert not update_index(searched, limit=0)
    assert update_index(searched)
    assert found(searched, "ferry") == {("late", 0), ("late", END)}
    drop_index(searched)
    assert update_index(searched)
    assert found(searched, "ferry boat") == set()
    assert len(found(searched, "boat")) == 3


def test_an_excerpt_shows_the_words() -> None:
    assert excerpts({"a": "x" * 200 + " the boat sails"}, ["boat"]) == {"a": "…" + "x" * 28 + " the boat sails"}
    assert excerpts({"a": "a sail"}, ["boat"]) == {}


def test_an_excerpt_shows_a_word_after_characters_that_become_longer_without_case() -> None:
    text = "Straße İ " * 60 + "nach OSLO heute"
    assert excerpts({"a": text}, ["oslo"])["a"].endswith("İ nach OSLO heute")
    assert excerpts({"a": text}, ["STRAẞE"])["a"].startswith("Straße İ ")


@pytest.mark.parametrize(("term", "part"), [("[/b]", "a [b] bold [/b] text"), ("(bold)", "a [b] bold [/b] text")])
def test_an_excerpt_finds_the_words_of_a_term_with_other_characters(term: str, part: str) -> None:
    assert excerpts({"a": "a [b] bold [/b] text"}, [term]) == {"a": part}


def test_excerpts_contain_every_word_of_a_search_wherever_it_is() -> None:
    far = "select " + "x " * 200 + "oslo " + "y " * 200
    action = {"action": "select count(*) from people", "observation": "42 rows; oslo has 7"}
    assert excerpts(action, ["select", "oslo"]) == action
    assert excerpts(action, ["select oslo"]) == action
    assert excerpts({"action": "select", "observation": "oslo, select"}, ["select", "oslo"]) == {
        "observation": "oslo, select"
    }
    (parts,) = excerpts({"a": far}, ["oslo", "select"]).values()
    assert "select" in parts
    assert "oslo" in parts
    assert len(parts) < 220


def test_an_excerpt_is_cut_at_the_phrase_and_at_a_whole_word() -> None:
    text = "selected oslo " + "x " * 100 + "select oslo"
    (part,) = excerpts({"a": text}, ["select oslo"]).values()
    assert part.endswith("x select oslo")
    (part,) = excerpts({"a": "boats " + "x " * 100 + "boat"}, ["boat"]).values()
    assert part.endswith("x boat")


@pytest.mark.parametrize(
    "text", ["a " * 2_500_000, "q1x " * 1_000_000, "ß " * 2_000_000], ids=("words", "parts", "folded")
)
def test_excerpts_of_long_texts_take_no_time(text: str) -> None:
    since = process_time()
    assert excerpts({"a": text, "b": text}, [f"q{number}" for number in range(32)]).keys() <= {"a"}
    assert process_time() - since < 0.5


def test_the_newest_matches_are_ranked(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries_search, "RANKED_MAX", 3)
    start(database)
    for number in range(2):
        play_group(database, f"g{number}")
    assert update_index(database)
    with database.read() as conn:
        found = search(conn, parse("page"), limit=2)
        assert search(conn, parse("page"), run="none").ranked == 0
    assert (found.ranked, {entry.trajectory for entry in found.entries}) == (3, {"g1-1"})
