"""The strip of exact tokens: caps, values, and why some of them are missing."""

import pytest
from starlette.testclient import TestClient
from turnwise.console.viewer.pages.episode.token_strip import token_strip
from turnwise.trainer.learner.provenance.token_rows import TokenRow, TrajectoryTokens, TurnTokens

SEEN = TokenRow(3, "a", "env", 0, None, None, None, None)
SAMPLED = TokenRow(4, "b", "policy", 1, -0.5, 2, 0.25, 1.5, 0.01, None, 1)


def tokens(update: int | None = 7) -> TrajectoryTokens:
    turns = [TurnTokens(0, [SEEN, SAMPLED]), TurnTokens(1, [SEEN, SEEN, SAMPLED]), TurnTokens(None, [SEEN])]
    return TrajectoryTokens(turns, "r", update, "")


def test_a_strip_has_the_positions_and_the_values_that_exist() -> None:
    found = token_strip(tokens(), None, None)
    assert [(one.turn, one.first, len(one.rows)) for one in found.turns] == [(0, 0, 2), (1, 2, 3), (None, 5, 1)]
    assert (found.total, found.shown, found.sampled, found.first_version) == (6, 6, 2, 2)
    assert found.shades == ["logprob", "advantage", "mismatch", "weight", "staleness", "version", "mask"]
    assert found.curves[2].values == [None, 0.01, None, None, 0.01, None]
    assert found.missing == "no entropy in update 7"


def test_a_strip_is_cut_after_a_number_of_tokens_and_one_turn_is_whole() -> None:
    cut = token_strip(tokens(), None, 3)
    assert [(len(one.rows), one.left_out) for one in cut.turns] == [(2, 0), (1, 2), (0, 1)]
    assert (cut.total, cut.shown) == (6, 3)
    alone = token_strip(tokens(), 1, None)
    assert [(one.turn, one.first, len(one.rows)) for one in alone.turns] == [(1, 2, 3)]


@pytest.mark.parametrize("shade", ["version", "mask"])
def test_the_page_shades_by_the_value_of_its_address(client: TestClient, shade: str) -> None:
    page = client.get(f"/trajectories/b-0?view=tokens&shade={shade}&token=1").text
    assert f'data-shade="{shade}"' in page
    assert page.count("id=token>") == 1
    record = client.get("/api/trajectories/b-0?view=tokens").json()["strip"]
    assert record["missing"] == "" or "no entropy" in record["missing"]
    other = client.get("/api/trajectories/b-0?view=tokens&shade=entropy").json()
    assert other["shade"] == record["shades"][0] == "logprob"


def test_all_values_of_an_episode_are_columns(client: TestClient) -> None:
    found = client.get("/api/trajectories/b-0/tokens").json()
    assert found["id"][-2:] == [5, 2]
    assert (found["mask"][-2:], found["logprob"][-2:]) == ([1, 1], [-0.5, -0.25])
    columns = [one for one in found.values() if isinstance(one, list)]
    assert {len(one) for one in columns} == {len(found["id"])}
