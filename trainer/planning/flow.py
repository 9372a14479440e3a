"""How much is in flight at once, and how stale a trained token is expected to be.

``C`` is ``rollout.max_concurrent_groups``, ``B`` is ``rollout.groups_per_batch``. Admission keeps at most
``(max_staleness + 1) * B`` groups between opening and consumption.

* If rollouts are the bottleneck, ``C`` groups run, and one update consumes ``B`` of them. By Little's law a group runs
  for ``C / B`` updates. That is the staleness of the first token of an episode; the last one has almost none.
* If the learner is the bottleneck, all of ``(max_staleness + 1) * B`` groups are in flight. A group opens when a batch
  is consumed, so all its tokens have the staleness ``max_staleness``.
"""

from dataclasses import dataclass

from ..config.schema import RunConfig


@dataclass(frozen=True, slots=True)
class Flow:
    """Groups, episodes and tokens of a run at its busiest."""

    groups: int
    """Groups that run at once, at most."""
    episodes: int
    """Episodes that run at once, at most."""
    tokens: int
    """Tokens of their contexts, at most."""
    tokens_per_update: int
    """Tokens of the samples of one update, at most, if each episode is one sample."""
    staleness: float
    """Expected staleness of the first token of an episode, in updates."""
    max_staleness: int


def expected_flow(config: RunConfig) -> Flow:
    """Return what is in flight; offline, nothing is."""
    rollout = config.rollout
    groups = min(rollout.max_concurrent_groups, (rollout.max_staleness + 1) * rollout.groups_per_batch)
    episodes = groups * rollout.group_size
    if config.ray_address is None:
        episodes = min(episodes, rollout.workers_per_node * sum(one.concurrency for one in config.environments))
    if not config.num_engines:
        groups = episodes = 0
    return Flow(
        groups=groups,
        episodes=episodes,
        tokens=episodes * config.max_context,
        tokens_per_update=rollout.groups_per_batch * rollout.group_size * config.max_context,
        staleness=min(groups / rollout.groups_per_batch, rollout.max_staleness),
        max_staleness=rollout.max_staleness,
    )
