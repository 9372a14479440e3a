"""Members of a group next to one another: the chosen ones, where they part, and how."""

import pytest
from starlette.testclient import TestClient


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
