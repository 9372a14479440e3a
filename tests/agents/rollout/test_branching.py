"""Branches of an episode: parent links, a shared prefix that is trained on once, and replay."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from turnwise.agents.engine.request import Completion
from turnwise.agents.errors import EngineFailed
from turnwise.agents.reexecution.reexecute import reexecute
from turnwise.agents.rollout.control import Branch, Close, Decision, Drop, GroupView
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tokens.renderer import Renderer
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.envs.tasks import env_key, make_task
from turnwise.envs.worlds.tiny.text import VOCABULARY, TextSiteEnv
from turnwise.errors import TurnwiseError
from turnwise.records import Status, Task
from turnwise.store.queries import load_trajectory
from turnwise.tests.agents.players import QUICK, Stage, group, on_stage, site
from turnwise.tests.agents.sampled_groups import LONG, Decides, Sampler, played, twice_after_two_turns
from turnwise.tests.agents.worlds import CLOCK
from turnwise.trainer.learner.samples import samples


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    return load_renderer(new_model(tmp_path_factory.mktemp("model"), VOCABULARY, hidden=16, layers=1, heads=2))


def test_children_continue_their_parent_and_share_its_prefix_once(tmp_path: Path, chat: Renderer) -> None:
    async def scenario(stage: Stage) -> None:
        controller = Decides(twice_after_two_turns)
        outcomes, client, _ = await played(stage, chat, group(site("find"), 2, LONG), controller)
        assert [(one.member, one.status, one.turns) for one in outcomes] == [
            (member, Status.TRUNCATED, 5) for member in range(6)
        ]
        stored = {one.member: load_trajectory(stage.database, one.trajectory) for one in outcomes}
        links = {member: (one.branched_from, one.branched_at) for member, one in stored.items()}
        assert links[0] == links[1] == (None, None)
        assert links[2] == links[3] == ("g-0", 2)
        assert sorted(str(links[member]) for member in (4, 5)) == ["('g-2', 4)", "('g-3', 4)"]
        views = {one.member: one for one in controller.views[-1].members}
        assert [(views[member].parent, views[member].branched_at) for member in (0, 2)] == [(None, None), (0, 2)]

        for child in stored.values():
            if child.branched_from is None or child.branched_at is None:
                continue
            parent = load_trajectory(stage.database, child.branched_from)
            shared = child.branched_at
            assert list(child.steps[:shared]) == list(parent.steps[:shared])
            assert child.steps[shared].observation == parent.steps[shared].observation
            assert [one.action for one in child.steps[shared:]] != [one.action for one in parent.steps[shared:]]
            for mine, other in zip(child.messages[: 2 * shared], parent.messages, strict=False):
                assert (mine.index, mine.parent, list(mine.tokens)) == (other.index, other.parent, list(other.tokens))
            prompts, tokens = zip(*client.requests[child.id], strict=True)
            context = [token for message in child.messages[: 2 * shared + 1] for token in message.tokens]
            assert prompts[0] == context
            assert len(tokens) == 5 - shared
            assert len(child.steps) == 5
            assert views[child.member].reward == pytest.approx(child.reward)

        trained = sum(int(sample.mask.sum()) for one in stored.values() for sample in samples(one))
        assert trained == client.sampled_tokens, "each sampled token is trained on once"
        turns = {int(turn) for sample in samples(stored[2]) for turn in sample.turns if turn >= 0}
        assert turns == {2, 3, 4}

        for one in stored.values():
            report = await reexecute(stage.database, one.id)
            assert report.matches, report.message
            assert len(report.steps) == 6

    on_stage(tmp_path, scenario)


def test_a_child_waits_for_a_slot(tmp_path: Path, chat: Renderer) -> None:
    async def scenario(stage: Stage) -> None:
        stage.concurrency = {env_key(site("find")): 1}
        outcomes, _, _ = await played(stage, chat, group(site("find"), 1, LONG), Decides(twice_after_two_turns))
        assert [one.status for one in outcomes] == [Status.TRUNCATED] * 5

    on_stage(tmp_path, scenario)


def test_a_failed_child_is_not_retried(tmp_path: Path, chat: Renderer) -> None:
    async def scenario(stage: Stage) -> None:
        failing = "g-2"

        class Fails(Sampler):
            async def generate(
                self, session: str, prompt: list[int], max_tokens: int, timeout_s: float, *_: object
            ) -> Completion:
                if session == failing:
                    raise EngineFailed("the engine is slow")
                return await super().generate(session, prompt, max_tokens, timeout_s)

        controller = Decides(lambda view: [Branch(0, 2)] if _at(view, 2) else [])
        of, client = group(site("find"), 1, LONG), Fails(chat.stop_tokens[0])
        parent, first, second = (await played(stage, chat, of, controller, client))[0]
        assert [one.status for one in (parent, first)] == [Status.TRUNCATED] * 2
        assert (second.status, second.attempt, second.turns) == (Status.ENGINE_ERROR, 0, 2)
        assert len(load_trajectory(stage.database, failing).steps) == 2, "the shared turns"

    on_stage(tmp_path, scenario)


def _at(view: GroupView, turns: int) -> bool:
    return view.latest.member == 0 and view.latest.running and len(view.latest.turns) == turns


def test_children_are_dropped_like_other_members(tmp_path: Path, chat: Renderer) -> None:
    def choose(view: GroupView) -> Sequence[Decision]:
        if _at(view, 1):
            return [Branch(0, 2)]
        return [Close("the parent has ended")] if view.latest.member == 0 and view.latest.scored else []

    async def scenario(stage: Stage) -> None:
        stage.concurrency = {env_key(site("find")): 1}
        parent, *children = (await played(stage, chat, group(site("find"), 1, LONG), Decides(choose)))[0]
        assert parent.status is Status.TRUNCATED
        assert [one.status for one in children] == [Status.CANCELLED] * 2

    on_stage(tmp_path, scenario)


def test_a_cancelled_group_cancels_the_children(tmp_path: Path, chat: Renderer) -> None:
    async def scenario(stage: Stage) -> None:
        branched = asyncio.Event()

        class Waits(Sampler):
            async def generate(
                self, session: str, prompt: list[int], max_tokens: int, timeout_s: float, *_: object
            ) -> Completion:
                if session != "g-0":
                    branched.set()
                    await asyncio.get_running_loop().create_future()
                return await super().generate(session, prompt, max_tokens, timeout_s)

        controller = Decides(lambda view: [Branch(0, 1)] if _at(view, 1) else [])
        of, client = group(site("find"), 1, LONG), Waits(chat.stop_tokens[0])
        playing = asyncio.ensure_future(played(stage, chat, of, controller, client))
        await branched.wait()
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
        assert load_trajectory(stage.database, "g-1").status is Status.CANCELLED

    on_stage(tmp_path, scenario)


@pytest.mark.parametrize("task", [make_task(CLOCK, 0, "train", {})])
def test_a_branch_of_an_environment_without_snapshots_ends_the_run(tmp_path: Path, chat: Renderer, task: Task) -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(TurnwiseError, match="does not declare `restorable`"):
            await played(stage, chat, group(task, 1, LONG), Decides(lambda view: [Branch(0, 1)]))

    on_stage(tmp_path, scenario)


def test_a_dropped_member_does_not_branch(tmp_path: Path, chat: Renderer) -> None:
    async def scenario(stage: Stage) -> None:
        controller = Decides(lambda _: [Branch(0, 1), Drop(0, "enough")])
        (outcome,) = (await played(stage, chat, group(site(), 1, LONG), controller))[0]
        assert (outcome.status, outcome.turns) == (Status.CANCELLED, 1)

    on_stage(tmp_path, scenario)


def test_a_state_without_a_snapshot_has_no_children(
    tmp_path: Path, chat: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment of member 0 has no snapshot after its first turn, and has one after the second."""
    taken: list[object] = []
    snapshot = TextSiteEnv.snapshot

    def second_only(env: TextSiteEnv) -> Any:
        taken.append(snapshot(env))
        return taken[-1] if len(taken) == 2 else None

    monkeypatch.setattr(TextSiteEnv, "snapshot", second_only)

    async def scenario(stage: Stage) -> None:
        controller = Decides(lambda view: [Branch(0, 2)] if _at(view, 1) or _at(view, 2) else [])
        outcomes, _, _ = await played(stage, chat, group(site("find"), 1, LONG), controller)
        assert [one.member for one in outcomes] == [0, 1, 2]
        children = {len(view.latest.turns): view.latest.children for view in controller.views if not view.latest.member}
        assert [children[turns] for turns in (1, 2, 3)] == [0, 0, 2]

    on_stage(tmp_path, scenario)


def test_a_snapshot_that_takes_longer_than_a_step_is_no_failure(
    tmp_path: Path, chat: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's own files make a snapshot slow, until the environment itself gives up."""

    def gives_up(_: TextSiteEnv) -> None:
        sleep(0.3)

    monkeypatch.setattr(TextSiteEnv, "snapshot", gives_up)

    async def scenario(stage: Stage) -> None:
        controller = Decides(lambda view: [Branch(0, 1)] if _at(view, 1) else [])
        quick = replace(QUICK, step_s=0.2)
        outcomes, _, _ = await played(stage, chat, group(site("find"), 1, LONG), controller, timeouts=quick)
        assert [(one.member, one.status, one.turns) for one in outcomes] == [(0, Status.TRUNCATED, 5)]

    on_stage(tmp_path, scenario)
