"""A player that samples a thought before each action: two messages per turn, both trained on with the turn's credit."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from turnwise.agents.engine.request import Completion
from turnwise.agents.reexecution.reexecute import reexecute
from turnwise.agents.rollout.assignment import Assignment
from turnwise.agents.rollout.control import Controller
from turnwise.agents.rollout.group_runner import GroupRunner
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tokens.renderer import Renderer
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.envs.worlds.tiny.text import VOCABULARY
from turnwise.records import Group, GroupState, Horizon, Limit, Outcome, Role, Status, Trajectory
from turnwise.store.writing.client import StoreClient
from turnwise.tests.agents.players import QUICK, Stage, group, on_stage, site
from turnwise.tests.agents.sampled_groups import Decides, Sampler, sampled_by, twice_after_two_turns
from turnwise.trainer.algorithms.groups import sampled_tokens
from turnwise.trainer.cluster.actors import player_factory
from turnwise.trainer.config.sections import RolloutConfig
from turnwise.trainer.learner.samples import samples

THOUGHT = 3
HORIZON = Horizon(max_turns=4, max_tokens_per_turn=5, max_tokens_per_episode=64, max_context=512)
FACTORY = player_factory(RolloutConfig(max_thought_tokens=THOUGHT, action_request="open page"))


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    return load_renderer(new_model(tmp_path_factory.mktemp("model"), VOCABULARY, hidden=16, layers=1, heads=2))


class Timed(Sampler):
    """Keeps the timeout of every call."""

    def __init__(self, stop: int) -> None:
        super().__init__(stop)
        self.timeouts: list[float] = []

    async def generate(
        self, session: str, prompt: list[int], max_tokens: int, timeout_s: float, *_: object
    ) -> Completion:
        self.timeouts.append(timeout_s)
        return await super().generate(session, prompt, max_tokens, timeout_s)


async def played(
    stage: Stage, chat: Renderer, of: Group, controller: Controller | None = None
) -> tuple[Sequence[Outcome], Sequence[Trajectory], Timed]:
    """Play a group of players with thoughts; return the outcomes, the stored trajectories and the sampler."""
    client = Timed(chat.stop_tokens[0])
    store = await stage.begin()
    await store.open_group(of)
    runner = GroupRunner(StoreClient(stage.send), sampled_by(client, chat, FACTORY), QUICK, stage.concurrency)
    outcomes = await runner.play(Assignment.whole(of, controller))
    await runner.close()
    await store.close_group(of.id, GroupState.READY)
    (loaded,) = await store.load([of.id])
    return outcomes, loaded.trajectories, client


def test_a_turn_has_a_thought_and_an_action(tmp_path: Path, chat: Renderer) -> None:
    async def scenario(stage: Stage) -> None:
        outcomes, trajectories, client = await played(stage, chat, group(site("find"), 2, HORIZON))
        assert [(one.status, one.turns, one.tokens) for one in outcomes] == [(Status.TRUNCATED, 4, 20)] * 2
        for one in trajectories:
            assert [message.role for message in one.messages] == [Role.USER, Role.ASSISTANT] * 8
            assert [step.message for step in one.steps] == [3, 7, 11, 15]
            assert sampled_tokens(one) == [5] * 4
            requests = [message.tokens for message in one.messages[2::4]]
            assert {tuple(tokens) for tokens in requests} == {tuple(requests[0])}
            (sample,) = samples(one)
            calls = client.requests[one.id]
            assert [len(tokens) for _, tokens in calls] == [THOUGHT, 2] * 4
            assert sample.tokens[sample.mask > 0].tolist() == [token for _, tokens in calls for token in tokens]
            assert sample.turns[sample.mask > 0].tolist() == np.repeat(range(4), 5).tolist()
            end = 0
            for prompt, tokens in calls:  # The policy saw each prompt as the sample has it.
                assert sample.tokens[: len(prompt)].tolist() == prompt
                end = len(prompt) + len(tokens)
                assert sample.tokens[len(prompt) : end].tolist() == tokens
            assert end == len(sample.tokens)
            actions = [chat.encoder.decode(tokens) for _, tokens in calls[1::2]]
            assert [step.action for step in one.steps] == actions
        assert client.timeouts[0] == 5.0
        assert all(0 < one <= 5.0 for one in client.timeouts)

    on_stage(tmp_path, scenario)


def test_branches_share_the_thoughts_of_their_parent(tmp_path: Path, chat: Renderer) -> None:
    async def scenario(stage: Stage) -> None:
        horizon = replace(HORIZON, max_turns=5)
        controller = Decides(twice_after_two_turns)
        outcomes, trajectories, client = await played(stage, chat, group(site("find"), 2, horizon), controller)
        assert len(outcomes) == 6
        trained = sum(int(sample.mask.sum()) for one in trajectories for sample in samples(one))
        assert trained == client.sampled_tokens
        for one in trajectories:
            assert (await reexecute(stage.database, one.id)).matches

    on_stage(tmp_path, scenario)


def test_a_thought_whose_action_does_not_fit_is_stored_and_not_trained_on(tmp_path: Path, chat: Renderer) -> None:
    """The context has room for the first turn, and for the thought of the second."""

    async def scenario(stage: Stage) -> None:
        _, (whole,), _ = await played(stage, chat, group(site("find"), 1, HORIZON))
        sizes = [len(message.tokens) for message in whole.messages]
        of = group(site("find"), 1, replace(HORIZON, max_context=sum(sizes[:7])), name="h")
        (outcome,), (one,), client = await played(stage, chat, of)
        assert (outcome.status, outcome.turns, outcome.reached) == (Status.TRUNCATED, 1, Limit.CONTEXT)
        assert outcome.error == (
            f"the conversation has {sum(sizes[:7])} tokens with its last observation of {sizes[6]}, "
            f"`horizon.max_context` is {sum(sizes[:7])}"
        )
        assert (one.reached, one.stop_reason) == (Limit.CONTEXT, outcome.error)
        assert [len(tokens) for _, tokens in client.requests[one.id]] == [THOUGHT, 2, THOUGHT]
        assert outcome.tokens == client.sampled_tokens
        assert len(one.messages) == 6
        (sample,) = samples(one)
        assert sample.mask.sum() == 5
        assert sampled_tokens(one) == [5]

    on_stage(tmp_path, scenario)


def test_the_limit_on_the_episode_leaves_a_token_for_the_action(tmp_path: Path, chat: Renderer) -> None:
    async def scenario(stage: Stage) -> None:
        horizon = replace(HORIZON, max_tokens_per_episode=12)
        (outcome,), (one,), client = await played(stage, chat, group(site("find"), 1, horizon))
        assert [len(tokens) for _, tokens in client.requests[one.id]] == [THOUGHT, 2, THOUGHT, 2, 1, 1]
        assert (outcome.turns, outcome.tokens) == (3, 12)
        assert outcome.error == "12 tokens sampled, `horizon.max_tokens_per_episode` is 12"
        assert (outcome.reached, one.reached) == (Limit.TOKENS_PER_EPISODE, Limit.TOKENS_PER_EPISODE)

    on_stage(tmp_path, scenario)
