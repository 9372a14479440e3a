"""The environment under check: calls with a timeout, their latencies, random episodes, and how two of them differ."""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from ..base import TurnEnv, checked_actions
from ..errors import EnvError, EnvTimeout
from ..runner.env_thread import EnvThread
from ..runner.step_result import StepResult
from .process_state import State

TURNS = 20
"""Most turns of an episode."""
FIELDS = ("reward", "terminated", "truncated", "action_valid", "success", "state_key")
MAX_LINE_CHARS = 100


NOT_DETERMINISTIC = "declares itself not deterministic"


class CheckFailed(Exception):
    """The environment breaks its contract; the text names the place."""


class Skipped(Exception):
    """The check does not apply; the text gives the reason."""


@dataclass(slots=True)
class Subject:
    """The environment under check, and the latencies measured on the way."""

    env_id: str
    options: dict[str, Any]
    timeout_s: float
    reset_ms: list[float] = field(default_factory=list)
    step_ms: list[float] = field(default_factory=list)
    largest: int = 0
    """Bytes of the largest observation, text and PNG together."""
    longest: str = ""
    """The longest text of an observation."""
    words: dict[str, str] = field(default_factory=dict)
    """The words of the first observations and actions of all rows of a data set, each with its first row."""
    before: State = field(default_factory=dict)
    """The state of the process before the first environment was made."""
    running: set[str] = field(default_factory=set)
    """The processes and threads that were alive then."""
    listed: dict[str, Sequence[int] | None] = field(default_factory=dict)
    """By split, the seeds of all its tasks, once they were read; None: every seed is a task."""

    @asynccontextmanager
    async def made(self) -> AsyncIterator[EnvThread]:
        """Yield a new environment; close it afterwards."""
        owner = EnvThread(self.env_id, self.options)
        await owner.make(self.timeout_s)
        try:
            yield owner
        finally:
            await owner.close(self.timeout_s)

    @asynccontextmanager
    async def pair(self) -> AsyncIterator[tuple[EnvThread, EnvThread]]:
        """Yield two new environments to compare. Raises Skipped: they are not deterministic."""
        async with self.made() as one, self.made() as other:
            if not one.deterministic:
                raise Skipped(NOT_DETERMINISTIC)
            yield one, other

    async def seeds(self, owner: EnvThread, count: int, split: str = "train") -> list[int]:
        """Return the seeds of the first ``count`` tasks of a split; fewer if the environment lists fewer."""
        if split not in self.listed:
            try:
                self.listed[split] = await owner.tasks(split, self.timeout_s)
            except EnvTimeout:
                raise
            except EnvError:  # the check of the tasks reports it
                self.listed[split] = None
        listed = self.listed[split]
        return list(range(count)) if listed is None else list(listed[:count])

    async def reset(self, owner: EnvThread, seed: int, split: str = "train") -> StepResult:
        """Reset, and record the latency."""
        seen = await owner.reset(seed, split, self.timeout_s)
        self.reset_ms.append(seen.ms)
        return self._measured(seen)

    async def step(self, owner: EnvThread, action: str) -> StepResult:
        """Step, and record the latency."""
        seen = await owner.step(action, self.timeout_s)
        self.step_ms.append(seen.ms)
        return self._measured(seen)

    async def action(self, owner: EnvThread, rng: random.Random) -> str:
        """Return a random valid action, or a sample of the action space if the environment lists none."""

        def choose(env: TurnEnv) -> str:
            try:
                actions = checked_actions(env)
            except NotImplementedError:
                env.action_space.seed(rng.randrange(2**31))
                return str(env.action_space.sample())
            return rng.choices([text for text, _ in actions], [weight for _, weight in actions])[0]

        return await owner.run("valid_actions", choose, self.timeout_s)

    def _measured(self, seen: StepResult) -> StepResult:
        self.largest = max(self.largest, len(seen.text.encode()) + sum(map(len, seen.images)))
        self.longest = max(self.longest, seen.text, key=len)
        return seen


def random_stream(seed: int) -> random.Random:
    """Return the stream that chooses actions."""
    return random.Random(seed)  # noqa: S311 - which actions to try


async def episode(
    subject: Subject, owner: EnvThread, seed: int, split: str = "train", *, action_seed: int | None = None
) -> tuple[list[str], list[StepResult]]:
    """Play one episode of random actions; return the actions and all results.

    Args:
        action_seed: chooses the actions; by default ``seed`` does.
    """
    rng, actions = random_stream(seed if action_seed is None else action_seed), list[str]()
    seen = [await subject.reset(owner, seed, split)]
    while len(actions) < TURNS and not (seen[-1].terminated or seen[-1].truncated):
        actions.append(await subject.action(owner, rng))
        seen.append(await subject.step(owner, actions[-1]))
    return actions, seen


def outcome(seen: StepResult) -> tuple[object, ...]:
    """Return the values of a step that an equal episode repeats."""
    return seen.hash, seen.reward, seen.terminated, seen.truncated, seen.action_valid, seen.success


def difference(expected: StepResult, seen: StepResult) -> str:
    """Return the first difference: of the texts, else of the other values, else of the images."""
    lines = zip_longest(expected.text.split("\n"), seen.text.split("\n"), fillvalue="")
    for number, (one, other) in enumerate(lines, 1):
        if expected.hash != seen.hash and one != other:
            return f"line {number} of the observation was {_shown(one)}, then {_shown(other)}"
    for name in FIELDS:
        if getattr(expected, name) != getattr(seen, name):
            return f"`{name}` was {_shown(getattr(expected, name))}, then {_shown(getattr(seen, name))}"
    return "the images differ"


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= MAX_LINE_CHARS else f"{shown[:MAX_LINE_CHARS]}…"
