"""A suspended episode leaves its group, and a member of a later group continues it as a whole trajectory."""

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest
from turnwise.agents.engine.request import Completion
from turnwise.agents.errors import EngineFailed
from turnwise.agents.reexecution.reexecute import reexecute
from turnwise.agents.rollout.assignment import Assignment
from turnwise.agents.rollout.control import (
    CONTINUES,
    Branch,
    Close,
    Controller,
    Decision,
    Drop,
    GroupView,
    Stop,
    Suspend,
)
from turnwise.agents.rollout.group_runner import GroupRunner
from turnwise.agents.rollout.progress import BranchPoint
from turnwise.agents.rollout.running_group import DROPPED
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tokens.renderer import Renderer
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.envs.tasks import env_key, make_task
from turnwise.envs.worlds.tiny.text import VOCABULARY, TextSiteEnv
from turnwise.errors import TurnwiseError
from turnwise.records import SCORED_STATUSES, Group, Outcome, Status
from turnwise.store.queries import accounting, failed_for_good, load_trajectory
from turnwise.store.writing.client import StoreClient
from turnwise.tests.agents.players import QUICK, Stage, group, on_stage, site
from turnwise.tests.agents.sampled_groups import LONG, Decides, Sampler, sampled_by
from turnwise.tests.agents.worlds import CLOCK
from turnwise.trainer.learner.samples import samples


class Versioned(Sampler):
    """A sampler whose policy version a test raises; the first request of a session in ``failing`` fails."""

    version = 0
    failing: Sequence[str] = ()

    async def generate(
        self, session: str, prompt: list[int], max_tokens: int, timeout_s: float, *_: object
    ) -> Completion:
        if session in self.failing:
            raise EngineFailed("the engine is slow")
        done = await super().generate(session, prompt, max_tokens, timeout_s)
        return done._replace(versions=[self.version] * len(done.tokens))


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    return load_renderer(new_model(tmp_path_factory.mktemp("model"), VOCABULARY, hidden=16, layers=1, heads=2))


class Play:
    """Plays groups of policy players over one sampler, each group on a new worker."""

    def __init__(self, stage: Stage, chat: Renderer) -> None:
        self.stage, self.chat, self.client = stage, chat, Versioned(chat.stop_tokens[0])

    async def __call__(
        self, of: Group, controller: Controller | None, starts: Mapping[int, BranchPoint] | None = None
    ) -> list[Outcome]:
        await (await self.stage.begin()).open_group(of)
        runner = GroupRunner(
            StoreClient(self.stage.send), sampled_by(self.client, self.chat), QUICK, self.stage.concurrency
        )
        try:
            members = [(member, 0) for member in range(of.size)]
            return await runner.play(Assignment(of, members, controller, starts=starts or {}))
        finally:
            await runner.close()


def after(turns: int, *decisions: Decision) -> Decides:
    """Return a controller that decides once member 0 has taken ``turns`` turns."""

    def choose(view: GroupView) -> Sequence[Decision]:
        latest = view.latest
        return decisions if latest.member == 0 and latest.running and len(latest.turns) == turns else ()

    return Decides(choose)


def accounts(stage: Stage) -> dict[str, int]:
    with stage.database.read() as conn:
        found = accounting(conn, "r")
        assert failed_for_good(conn, "r") == []
    assert found["submitted"] == found["accepted"] + found["filtered"] + found["failed"] + found["running"]
    return found


def trained_tokens(stage: Stage, outcomes: Sequence[Outcome]) -> int:
    scored = [load_trajectory(stage.database, one.trajectory) for one in outcomes if one.status in SCORED_STATUSES]
    return sum(int(sample.mask.sum()) for one in scored for sample in samples(one))


