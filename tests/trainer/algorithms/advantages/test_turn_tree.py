"""A tree of turns that was played on an environment and stored: its credit, its trained tokens and its re-execution."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from turnwise.agents.reexecution.reexecute import reexecute
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.envs.worlds.tiny.text import VOCABULARY
from turnwise.records import Group, PolicyVersion, ScoredGroup
from turnwise.tests.agents.players import Stage, group, on_stage, site
from turnwise.tests.agents.sampled_groups import LONG, Decides, played, twice_after_two_turns
from turnwise.trainer.algorithms.advantages.tree import TreeCredit
from turnwise.trainer.algorithms.groups import PerTurn, Shaped
from turnwise.trainer.algorithms.losses.base import PolicyLoss
from turnwise.trainer.algorithms.rewards.base import RewardShaper
from turnwise.trainer.learner.batch import Batch, assemble
from turnwise.trainer.rollout.scoring import score


class LastTurn(RewardShaper):
    """Give each member a reward at its last turn: 1 to members 0, 2 and 4, otherwise 0."""

    won: ClassVar[set[int]] = {0, 2, 4}

    def __call__(self, group: Group, rewards: PerTurn) -> Sequence[Shaped]:
        return [
            Shaped([0.0] * (len(turns) - 1) + [float(one.member in self.won)])
            for one, turns in zip(group.trajectories, rewards, strict=True)
        ]


def test_a_stored_tree_is_credited_per_node_and_trained_on_once(tmp_path: Path) -> None:
    """Members 0 and 1 begin; 2 and 3 branch from 0 after two turns, and one child from each of these after four.

    By hand, with the local comparison alone. All members but 1 share the first two turns of member 0. The root has
    3/6, and member 1 has 0. The shared turns have the value 3/5. Below, member 0 has 1. Turns 2 and 3 of members 2 and
    3 have the mean of the member and its child, and their last turns the own return.
    """
    chat = load_renderer(new_model(tmp_path / "model", VOCABULARY, hidden=16, layers=1, heads=2))

    async def scenario(stage: Stage) -> None:
        of = group(site("find"), 2, LONG)
        outcomes, client, _ = await played(stage, chat, of, Decides(twice_after_two_turns))
        (loaded,) = await stage.store().load([of.id])
        members = {one.id: one for one in loaded.trajectories}
        returns = {one.id: float(one.member in LastTurn.won) for one in loaded.trajectories}
        scored = score(loaded, (LastTurn(),), ()).scored
        credit = dict(zip(members, TreeCredit(global_weight=0, leaf_exponent=0).of_group(scored), strict=True))
        assert credit["g-1"] == pytest.approx([-0.5] * 5)
        assert credit["g-0"] == pytest.approx([0.1, 0.1, 0.4, 0.4, 0.4])
        children = {one.branched_from: one.id for one in loaded.trajectories if one.member in (4, 5)}
        for parent, child in children.items():
            assert parent in ("g-2", "g-3")
            value = (returns[parent] + returns[child]) / 2
            for name in (parent, child):
                turns = [0.1, 0.1, value - 0.6, value - 0.6, returns[name] - value]
                assert credit[name] == pytest.approx(turns)

        batch = _batch(scored)
        assert sum(float(one.weights.sum()) for one in batch.samples) == client.sampled_tokens
        for one in batch.samples:
            expected = np.asarray([0.0, *credit[one.sample.trajectory]], np.float32)[one.sample.turns + 1]
            assert one.advantages.tolist() == pytest.approx(expected.tolist())
        for outcome in outcomes:
            report = await reexecute(stage.database, outcome.trajectory)
            assert report.matches, report.message

    def _batch(scored: ScoredGroup) -> Batch:
        return assemble(
            [scored],
            {0: PolicyVersion("r", 0, None, 0)},
            0,
            1,
            advantage=TreeCredit(global_weight=0, leaf_exponent=0),
            filters=(),
            loss=PolicyLoss.build_default(),
            streams=(),
        )

    on_stage(tmp_path, scenario)
