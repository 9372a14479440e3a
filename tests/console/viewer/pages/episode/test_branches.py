"""The tree of a group: a line per member below the one that it branched from."""

from collections.abc import Mapping

from starlette.testclient import TestClient
from turnwise.console.viewer.pages.episode.branches import TurnCredit, tree
from turnwise.records import Trajectory
from turnwise.store.queries.fates import MemberFate
from turnwise.tests.store.making import records


def member(
    number: int, turns: int, parent: str | None = None, at: int | None = None, credit: Mapping[str, float] | None = None
) -> MemberFate:
    return MemberFate(
        f"m-{number}", number, 0, "completed", True, 1.0, 1.0, turns, 4, "", 4, 0.5, credit or {}, parent, at
    )


def test_a_branch_has_its_own_turns_below_its_parent() -> None:
    members = [member(0, 2), member(1, 3, "m-2", 2), member(2, 2, "m-0", 1, {"1": -0.5}), member(3, 1, "elsewhere", 0)]
    steps = [step for index in range(3) for step in records(index)[0]]
    episodes = {
        one.trajectory: Trajectory(one.trajectory, "r", "g", one.member, 0, steps=steps[: one.turns]) for one in members
    }
    found = tree(members, episodes, {})
    lines = [(one.member.member, one.parent, one.start, [turn.turn for turn in one.turns]) for one in found.lines]
    assert lines == [(0, None, 0, [0, 1]), (2, 0, 1, [1]), (1, 1, 2, [2]), (3, None, 0, [0])]
    assert found.lines[1].turns == [TurnCredit(1, steps[1].reward, -0.5)]
    assert found.length == 3


def test_the_pages_of_a_group_with_branches_draw_the_tree(client: TestClient) -> None:
    lines = client.get("/api/groups/a").json()["tree"]["lines"]
    assert [(one["member"]["trajectory"], one["parent"], one["start"]) for one in lines] == [
        ("a-0", None, 0),
        ("a-1", 0, 1),
    ]
    parent, branch = client.get("/api/trajectories/a-0").json(), client.get("/api/trajectories/a-1").json()
    assert [(one["trajectory"], one["branched_at"], one["run"]) for one in parent["branches"]] == [("a-1", 1, "r")]
    assert (branch["branched_from"], branch["branched_at"], branch["branches"]) == ("a-0", 1, [])
    assert 'class="tree"' in client.get("/trajectories/a-1").text
    assert client.get("/api/groups/b").json()["tree"] is None