def test_a_member_of_a_later_group_continues_a_suspended_episode(tmp_path: Path, chat: Renderer) -> None:
    async def scenario(stage: Stage) -> None:
        play = Play(stage, chat)
        first, other = await play(group(site("find"), 2, LONG), after(2, Suspend(0, "enough")))
        assert (first.status, first.turns, first.error) == (Status.CANCELLED, 2, f"{DROPPED}: enough")
        assert (other.status, other.turns, other.suspended) == (Status.TRUNCATED, 5, None)
        point = pickle.loads(pickle.dumps(first.suspended))  # noqa: S301 - pickled here
        play.client.version = 1
        seen = Decides(lambda _: ())
        outcomes = await play(group(site("find"), 2, LONG, "h"), seen, {0: point})
        assert [(one.trajectory, one.status, one.turns) for one in outcomes] == [
            ("h-0", Status.TRUNCATED, 5),
            ("h-1", Status.TRUNCATED, 5),
        ]
        views = [view.latest for view in seen.views if view.latest.member == 0]
        assert [len(one.turns) for one in views] == [3, 4, 5], "the turns before are in the view"

        old, new = (load_trajectory(stage.database, name) for name in ("g-0", "h-0"))
        assert (new.extras[CONTINUES], new.branched_from, new.branched_at) == ("g-0", None, None)
        assert CONTINUES not in load_trajectory(stage.database, "h-1").extras
        assert list(new.steps[:2]) == list(old.steps)
        assert views[-1].reward == pytest.approx(new.reward)
        for mine, theirs in zip(new.messages, old.messages, strict=False):
            for column in ("tokens", "mask", "versions"):
                assert list(getattr(mine, column)) == list(getattr(theirs, column))
            sampled = [value for value, mask in zip(mine.logprobs, mine.mask, strict=True) if mask]
            assert sampled == [value for value, mask in zip(theirs.logprobs, theirs.mask, strict=True) if mask]
        versions = [{int(one) for one in message.versions} for message in new.messages if sum(message.mask)]
        assert versions == [{0}, {0}, {1}, {1}, {1}]
        assert play.client.requests["h-0"][0][0] == [token for one in new.messages[:5] for token in one.tokens]

        assert trained_tokens(stage, [first, other, *outcomes]) == play.client.sampled_tokens, "each token once"
        assert accounts(stage)["filtered"] == 1, "the suspended member is not a failure"
        for name in ("g-0", "h-0"):
            report = await reexecute(stage.database, name)
            assert report.matches, report.message

    on_stage(tmp_path, scenario)


@pytest.mark.parametrize("seed", range(3))
def test_each_sampled_token_is_trained_on_once_in_any_chain(tmp_path: Path, chat: Renderer, seed: int) -> None:
    """Three groups suspend their members at random, some of them twice or thrice; the last group plays the rest."""
    stream = Random(seed)

    def choose(view: GroupView) -> Sequence[Decision]:
        if stream.random() < 0.1:
            return [Close("enough", suspend=True)]
        return [Suspend(one.member, "enough") for one in view.running if stream.random() < 0.2]

    async def scenario(stage: Stage) -> None:
        play = Play(stage, chat)
        stage.concurrency = {env_key(site("find")): 3}
        outcomes: list[Outcome] = []
        points: list[BranchPoint] = []
        for number in range(4):
            of = group(site("find"), 4, LONG, f"g{number}") if number < 3 else None
            of = of or group(site("find"), max(1, len(points)), LONG, "last")
            played = await play(of, Decides(choose) if number < 3 else None, dict(enumerate(points)))
            points = points[of.size :] + [one.suspended for one in played if one.suspended]
            outcomes += played
        assert not points
        assert sum(one.suspended is not None for one in outcomes) > 1
        assert trained_tokens(stage, outcomes) == play.client.sampled_tokens
        accounts(stage)
        for one in outcomes:
            if one.turns:
                report = await reexecute(stage.database, one.trajectory)
                assert report.matches, report.message

    on_stage(tmp_path, scenario)


def test_a_failed_continuation_is_retried_with_a_reset(tmp_path: Path, chat: Renderer) -> None:
    async def scenario(stage: Stage) -> None:
        play = Play(stage, chat)
        (first,) = await play(group(site("find"), 1, LONG), after(2, Suspend(0, "enough")))
        play.client.failing = ["h-0"]
        (again,) = await play(group(site("find"), 1, LONG, "h"), None, {0: first.suspended})
        assert (again.trajectory, again.status, again.turns) == ("h-0.1", Status.TRUNCATED, 5)
        failed, retried = (load_trajectory(stage.database, name) for name in ("h-0", "h-0.1"))
        assert (failed.status, len(failed.steps), failed.extras[CONTINUES]) == (Status.ENGINE_ERROR, 2, "g-0")
        assert CONTINUES not in retried.extras
        assert trained_tokens(stage, [again]) == sum(len(tokens) for _, tokens in play.client.requests["h-0.1"])
        accounts(stage)

    on_stage(tmp_path, scenario)


