"""Scored groups of whole trajectories with prompts, actions and branches, for components that read tokens."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from turnwise.envs.tasks import make_task
from turnwise.records import Group, Horizon, Message, Role, ScoredGroup, Source, Status, Trajectory
from turnwise.tests.trainer.scored_groups import SITE, step

PROMPT_TOKENS = 2
"""Tokens of each observation."""
TURNS = 3


def _message(index: int, role: Role, tokens: Sequence[int]) -> Message:
    sampled = role is Role.ASSISTANT
    count = len(tokens)
    logprobs = [-1.0 if sampled else float("nan")] * count
    parent = index - 1 if index else None
    return Message(
        index, parent, role, Source.POLICY, tokens, [int(sampled)] * count, logprobs, [0 if sampled else -1] * count
    )


def episode(
    name: str,
    member: int,
    reward: float,
    stream: Random,
    *,
    turns: int = 3,
    parent: Trajectory | None = None,
    at: int = 0,
) -> Trajectory:
    """Return an episode of three turns, of which the last has the reward; turn ``t`` has ``t + 1`` sampled tokens.

    A successful episode samples tokens below 10, another one tokens from 10 on. A branch of ``parent`` shares its
    first ``at`` turns.
    """
    messages = list(parent.messages[: 2 * at]) if parent else []
    for turn in range(at, TURNS):
        low = 0 if reward > 0 else 10
        messages.append(_message(2 * turn, Role.USER, [stream.randrange(20) for _ in range(PROMPT_TOKENS)]))
        messages.append(
            _message(2 * turn + 1, Role.ASSISTANT, [stream.randrange(low, low + 10) for _ in range(turn + 1)])
        )
    rewards = [0.0] * (TURNS - 1) + [reward]
    steps = [replace(step(turn, value), message=2 * turn + 1) for turn, value in enumerate(rewards)]
    return Trajectory(
        f"{name}-{member}",
        "r",
        name,
        member,
        0,
        Status.COMPLETED,
        reward=reward,
        steps=steps,
        messages=messages,
        branched_from=parent.id if parent else None,
        branched_at=at if parent else None,
    )


def tree_group(name: str, seed: int) -> ScoredGroup:
    """Return a group of two independent episodes, a success and a failure, and one failed branch of each.

    It has 6 + 6 + 5 + 3 = 20 sampled tokens: the branches share one and two turns.
    """
    stream = Random(f"{name}{seed}")
    won, lost = episode(name, 0, 1.0, stream), episode(name, 1, 0.0, stream)
    branches = [episode(name, 2, 0.0, stream, parent=won, at=1), episode(name, 3, 0.0, stream, parent=lost, at=2)]
    members = [won, lost, *branches]
    group = Group(name, "r", make_task(SITE, 0, "train", {}), Horizon(8, 8, 64, 64), len(members), trajectories=members)
    return ScoredGroup(group, [[turn.reward for turn in one.steps] for one in members])
