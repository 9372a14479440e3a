"""Episodes of ``turnwise/TinyCode-v0`` continue in other sandboxes, and re-execute from their first turn."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from random import Random

from turnwise.agents.reexecution.reexecute import reexecute
from turnwise.agents.rollout.assignment import Assignment
from turnwise.agents.rollout.control import Suspend
from turnwise.agents.rollout.group_runner import GroupRunner
from turnwise.agents.rollout.player import PlayerTurn
from turnwise.agents.rollout.timeouts import Timeouts
from turnwise.envs.tasks import make_task
from turnwise.envs.worlds.tiny.code import PARTS
from turnwise.records import NO_VERSION, Message, Role, Source, Status
from turnwise.store.queries import load_trajectory
from turnwise.store.writing.client import StoreClient
from turnwise.tests.agents.players import HORIZON, Stage, group, on_stage
from turnwise.tests.agents.sampled_groups import Decides, twice_after_two_turns

SLOW = Timeouts(reset_s=30.0, step_s=10.0, turn_s=10.0, group_s=60.0)
PUTS = ("put call plus", "put call minus", "put value 12")


@dataclass
class Repairs:
    """Opens parts that an observation named, changes them, and runs the program, at random."""

    stream: Random
    names: frozenset[str] = field(default_factory=frozenset)
    messages: int = 0

    async def act(self, observation: str, images: Sequence[bytes]) -> PlayerTurn:
        self.names |= set(PARTS).intersection(observation.split())
        action = self.stream.choice(["run", *PUTS, *PUTS, *(f"open {name}" for name in sorted(self.names))])
        index, self.messages = self.messages, self.messages + 2
        prompt = Message(index, index - 1 if index else None, Role.USER, Source.POLICY, [1], [0], [nan], [NO_VERSION])
        answer = Message(index + 1, index, Role.ASSISTANT, Source.POLICY, [2], [1], [-0.5], [0])
        return PlayerTurn(action, (prompt, answer), 1)

    def snapshot(self) -> tuple[frozenset[str], int]:
        return self.names, self.messages

    def restore(self, snapshot: tuple[frozenset[str], int]) -> None:
        self.names, self.messages = snapshot

    def close(self) -> None:
        """Hold nothing."""


def repairing(stage: Stage) -> GroupRunner:
    return GroupRunner(StoreClient(stage.send), lambda _, __, trajectory: Repairs(Random(trajectory.id)), SLOW, {})


def test_branches_continue_in_their_own_sandbox_and_re_execute(local: str, tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        of, store = group(make_task("turnwise/TinyCode-v0", 5, "train", {}), 2), await stage.begin()
        await store.open_group(of)
        runner = repairing(stage)
        outcomes = await runner.play(Assignment.whole(of, Decides(twice_after_two_turns)))
        await runner.close()
        assert [(one.status, one.turns) for one in outcomes] == [(Status.TRUNCATED, HORIZON.max_turns)] * 6
        stored = [load_trajectory(stage.database, one.trajectory) for one in outcomes]
        assert sorted(one.branched_at or 0 for one in stored) == [0, 0, 2, 2, 4, 4]
        changed = [step for one in stored for step in one.steps if step.action.startswith("put") and step.action_valid]
        assert len(changed) >= 4
        for one in stored:
            report = await reexecute(stage.database, one.id)
            assert report.matches, report.message

    on_stage(tmp_path, scenario)


def test_a_suspended_episode_continues_in_another_sandbox(local: str, tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        store, task = await stage.begin(), make_task("turnwise/TinyCode-v0", 5, "train", {})
        runner, controller = (
            repairing(stage),
            Decides(lambda view: [Suspend(0, "enough")] * (len(view.latest.turns) == 3)),
        )
        first, second = group(task, name="g"), group(task, name="h")
        await store.open_group(first)
        await store.open_group(second)
        (one,) = await runner.play(Assignment.whole(first, controller))
        point = pickle.loads(pickle.dumps(one.suspended))  # noqa: S301 - pickled here
        (one,) = await runner.play(Assignment(second, [(0, 0)], starts={0: point}))
        await runner.close()
        assert (one.status, one.turns) == (Status.TRUNCATED, HORIZON.max_turns)
        old, new = (load_trajectory(stage.database, name) for name in ("g-0", "h-0"))
        assert (len(old.steps), list(new.steps[:3])) == (3, list(old.steps))
        report = await reexecute(stage.database, new.id)
        assert report.matches, report.message

    on_stage(tmp_path, scenario)
