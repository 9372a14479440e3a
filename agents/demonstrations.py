"""Tokens for stored demonstrations: the episodes of an expert are stored as texts and encoded when a run loads them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from ..envs.runner.observations import instructions
from ..envs.runner.once import call_once
from ..envs.tasks import env_key
from ..errors import TurnwiseError
from ..records import Group, ScoredGroup, Trajectory
from .tokens.external import context_tokens, with_messages
from .tokens.renderer import Renderer
from .tokens.renderers import load_renderer


class DemonstrationEncoder:
    """Encodes demonstrations by the tokenizer and the chat template of a run."""

    def __init__(self, tokenizer: Path, max_context: int) -> None:
        """``tokenizer`` is the folder of the run's tokenizer, which is loaded at the first call."""
        self._tokenizer = tokenizer
        self._max_context = max_context
        self._instructions: dict[str, str] = {}

    def __call__(self, scored: ScoredGroup) -> ScoredGroup:
        """Return the group with the turns of its members as messages of source ``expert``.

        Members that are longer than the context are left out.

        Raises:
            EnvError: the group's environment could not be made, to read its instructions.
            TurnwiseError: a member has images, or tokens that a policy sampled.
        """
        system = self._system(scored.group)
        members: list[Trajectory] = []
        rewards: list[Sequence[float]] = []
        for trajectory, turns in zip(scored.group.trajectories, scored.rewards, strict=True):
            try:
                encoded = with_messages(trajectory, self._renderer, system)
            except ValueError as error:
                raise TurnwiseError(f"trajectory {trajectory.id} cannot be a demonstration: {error}") from error
            if context_tokens(encoded) <= self._max_context:
                members.append(encoded)
                rewards.append(turns)
        return replace(scored, group=replace(scored.group, trajectories=tuple(members)), rewards=rewards)

    @cached_property
    def _renderer(self) -> Renderer:
        return load_renderer(self._tokenizer)

    def _system(self, group: Group) -> str:
        """Return the system message of a group's episodes, as ``policy_player`` joins it."""
        key = env_key(group.task)
        if key not in self._instructions:
            self._instructions[key] = call_once(group.task.env_id, group.task.options, "instructions", instructions)
        return "\n\n".join(part for part in (group.prompt_prefix, self._instructions[key]) if part)
