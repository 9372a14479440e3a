"""UI-S1 (Lu et al. 2025, arXiv:2509.11543): advantages for semi-online training with patches.

With ``s`` the reward of a turn and ``R`` its return::

    R_t = s_t                    if the action at t is a mismatch: it was not the expert's
        = s_t + gamma * R_(t+1)  if it matched, and so did that at t+1
        = s_t                    if it matched, and that at t+1 is a mismatch, or t is the last turn
    A_i,t = episode_weight * norm(s_i,t over all turns of the group) + step_weight * norm(R_i,t over all turns t)

A mismatch cuts the chain on both sides, as in the released code (X-PLUG/MobileAgent, ``UI-S1/uis1/core_uis1.py``): the
rewards after it are not its merit, and its own reward is not the merit of the turn before. Two more things are those of
the code: the first term compares turns, not sums over episodes, and a turn that no other member reached has a second
term of 0. The standard deviations here have the population form, those of the code the sample form.

``turnwise/SemiOnline-v0`` gives these rewards and patches, and names the mismatches: a patch replaces the action of all
but the one that ends an episode. In the paper, groups whose first returns have a standard
deviation of at most .3 are dropped: use a group filter.
"""

from collections.abc import Collection, Sequence

from pydantic import Field

from ....records import ScoredGroup, Source, Trajectory
from ..groups import PerTurn, turn_of_messages
from ._returns import relative
from .base import GroupAdvantage

WRONG_TURNS = "wrong_turns"
"""Key of ``Trajectory.extras`` with the turns of all mismatches, as ``turnwise/SemiOnline-v0`` reports them."""


class UIS1(GroupAdvantage):
    """Each turn's reward over the group, plus its return up to the next mismatch over the members at the same turn."""

    gamma: float = Field(0.5, ge=0, le=1)
    """Discount per turn of the return."""
    episode_weight: float = Field(1.0, ge=0)
    """Weight of the advantage over all turns of the group."""
    step_weight: float = Field(1.0, ge=0)
    """Weight of the advantage over the members at the same turn."""

    def of_group(self, scored: ScoredGroup) -> PerTurn:
        """Return one advantage per turn."""
        rewards = [list(turns) for turns in scored.rewards]
        returns = [
            _returns(turns, mismatches(one), self.gamma)
            for turns, one in zip(rewards, scored.group.trajectories, strict=True)
        ]
        flat = iter(relative([reward for turns in rewards for reward in turns]))
        advantages = [[self.episode_weight * next(flat) for _ in turns] for turns in rewards]
        for turn in range(max(map(len, rewards), default=0)):
            members = [i for i, turns in enumerate(rewards) if turn < len(turns)]
            for i, own in zip(members, relative([returns[i][turn] for i in members]), strict=True):
                advantages[i][turn] += self.step_weight * own
        return advantages


def mismatches(trajectory: Trajectory) -> set[int]:
    """Return the turns whose action was not the expert's: those with a patch, and those in the environment's
    ``extras["wrong_turns"]``."""
    turns = turn_of_messages(trajectory)
    patched = (turns.get(message.index) for message in trajectory.messages if message.source is Source.PATCH)
    return {turn for turn in patched if turn is not None} | set(trajectory.extras.get(WRONG_TURNS, ()))


def _returns(rewards: Sequence[float], wrong: Collection[int], gamma: float) -> list[float]:
    """Return the discounted rewards of each turn and of those after it, up to the next mismatch. That of a mismatch is
    its own reward."""
    total, out = 0.0, []
    for turn in reversed(range(len(rewards))):
        total = 0.0 if turn in wrong else rewards[turn] + gamma * total
        out.append(rewards[turn] if turn in wrong else total)
    return out[::-1]
