"""Credit on a tree of turns, by hand."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.records import ScoredGroup
from turnwise.tests.trainer.scored_groups import scored_group
from turnwise.trainer.algorithms.advantages.grpo import GRPO
from turnwise.trainer.algorithms.advantages.tree import TreeCredit


def tree(rewards: Sequence[Sequence[float]], links: dict[int, tuple[str, int]]) -> ScoredGroup:
    """Return a scored group whose member ``i`` is a branch of ``links[i]``: the parent's id and the first own turn."""
    scored = scored_group(rewards)
    members = [
        replace(one, branched_from=links[index][0], branched_at=links[index][1]) if index in links else one
        for index, one in enumerate(scored.group.trajectories)
    ]
    return replace(scored, group=replace(scored.group, trajectories=members))


# Member 1 is independent. Members 2 and 3 are branches of 0 after its first and second turn, 4 is a branch of 2.
REWARDS = [[0, 0, 1], [0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
LINKS = {2: ("g-0", 1), 3: ("g-0", 2), 4: ("g-2", 2)}


def test_the_value_of_a_node_is_the_mean_return_of_its_leaves() -> None:
    """By hand. Returns 1, 0, 1, 0, 0: the root has .4. The first turn of member 0 has the leaves 0, 2, 3 and 4, so .5;
    its second has 0 and 3, so .5; its third has 1. The second turn of member 2 has 2 and 4, so .5; its third has 1, and
    that of member 4 has 0.
    """
    local = TreeCredit(global_weight=0, leaf_exponent=0).of_group(tree(REWARDS, LINKS))
    expected = [[0.1, 0.0, 0.5], [-0.4, -0.4], [0.1, 0.0, 0.5], [0.1, 0.0, -0.5], [0.1, 0.0, -0.5]]
    assert local == [pytest.approx(turns) for turns in expected]
    whole = TreeCredit(global_weight=1, leaf_exponent=0).of_group(tree(REWARDS, LINKS))
    expected = [[0.1, 0.1, 0.6], [-0.4, -0.4], [0.1, 0.1, 0.6], [0.1, 0.1, -0.4], [0.1, 0.1, -0.4]]
    assert whole == [pytest.approx(turns) for turns in expected]


def test_treerl_adds_both_and_scales_by_the_leaves() -> None:
    """By hand: (.1 + .1) / 2 * sqrt 4, (.1 + 0) / 2 * sqrt 2, (.6 + .5) / 2."""
    first, independent, *_ = TreeCredit().of_group(tree(REWARDS, LINKS))
    assert first == pytest.approx([0.2, 0.05 * 2**0.5, 0.55])
    assert independent == pytest.approx([-0.4, -0.4])


def test_children_of_a_missing_parent_share_its_turns() -> None:
    """By hand: returns 1, 0, 1, the root has 2/3; the shared turn of members 0 and 1 has 1/2."""
    scored = tree([[0, 1], [0, 0], [1, 0]], {0: ("failed", 1), 1: ("failed", 1)})
    first, second, third = TreeCredit(global_weight=0, leaf_exponent=0).of_group(scored)
    assert first == pytest.approx([-1 / 6, 1 / 2])
    assert second == pytest.approx([-1 / 6, -1 / 2])
    assert third == pytest.approx([1 / 3, 1 / 3])


def test_members_have_the_same_credit_for_a_turn_that_they_share() -> None:
    credit = TreeCredit().of_group(tree(REWARDS, LINKS))
    assert credit[0][0] == credit[2][0] == credit[3][0] == credit[4][0]
    assert credit[0][1] == credit[3][1]
    assert credit[2][1] == credit[4][1]


def test_the_share_of_shared_turns_counts_each_turn_once() -> None:
    """By hand: 9 turns, of which the first two of member 0 and the second of member 2 have several leaves."""
    estimator = TreeCredit()
    estimator([tree(REWARDS, LINKS)])
    assert estimator.metrics() == {"shared_turn_fraction": pytest.approx(3 / 9)}


@given(
    st.lists(st.lists(st.floats(-2, 2, width=32), min_size=1, max_size=4), min_size=1, max_size=5),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_without_branches_the_credit_is_that_of_grpo(
    rewards: list[list[float]], weight: float, exponent: float
) -> None:
    credit = TreeCredit(global_weight=weight, leaf_exponent=exponent).of_group(scored_group(rewards))
    expected = GRPO().of_group(scored_group(rewards))
    assert credit == [pytest.approx(turns, abs=1e-9) for turns in expected]
