"""Of a long episode, a page loads the turns that it shows."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import update
from turnwise.console.viewer.pages import group as group_page
from turnwise.console.viewer.pages import replay, trajectory
from turnwise.console.viewer.pages.episode import part, token_strip
from turnwise.console.viewer.pages.episode.part import load_part
from turnwise.records import GroupState
from turnwise.store import queries
from turnwise.store.content.blobs import digest
from turnwise.store.content.rows import rows_of
from turnwise.store.database import Database
from turnwise.store.schema import step
from turnwise.tests.console.viewer.conftest import client_of
from turnwise.tests.console.viewer.pages.episode.test_pictures import picture
from turnwise.tests.store.making import call, group, play, records, start, train
from turnwise.tests.store.making import trajectory as new_trajectory

TURNS = 12
Get = Callable[[str], Any]


@pytest.fixture
def long(own: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A store in which the episodes of a group have more turns than are loaded as a whole; update 1 trained on it."""
    for module in (part, trajectory):
        monkeypatch.setattr(module, "WHOLE_TURNS", 5)
    for module in (token_strip, trajectory):
        monkeypatch.setattr(module, "STRIP_TURNS", 4)
    for module in (trajectory, group_page, replay):
        monkeypatch.setattr(module, "TURNS_SHOWN", 3)
    monkeypatch.setattr(trajectory, "TIMELINE_TURNS", 6)
    monkeypatch.setattr(group_page, "TURNS_COMPARED", 4)
    start(own)
    call(own, "open_group", group=group("g"))
    play(own, "g-0", turns=TURNS)
    play(own, "g-1", member=1, turns=TURNS - 1)
    call(own, "close_group", group="g", state=GroupState.READY)
    train(own, ["g"], 1, 0)
    return own


@pytest.fixture
def get(long: Database) -> Get:
    client = client_of(long)
    return lambda path: client.get(path).json()


def test_a_page_has_its_turns_and_the_sums_of_all(get: Get) -> None:
    page = get("/api/trajectories/g-0?start=6")
    assert ([turn["index"] for turn in page["turns"]], page["total"], page["is_part"]) == ([6, 7, 8], TURNS, True)
    assert [turn["observation"]["text"] for turn in page["turns"]] == ["page 6", "page 7", "page 8"]
    assert [turn["versions"] for turn in page["turns"]] == [[0]] * 3
    assert (page["previous_start"], page["next_start"], page["final"]) == (3, 9, None)
    assert page["part_totals"] == {"shape": TURNS * 0.5}
    assert (page["timeline_start"], page["timeline_turns"]) == (6, 6)
    assert [turn["advantage"] for turn in get("/api/trajectories/g-0")["turns"]] == [0.25, 0.75, None]
    assert get("/api/trajectories/g-0?start=9")["next_start"] is None
    assert get("/api/trajectories/g-0?turn=11")["turns"][0]["observation"]["text"] == "page 11"


def test_the_tokens_have_pages_by_turns(get: Get, long: Database) -> None:
    page = get("/api/trajectories/g-0?view=tokens&start=4")
    assert [(one["turn"], one["first"]) for one in page["strip"]["turns"]] == [(4, 0), (5, 5), (6, 10), (7, 15)]
    assert (page["previous_start"], page["next_start"], page["strip"]["total"]) == (0, 8, 20)
    assert "has 12 turns, and a page has these values of at most 5" in page["token_note"]
    values = get("/api/trajectories/g-0/tokens?start=4")
    assert ([*dict.fromkeys(values["turn"])], values["id"][:3], values["next_start"]) == ([4, 5, 6, 7], [14, 11, 12], 8)
    assert get("/api/trajectories/g-0/tokens?start=8")["next_start"] is None
    every = get("/api/trajectories/g-0/tokens?all=1")
    assert (len(every["id"]), every["next_start"]) == (5 * TURNS, None)
    html = client_of(long).get("/trajectories/g-0?view=tokens&start=4").text
    assert "20 tokens from turn 4 on, of an episode of 12 turns" in html
    assert "turns from 8 of 12" in html


def test_members_are_compared_over_all_turns_and_shown_by_pages(get: Get) -> None:
    page = get("/api/groups/g?start=9")
    assert [row["turn"] for row in page["rows"]] == [9, 10, 11]
    assert [cell and cell["action"]["text"] for cell in page["rows"][-1]["cells"]] == ["click 11", None]
    assert (page["first_divergence"], page["divergence"], page["next_start"]) == (11, "ended", None)
    cells = get("/api/groups/g")["rows"][1]["cells"]
    assert ([cell["advantage"] for cell in cells], page["note"]) == ([0.75, 0.75], "")


def test_a_replay_lists_its_turns_by_pages(get: Get, long: Database) -> None:
    page = get("/api/trajectories/g-0/replay?start=3")
    assert ([turn["index"] for turn in page["turns"]], page["total"]) == ([3, 4, 5], TURNS)
    assert (page["previous_start"], page["next_start"]) == (0, 6)
    assert 'data-turn="12"' in client_of(long).get("/trajectories/g-0/replay").text


def test_only_the_rows_of_the_part_are_loaded_and_checked(long: Database) -> None:
    with long.engine.begin() as conn:
        conn.execute(update(step).where(step.c.idx == 8).values(action="altered"))
    assert [one.index for one in load_part(long, "g-0", TURNS, 2, 5).found.steps] == [2, 3, 4]
    for path, status in (("?start=3", 200), ("?start=6", 409), ("?turn=8", 409)):
        answer = client_of(long).get(f"/api/trajectories/g-0{path}")
        assert answer.status_code == status, path
    assert "step 8: the step was altered" in answer.text


def test_a_part_is_what_the_whole_episode_has_there(own: Database) -> None:
    start(own)
    call(own, "open_group", group=group("g", size=1))
    call(own, "start_trajectory", trajectory=new_trajectory("t"))
    for index in range(5):
        screen = picture(8 + index, 8)
        steps, messages = records(index, text="x" * 3_000)
        steps, images = [replace(one, images=(digest(screen),)) for one in steps], {digest(screen): screen}
        messages[0] = replace(messages[0], images=(digest(screen),))
        call(own, "append", trajectory="t", rows=rows_of(steps, messages, images))
    end = [replace(one, index=10, parent=9) for one in records(0)[1][:1]]
    call(own, "append", trajectory="t", rows=rows_of([], end))
    whole = queries.load_trajectory(own, "t")
    middle, last = queries.load_turns(own, "t", 1, 3), queries.load_turns(own, "t", 3, 6)
    assert (middle.steps, last.steps) == (whole.steps[1:3], whole.steps[3:])
    for found, of_turns in ((middle, whole.messages[2:6]), (last, whole.messages[6:])):
        assert [(one.index, one.parent, one.images, [*one.tokens]) for one in found.messages] == [
            (one.index, one.parent, one.images, [*one.tokens]) for one in of_turns
        ]
    assert replace(middle, steps=(), messages=()) == replace(whole, steps=(), messages=())
    assert {one.observation for one in queries.load_turns(own, "t", 1, 3, texts=False).steps} == {""}
