"""An action that the environment replaces: the sampled one stays trainable, later turns see the patch."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from turnwise.agents.engine.request import Completion
from turnwise.agents.players.openai import ChatPlayer
from turnwise.agents.players.policy import PolicyPlayer
from turnwise.agents.reexecution.reexecute import reexecute
from turnwise.agents.rollout.assignment import Assignment
from turnwise.agents.rollout.group_runner import GroupRunner
from turnwise.agents.rollout.worker import PolicyPlayerFactory
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tokens.renderer import Renderer
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.envs.tasks import make_task
from turnwise.envs.worlds.semi_online.env import without_thought
from turnwise.records import Group, GroupState, PolicyVersion, ScoredGroup, Source, Status
from turnwise.store.writing.client import StoreClient
from turnwise.tests.agents.players import QUICK, Stage, group, on_stage
from turnwise.tests.agents.sampled_groups import Sampler, sampled_by
from turnwise.tests.envs.worlds.semi_online.experts import FIRST, experts_file
from turnwise.trainer.algorithms.advantages.ui_s1 import UIS1, mismatches
from turnwise.trainer.algorithms.losses.base import SOURCES
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.cluster.actors import player_factory
from turnwise.trainer.config.sections import RolloutConfig
from turnwise.trainer.learner.batch import assemble
from turnwise.trainer.learner.samples import samples

ID = "turnwise/SemiOnline-v0"
SILENT = FIRST.model_copy(update={"instructions": ""})
WORDS = [word for text in (*FIRST.observations, *FIRST.actions) for word in text.split()] + [f"w{i}" for i in range(60)]


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    return load_renderer(new_model(tmp_path_factory.mktemp("model"), WORDS, hidden=16, layers=1, heads=2))


async def played(
    stage: Stage, chat: Renderer, of: Group, create: PolicyPlayerFactory, sampler: Sampler | None = None
) -> tuple[Group, Sampler]:
    """Play a group of policy players, which sample random words by default; return the stored group and the sampler."""
    sampler = sampler or Sampler(chat.stop_tokens[0])
    store = await stage.begin()
    await store.open_group(of)
    runner = GroupRunner(StoreClient(stage.send), sampled_by(sampler, chat, create), QUICK, stage.concurrency)
    outcomes = await runner.play(Assignment.whole(of))
    await runner.close()
    assert [one.status for one in outcomes] == [Status.COMPLETED] * of.size
    await store.close_group(of.id, GroupState.SCORING)
    await store.score_group(of.id, 0, GroupState.READY)
    (loaded,) = await store.load([of.id])
    return loaded, sampler


@pytest.mark.parametrize("thoughts", [0, 3])
def test_later_turns_see_the_patch_and_the_sampled_action_is_trained_on(
    tmp_path: Path, chat: Renderer, thoughts: int
) -> None:
    create = player_factory(RolloutConfig(max_thought_tokens=thoughts, action_request="answer it"))

    async def scenario(stage: Stage) -> None:
        task = make_task(ID, 0, "train", {"path": experts_file(tmp_path, SILENT)})
        loaded, sampler = await played(stage, chat, group(task, 2), create)
        (one, other) = loaded.trajectories
        assert [step.reward for step in one.steps] == [0.0, 0.0, 0.0]
        sources = [message.source for message in one.messages]
        assert [index for index, source in enumerate(sources) if source is Source.PATCH] == (
            [2, 5] if not thoughts else [4, 9]
        )
        prompts = [chat.encoder.decode(prompt) for prompt, _ in sampler.requests[one.id]]
        turns = prompts[:: 2 if thoughts else 1]
        assert turns[0].endswith("open inbox")
        assert turns[1].endswith("open inbox click inbox inbox page")
        assert turns[2].endswith("inbox page answer 23 answer it")

        trained = samples(one)
        sampled = sum(len(tokens) for _, tokens in sampler.requests[one.id])
        assert sum(int(sample.mask.sum()) for sample in trained) == sampled
        patches = sum(int((sample.sources == SOURCES.index(Source.PATCH)).sum()) for sample in trained)
        assert patches == len(chat.encode_completion("click inbox")) + len(chat.encode_completion("answer 23"))

        report = await reexecute(stage.database, one.id)
        assert report.matches, report.message
        assert other.extras["wrong_turns"] == [0, 1, 2]
        assert mismatches(one) == {0, 1, 2}, "the third has no patch: it ends the episode"

    on_stage(tmp_path, scenario)


class Answers(Sampler):
    """Give the expert's answers; member 1 begins with another one."""

    def __init__(self, chat: Renderer) -> None:
        super().__init__(chat.stop_tokens[0])
        self.chat = chat

    async def generate(
        self, session: str, prompt: list[int], max_tokens: int, timeout_s: float, *_: object
    ) -> Completion:
        turn = len(self.requests.setdefault(session, []))
        wrong = session == "g-1" and turn == 0
        tokens = self.chat.encode_completion("done" if wrong else without_thought(FIRST.actions[turn]))
        self.requests[session].append((prompt, tokens))
        return Completion(tokens, [-0.5] * len(tokens), [0] * len(tokens), "stop")


def test_a_patched_group_becomes_a_batch(tmp_path: Path, chat: Renderer) -> None:
    """The advantages are those of UI-S1; the tokens of the patch are trained on only by a loss that accepts them."""

    async def scenario(stage: Stage) -> None:
        task = make_task(ID, 0, "train", {"path": experts_file(tmp_path, SILENT)})
        loaded, _ = await played(stage, chat, group(task, 2), PolicyPlayer, Answers(chat))
        right, patched = loaded.trajectories
        assert [one.success for one in (right, patched)] == [True, False]
        assert [[step.reward for step in one.steps] for one in (right, patched)] == [
            [1.0] * 3,
            [pytest.approx(0.19), 1.0, 1.0],
        ]
        (kept, *_), (lost, *_) = UIS1().of_group(rewarded(loaded))
        assert [kept, lost] == pytest.approx([1 + 0.2**0.5, -1 - 5**0.5], abs=1e-3)
        batch = assemble(
            [rewarded(loaded)],
            {0: PolicyVersion("r", 0, None, 0)},
            0,
            0,
            advantage=UIS1(),
            filters=[],
            loss=DecoupledPPO(),
            streams=[],
        )
        patch = [one.weights[one.sample.sources == SOURCES.index(Source.PATCH)] for one in batch.samples]
        assert [weights.tolist() for weights in patch if len(weights)] == [[0.0] * 3]

    on_stage(tmp_path, scenario)


def rewarded(loaded: Group) -> ScoredGroup:
    return ScoredGroup(loaded, [[step.reward for step in one.steps] for one in loaded.trajectories])


def test_a_model_behind_a_chat_api_continues_from_the_patch() -> None:
    class Remembers:
        async def text(self, messages: Sequence[Mapping[str, str]]) -> str:
            self.messages = [dict(one) for one in messages]
            return "click news"

    server: Any = Remembers()
    player = ChatPlayer(server, "")
    assert asyncio.run(player.act("open inbox", ())).text == "click news"
    assert player.patch("click inbox") == []
    asyncio.run(player.act("inbox page", ()))
    assert [one["content"] for one in server.messages] == ["open inbox", "click inbox", "inbox page"]