def test_a_member_that_waits_for_a_slot_is_dropped_and_keeps_its_start(tmp_path: Path, chat: Renderer) -> None:
    """One slot: member 0 plays and closes the group, member 1 would continue an episode, member 2 would begin one."""

    async def scenario(stage: Stage) -> None:
        play = Play(stage, chat)
        (first,) = await play(group(site("find"), 1, LONG), after(2, Suspend(0, "enough")))
        stage.concurrency = {env_key(site("find")): 1}
        close = after(1, Close("enough", suspend=True))
        playing, waited, began = await play(group(site("find"), 3, LONG, "h"), close, {1: first.suspended})
        assert (playing.turns, playing.suspended.parent) == (1, "h-0")
        assert waited.suspended is first.suspended
        assert began.suspended is None
        assert {one.status for one in (playing, waited, began)} == {Status.CANCELLED}

    on_stage(tmp_path, scenario)


@pytest.mark.parametrize(
    ("turns", "decisions", "status", "played", "kept"),
    [
        (2, [Suspend(0, "enough"), Drop(0, "enough")], Status.CANCELLED, 2, False),
        (2, [Stop(0, "enough"), Suspend(0, "enough")], Status.TRUNCATED, 2, False),
        (4, [Suspend(0, "enough")], Status.CANCELLED, 4, True),
        (5, [Suspend(0, "enough")], Status.TRUNCATED, 5, False),
    ],
    ids=["a drop ends it", "a stop counts", "one turn is left", "no turn is left"],
)
def test_an_episode_is_kept_only_if_it_may_continue(
    tmp_path: Path, chat: Renderer, turns: int, decisions: Sequence[Decision], status: Status, played: int, kept: bool
) -> None:
    async def scenario(stage: Stage) -> None:
        (one,) = await Play(stage, chat)(group(site("find"), 1, LONG), after(turns, *decisions))
        assert (one.status, one.turns, one.suspended is not None) == (status, played, kept)

    on_stage(tmp_path, scenario)


def test_a_suspended_branch_is_dropped_and_its_parent_is_kept(tmp_path: Path, chat: Renderer) -> None:
    """The turns of the parent are trained on when it continues; the branch does not repeat them."""

    def choose(view: GroupView) -> Sequence[Decision]:
        latest = view.latest
        if latest.member == 0 and latest.running and len(latest.turns) == 1:
            return [Branch(0, 1)]
        return [Close("enough", suspend=True)] if len(latest.turns) == 3 else []

    async def scenario(stage: Stage) -> None:
        parent, child = await Play(stage, chat)(group(site("find"), 1, LONG), Decides(choose))
        assert (parent.status, child.status) == (Status.CANCELLED, Status.CANCELLED)
        assert parent.suspended.parent == "g-0"
        assert child.suspended is None

    on_stage(tmp_path, scenario)


def test_a_state_without_a_snapshot_is_dropped(tmp_path: Path, chat: Renderer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TextSiteEnv, "snapshot", lambda _: None)

    async def scenario(stage: Stage) -> None:
        (one,) = await Play(stage, chat)(group(site("find"), 1, LONG), after(2, Suspend(0, "enough")))
        assert (one.status, one.error, one.suspended) == (Status.CANCELLED, f"{DROPPED}: enough", None)
        assert accounts(stage)["filtered"] == 1

    on_stage(tmp_path, scenario)


def test_an_environment_without_snapshots_ends_the_run(tmp_path: Path, chat: Renderer) -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(TurnwiseError, match=r"`rollout_control` suspends .* does not declare `restorable`"):
            await Play(stage, chat)(group(make_task(CLOCK, 0, "train", {}), 1, LONG), after(1, Suspend(0, "enough")))

    on_stage(tmp_path, scenario)
