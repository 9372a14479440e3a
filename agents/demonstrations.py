"""Tokens for stored demonstrations: the episodes of an expert are stored as texts and encoded when a run loads them.

``with_messages`` encodes an episode that was played without tokens, such as an oracle's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ..envs.runner.observations import instructions
from ..envs.runner.once import call_once
from ..envs.tasks import env_key
from ..errors import TurnwiseError
from ..records import Group, Message, ScoredGroup, Source, Step, Trajectory
from .tokens.conversation import Conversation
from .tokens.renderer import Image, Renderer
from .tokens.renderers import load_renderer

if TYPE_CHECKING:
    from ..store.database import Database


def with_messages(
    trajectory: Trajectory,
    renderer: Renderer,
    system: str,
    image: Callable[[str], Image] | None = None,
    max_images: int | None = None,
) -> Trajectory:
    """Return an expert's trajectory with the messages of its turns, encoded here; a pure function of its arguments.

    Every action becomes a message of source ``expert``, closed by the end-of-turn token, with mask 0. The steps need
    the texts of their observations.

    Args:
        system: the system message: prompt prefix and instructions of the environment.
        image: returns the image with this hash; None refuses images.
        max_images: images in the context, as ``Conversation`` takes it.

    Raises:
        ValueError: the policy sampled tokens of this trajectory, or the model or ``image`` cannot read its images.
    """
    if any(any(message.mask) for message in trajectory.messages):
        raise ValueError(f"the policy sampled tokens of trajectory {trajectory.id}: they are never encoded again")
    conversation = Conversation(renderer, system, max_images)
    messages: list[Message] = []
    steps: list[Step] = []
    for step in trajectory.steps:
        if step.images and image is None:
            raise ValueError("a demonstration with images cannot be encoded")
        shown = [] if image is None else [image(name) for name in step.images]
        messages.append(conversation.observe(step.observation, shown))
        messages.append(conversation.append_external(step.action, Source.EXPERT))
        steps.append(replace(step, message=messages[-1].index))
    return replace(trajectory, source=Source.EXPERT, steps=tuple(steps), messages=tuple(messages))


def context_tokens(trajectory: Trajectory) -> int:
    """Return the tokens of the longest root-to-leaf path of a trajectory's messages; 0 without messages."""
    totals: dict[int | None, int] = {None: 0}
    for message in trajectory.messages:
        totals[message.index] = totals[message.parent] + len(message.tokens)
    return max(totals.values())


class DemonstrationEncoder:
    """Encodes demonstrations by the tokenizer and the chat template of a run."""

    def __init__(self, database: Database, tokenizer: Path, max_context: int, max_images: int) -> None:
        """Encode demonstrations of a store.

        Args:
            tokenizer: the folder of the run's tokenizer, which is loaded at the first call.
            max_context: that of the run, in tokens.
            max_images: that of the run.
        """
        self._database = database
        self._tokenizer = tokenizer
        self._max_context, self._max_images = max_context, max_images
        self._instructions: dict[str, str] = {}

    def __call__(self, scored: ScoredGroup) -> ScoredGroup:
        """Return the group with the turns of its members as messages of source ``expert``.

        Members that are longer than the context are left out.

        Raises:
            EnvError: the group's environment could not be made, to read its instructions.
            TurnwiseError: a member has images that the model does not read or that the store lacks, or tokens that a
                policy sampled.
        """
        system = self._system(scored.group)
        members: list[Trajectory] = []
        rewards: list[Sequence[float]] = []
        for trajectory, turns in zip(scored.group.trajectories, scored.rewards, strict=True):
            try:
                encoded = with_messages(trajectory, self._renderer, system, self._image, self._max_images)
            except ValueError as error:
                raise TurnwiseError(f"trajectory {trajectory.id} cannot be a demonstration: {error}") from error
            if context_tokens(encoded) <= self._max_context:
                members.append(encoded)
                rewards.append(turns)
        return replace(scored, group=replace(scored.group, trajectories=tuple(members)), rewards=rewards)

    def _image(self, name: str) -> Image:
        with self._database.read() as conn:
            return Image.of(self._database.blobs.get(conn, name))

    @cached_property
    def _renderer(self) -> Renderer:
        return load_renderer(self._tokenizer)

    def _system(self, group: Group) -> str:
        """Return the system message of a group's episodes, as ``PolicyContext`` joins it."""
        key = env_key(group.task)
        if key not in self._instructions:
            self._instructions[key] = call_once(group.task.env_id, group.task.options, "instructions", instructions)
        return "\n\n".join(part for part in (group.prompt_prefix, self._instructions[key]) if part)
