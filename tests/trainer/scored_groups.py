"""Scored groups for the tests of components and of batch assembly."""

from collections.abc import Sequence

from turnwise.envs.tasks import make_task
from turnwise.records import (
    Group,
    Horizon,
    Message,
    Role,
    ScoredGroup,
    Source,
    Status,
    Step,
    Task,
    Trajectory,
)
from turnwise.trainer.rollout.scoring import score

SITE = "turnwise/TextSite-v0"


def scored(group: Group) -> ScoredGroup:
    """Return a closed group with the rewards of its environment."""
    return score(group, (), ()).scored


def step(index: int, reward: float, state_key: str = "") -> Step:
    return Step(index, "", "", "", reward, {}, False, False, True, state_key, index, 0.0, 0.0)


def sampled(index: int, count: int) -> Message:
    """Return a message of ``count`` sampled tokens."""
    return Message(index, None, Role.ASSISTANT, Source.POLICY, [3] * count, [1] * count, [-0.5] * count, [0] * count)


def scored_group(
    rewards: Sequence[Sequence[float]],
    *,
    states: Sequence[Sequence[str]] | None = None,
    tokens: int = 1,
    task: Task | None = None,
    name: str = "g",
    verdicts: Sequence[bool | None] | None = None,
    status: Status = Status.COMPLETED,
) -> ScoredGroup:
    """Return a scored group of completed members; ``states`` are the state keys of their turns, each with ``tokens``
    sampled tokens, and ``verdicts`` those of the environment; by default it gives none.
    """
    keys = states or [[""] * len(turns) for turns in rewards]
    members = [
        Trajectory(
            f"{name}-{i}",
            "r",
            name,
            i,
            0,
            status,
            reward=sum(turns),
            success=None if verdicts is None else verdicts[i],
            steps=[step(t, reward, key) for t, (reward, key) in enumerate(zip(turns, keys[i], strict=True))],
            messages=[sampled(t, tokens) for t in range(len(turns))],
        )
        for i, turns in enumerate(rewards)
    ]
    problem = task or make_task(SITE, 0, "train", {})
    group = Group(name, "r", problem, Horizon(8, 8, 64, 64), len(members), trajectories=members)
    return ScoredGroup(group, rewards)
