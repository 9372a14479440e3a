"""The turns of an episode: observation, pictures, text of the policy, action, and what it was worth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .....records import Step
from .....store.operations import Rewards
from ....episodes import TurnFacts
from ..text import Cut
from .pictures import Picture, Window
from .quotation import FIELDS, split_at


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn."""

    index: int
    observation: Cut
    pictures: Sequence[Picture]
    after: Picture | None
    """The screen after the action; None if it is not kept."""
    window: Window | None
    """The pictures in the context; None if the policy has no tokens, or the beginning of the context is not loaded."""
    action: Cut
    sampled: Cut | None
    """The policy's text of this turn; None if that is the action alone, or no tokenizer is known."""
    reward: float
    reward_parts: Mapping[str, float]
    shaped: float | None
    """The shaped reward, if the run has one that differs."""
    advantage: float | None
    """Mean over the trained tokens; None if no update trained on one."""
    versions: Sequence[int]
    action_valid: bool
    failed: bool
    cut_by: str
    state_key: str
    agent: str
    model_ms: float
    env_ms: float


def turn_view(
    step: Step,
    facts: TurnFacts,
    pictures: Sequence[Picture],
    after: Picture | None,
    window: Window | None,
    rewards: Rewards | None,
    limit: int | None,
) -> TurnView:
    """Return a turn.

    Args:
        limit: characters of each text; None for all.
    """
    shaped = None if rewards is None or rewards.rewards is None else rewards.rewards[step.index]
    return TurnView(
        index=step.index,
        observation=Cut.of(step.observation, limit),
        pictures=pictures,
        after=after,
        window=window,
        action=Cut.of(step.action, limit),
        sampled=Cut.of(facts.sampled_text, limit) if facts.sampled_text else None,
        reward=step.reward,
        reward_parts=step.reward_parts,
        shaped=None if shaped == step.reward else shaped,
        advantage=facts.advantage,
        versions=facts.versions,
        action_valid=step.action_valid,
        failed=step.failed,
        cut_by=step.cut_by.value if step.cut_by else "",
        state_key=step.state_key,
        agent=step.agent,
        model_ms=step.model_ms,
        env_ms=step.env_ms,
    )


def with_quotation(turn: TurnView, quote: str, field: str | None, occurrence: int) -> TurnView | None:
    """Return a turn with a quotation marked in one of its texts; None if no text has it.

    Args:
        field: the one of ``FIELDS`` to look in; None for the first that has it.
    """
    for name in FIELDS if field is None else (field,):
        text: Cut | None = getattr(turn, name)
        parts = None if text is None else split_at(text.text, quote, occurrence)
        if text is not None and parts is not None:
            changes: dict[str, Any] = {name: replace(text, quoted=parts)}
            return replace(turn, **changes)
    return None
