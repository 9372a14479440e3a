"""Groups of policy players over a sampler, which replaces the engine, and a controller that decides by a function."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from turnwise.agents.engine.request import Completion
from turnwise.agents.players.policy import PolicyPlayer
from turnwise.agents.rollout.assignment import Assignment
from turnwise.agents.rollout.control import Branch, Controller, Decision, GroupView
from turnwise.agents.rollout.group_runner import GroupRunner, PlayerFactory
from turnwise.agents.rollout.player import PolicyContext
from turnwise.agents.rollout.timeouts import Timeouts
from turnwise.agents.rollout.worker import PolicyPlayerFactory
from turnwise.agents.tokens.renderer import Renderer
from turnwise.envs.runner.env_thread import EnvThread
from turnwise.records import Group, Horizon, Outcome, Trajectory
from turnwise.store.writing.client import StoreClient
from turnwise.tests.agents.players import QUICK, Stage

LONG = Horizon(max_turns=5, max_tokens_per_turn=3, max_tokens_per_episode=64, max_context=512)


class Sampler:
    """Replaces the engine: samples words by a random stream per session, and keeps every prompt and token."""

    def __init__(self, stop: int) -> None:
        self.stop = stop
        self.streams: dict[str, Random] = {}
        self.requests: dict[str, list[tuple[list[int], list[int]]]] = {}

    async def generate(
        self, session: str, prompt: list[int], max_tokens: int, timeout_s: float, *_: object
    ) -> Completion:
        stream = self.streams.setdefault(session, Random(session))
        tokens = [stream.randrange(20, 60) for _ in range(max_tokens - 1)] + [self.stop]
        self.requests.setdefault(session, []).append((prompt, tokens))
        return Completion(tokens, [-stream.random() for _ in tokens], [0] * len(tokens), "stop")

    def release(self, session: str) -> None:
        pass

    @property
    def sampled_tokens(self) -> int:
        return sum(len(tokens) for turns in self.requests.values() for _, tokens in turns)


def sampled_by(client: Any, chat: Renderer, create: PolicyPlayerFactory = PolicyPlayer) -> PlayerFactory:
    """Return a factory of policy players whose tokens ``client`` samples."""

    def player(owner: EnvThread, group: Group, trajectory: Trajectory) -> Any:
        return create(PolicyContext.of(client, chat, owner, group, trajectory, 5.0))

    return player


async def played(
    stage: Stage, chat: Renderer, of: Group, controller: Controller, client: Any = None, timeouts: Timeouts = QUICK
) -> tuple[list[Outcome], Any, Controller]:
    """Play a group of policy players over a sampler; return the outcomes, the sampler and the controller."""
    client = client or Sampler(chat.stop_tokens[0])
    store = await stage.begin()
    await store.open_group(of)

    runner = GroupRunner(StoreClient(stage.send), sampled_by(client, chat), timeouts, stage.concurrency)
    try:
        return await runner.play(Assignment.whole(of, controller)), client, controller
    finally:
        await runner.close()


@dataclass
class Decides:
    """Decides by a function, and keeps every view."""

    choose: Callable[[GroupView], Sequence[Decision]]
    views: list[GroupView] = field(default_factory=list)
    passive: bool = False

    def members(self, size: int) -> int:
        return size

    def decide(self, view: GroupView, stream: Random) -> Sequence[Decision]:
        self.views.append(view)
        return self.choose(view)


def twice_after_two_turns(view: GroupView) -> Sequence[Decision]:
    """Branch member 0 into two children after its second turn, and each child of it once after four turns."""
    latest = view.latest
    if not latest.running:
        return []
    if latest.member == 0 and len(latest.turns) == 2:
        return [Branch(0, 2)]
    if latest.parent == 0 and len(latest.turns) == 4:
        return [Branch(latest.member, 1)]
    return []
