"""Members of a group next to one another: the chosen ones, where they part, and how."""

import pytest
from starlette.testclient import TestClient
from turnwise.console.viewer.pages import group as group_page
from turnwise.records import GroupState, Purpose
from turnwise.store.database import Database
from turnwise.store.run_lock import hold_run
from turnwise.tests.console.viewer.conftest import client_of
from turnwise.tests.store.making import call, group, play, play_group, start


def test_the_address_chooses_the_members(client: TestClient) -> None:
    page = client.get("/api/groups/a?members=1,0").json()
    assert [one["member"] for one in page["shown"]] == [1, 0]
    alone = client.get("/api/groups/a?members=1").json()
    assert (alone["previous"], alone["next"], alone["first_divergence"]) == ([0], [], None)
    assert 'rel="prev" href="/groups/a?members=0"' in client.get("/groups/a?members=1").text
    assert 'href="/groups/a?members=0%2C1"' in client.get("/trajectories/a-0").text


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ("7", "has no member &#39;7&#39;; its members are 0, 1"),
        ("0,x", "has no member &#39;x&#39;"),
        ("99999999999999", "has no member &#39;99999999999999&#39;"),
    ],
)
def test_a_member_that_is_not_there_is_refused(client: TestClient, members: str, message: str) -> None:
    page = client.get(f"/groups/a?members={members}")
    assert (page.status_code, message in page.text) == (400, True), page.text


def test_the_page_states_how_the_members_part(client: TestClient) -> None:
    page = client.get("/api/groups/a").json()
    assert (page["first_divergence"], page["divergence"]) == (1, "ended")
    assert "the members part here: one of them had ended" in client.get("/groups/a").text
    assert client.get("/api/groups/b").json()["divergence"] == ""


def test_the_pages_of_a_group_and_of_its_members_know_that_the_driver_is_gone(own: Database) -> None:
    start(own)
    play_group(own, "g")
    with hold_run(own, "r"):
        pass
    client = client_of(own)
    assert client.get("/api/groups/g").json()["fate"]["fate"] == "waits for a resume of the interrupted run"
    training = client.get("/api/trajectories/g-0").json()["training"]
    assert training == "not yet: its group is ready, and the run is interrupted"


def test_the_turn_in_which_the_members_part_is_one_click_away(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_page, "TURNS_SHOWN", 1)
    page = client.get("/groups/a").text
    assert 'href="/groups/a?start=1#turn-1">turn 1</a>' in page
    later = client.get("/groups/a?members=1,0&start=1").text
    assert 'href="/groups/a?members=1%2C0">← earlier turns</a>' in later


def test_one_more_member_replaces_the_first_one_of_a_full_row(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_page, "MEMBERS_MAX", 1)
    page = client.get("/groups/a?members=0").text
    assert 'href="/groups/a?members=1" aria-label="show member 1"' in page


def test_equal_returns_of_an_evaluation_are_not_flagged(own: Database) -> None:
    start(own)
    call(own, "open_group", group=group("held-out", purpose=Purpose.EVAL))
    for member in range(2):
        play(own, f"held-out-{member}", "held-out", member)
    call(own, "close_group", group="held-out", state=GroupState.FILTERED, reason="evaluation")
    page = client_of(own).get("/api/groups/held-out").json()["fate"]
    assert ([one["total"] for one in page["members"]], page["is_flat"]) == ([2.0, 2.0], False)


def test_the_list_of_groups_offers_only_filters_that_act(client: TestClient) -> None:
    page = client.get("/runs/r/groups?purpose=eval").text
    purposes = page[page.index("Purpose") : page.index("State")]
    assert purposes.count("<a ") == 2
