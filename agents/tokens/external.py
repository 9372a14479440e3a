"""Tokens for stored episodes that were played without tokens, such as an oracle's."""

from dataclasses import replace

from ...records import Message, Source, Step, Trajectory
from .conversation import Conversation
from .renderer import Renderer


def with_messages(trajectory: Trajectory, renderer: Renderer, system: str) -> Trajectory:
    """Return an expert's trajectory with the messages of its turns, encoded here; a pure function of its arguments.

    Every action becomes a message of source ``expert``, closed by the end-of-turn token, with mask 0. The steps need
    the texts of their observations.

    Args:
        system: the system message: prompt prefix and instructions of the environment.

    Raises:
        ValueError: the policy sampled tokens of this trajectory, or an observation contains images.
    """
    if any(any(message.mask) for message in trajectory.messages):
        raise ValueError(f"the policy sampled tokens of trajectory {trajectory.id}: they are never encoded again")
    conversation = Conversation(renderer, system)
    messages: list[Message] = []
    steps: list[Step] = []
    for step in trajectory.steps:
        messages.append(conversation.observe(step.observation, step.images))
        messages.append(conversation.append_external(step.action, Source.EXPERT))
        steps.append(replace(step, message=messages[-1].index))
    return replace(trajectory, source=Source.EXPERT, steps=tuple(steps), messages=tuple(messages))


def context_tokens(trajectory: Trajectory) -> int:
    """Return the tokens of the longest root-to-leaf path of a trajectory's messages; 0 without messages."""
    totals: dict[int | None, int] = {None: 0}
    for message in trajectory.messages:
        totals[message.index] = totals[message.parent] + len(message.tokens)
    return max(totals.values())
