"""Tokens for stored demonstrations: the episodes of an expert are stored as texts and encoded when a run loads them.

``with_messages`` encodes an episode that was played without tokens, such as an oracle's; ``experts_of`` yields those of
experts as tasks of ``turnwise/SemiOnline-v0``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..envs.errors import UnknownEnvironment
from ..envs.runner.observations import instructions
from ..envs.runner.once import call_once
from ..envs.semi_online import Expert
from ..envs.tasks import env_key
from ..errors import TurnwiseError
from ..records import SUCCESS_RETURN, Group, Message, ScoredGroup, Source, Status, Step, Task, Trajectory, is_success
from ..store import queries
from ..store.database import Database
from .reexecution.stored import Stored, load
from .tokens.conversation import Conversation
from .tokens.renderer import Renderer
from .tokens.renderers import load_renderer

PAGE = 500


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
        """Return the system message of a group's episodes, as ``PolicyContext`` joins it."""
        key = env_key(group.task)
        if key not in self._instructions:
            self._instructions[key] = call_once(group.task.env_id, group.task.options, "instructions", instructions)
        return "\n\n".join(part for part in (group.prompt_prefix, self._instructions[key]) if part)


def experts_of(
    database: Database, run: str | None = None, env_id: str | None = None, min_return: float = SUCCESS_RETURN
) -> Iterator[Expert]:
    """Yield the successful episodes of experts in the store, by age.

    Args:
        min_return: return from which a completed episode without a verdict of its environment is a success.
        run: only episodes of this run.
        env_id: only episodes of this environment.

    Raises:
        NotFound: the run is not in the store.
        StepCorrupt: stored content was altered.
        Pruned: retention removed the content of an episode.
        TurnwiseError: an observation contains images.
    """
    prompts: dict[str, str] = {}
    for name in _successes(database, run, env_id, min_return):
        stored = load(database, name)
        key = env_key(stored.group.task)
        if key not in prompts:
            prompts[key] = _instructions(stored.group.task)
        yield _expert(stored, prompts[key])


def _successes(database: Database, run: str | None, env_id: str | None, min_return: float) -> Iterator[str]:
    filters: dict[str, Any] = {
        "run": run,
        "env": env_id,
        "source": Source.EXPERT.value,
        "status": Status.COMPLETED.value,
    }
    last: str | None = None
    if run is not None:
        with database.read() as conn:
            queries.find_run(conn, run)
    while True:
        with database.read() as conn:
            rows = queries.list_trajectories(conn, descending=False, limit=PAGE, after=last, **filters)
        won = [row for row in rows if is_success(row.success, Status.COMPLETED, row.reward, min_return)]
        yield from (row.id for row in won if row.n_steps)
        if len(rows) < PAGE:
            return
        last = rows[-1].id


def _instructions(task: Task) -> str:
    """Return the system prompt of a task's environment; empty if the environment is not installed."""
    try:
        return call_once(task.env_id, task.options, "instructions", instructions)
    except UnknownEnvironment:
        return ""


def _expert(stored: Stored, prompt: str) -> Expert:
    trajectory, task = stored.trajectory, stored.group.task
    if any(step.images for step in trajectory.steps):
        raise TurnwiseError(
            f"trajectory {trajectory.id} has observations with images, which `turnwise/SemiOnline-v0` does not show; "
            "choose experts of an environment of text"
        )
    return Expert(
        id=trajectory.id,
        split="test" if task.split == "test" else "train",
        instructions=prompt,
        observations=(*(step.observation for step in trajectory.steps), stored.last or ""),
        actions=tuple(step.action for step in trajectory.steps),
    )
