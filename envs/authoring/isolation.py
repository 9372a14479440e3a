"""Checks of what an environment shares with the other environments and episodes of its process."""

import contextlib
import inspect
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np

from ..base import Adapted, TurnEnv, checked_actions, checked_oracle, checked_vocabulary
from ..errors import EnvError
from ..runner.step_result import StepResult
from .process_state import changes, counts, growth, left_running
from .subject import CheckFailed, Subject, difference, episode, outcome

EPISODES = 2
MAX_NAMES = 10
ROUNDS = 3
"""Environments that are made to see whether each leaves something."""
MAX_VALUE_CHARS = 10_000
STREAMS: dict[str, Callable[[], object]] = {
    "`random`": random.getstate,
    "NumPy (`np.random`)": lambda: str([np.asarray(part).tolist() for part in np.random.get_state()]),
}
"""The global random streams of the process, each with the function that reads its state."""
OPTIONAL_CALLS: dict[str, Callable[[TurnEnv], Any]] = {
    "tasks": lambda env: (env.tasks("train"), env.tasks("test")),
    "instructions": lambda env: env.instructions(),
    "vocabulary": checked_vocabulary,
    "valid_actions": checked_actions,
    "oracle": checked_oracle,
    "snapshot": lambda env: env.restore(env.snapshot()) if env.restorable else None,
}
"""The methods that an environment need not have."""


async def process_kept(subject: Subject) -> str:
    """Check that the environment changed nothing of its process since its module was imported, and left nothing."""
    async with subject.made() as owner:
        seeds = await subject.seeds(owner, ROUNDS)
        await episode(subject, owner, seeds[0])
        sandboxed = await owner.run("sandboxed", lambda env: bool(env.sandboxed), subject.timeout_s)
        found = changes(subject.before)[:MAX_NAMES]
    if found:
        raise CheckFailed(
            f"it changes {'; '.join(found)}, which a run shares among episodes and environments: do it in a process of "
            "the environment"
        )
    if sandboxed:
        return "folder, signals, streams, variables and limits as before"
    before = counts()
    for number in range(ROUNDS):
        async with subject.made() as owner:
            seed = seeds[number % len(seeds)]
            await episode(subject, owner, seed)
            await subject.reset(owner, seed)
    grown = await growth(before, ROUNDS)
    if left := left_running() - subject.running:
        raise CheckFailed(f"`close` leaves {', '.join(sorted(left)[:5])}: end it and wait for it in `close`")
    if grown:
        found = [f"{count} more {kind}" for kind, count in grown.items()]
        raise CheckFailed(
            f"{ROUNDS} environments with {2 * ROUNDS} episodes left {', '.join(found)}: end them in `close`"
        )
    return "folder, signals, streams, variables and limits as before; no process, thread or open file is left"


async def own_random_stream(subject: Subject) -> str:
    """Check that no call of the environment draws from a global random stream of the process, or seeds it."""
    kept = random.getstate(), np.random.get_state()
    random.seed()
    np.random.seed()
    before = {name: read() for name, read in STREAMS.items()}

    def compare(call: str) -> None:
        for name, read in STREAMS.items():
            if read() != before[name]:
                raise CheckFailed(
                    f"`{call}` draws from the global random stream of {name} or seeds it, and all episodes of a "
                    "process share it: draw from `self.np_random`, which `super().reset(seed=seed)` seeds"
                )

    try:
        async with subject.made() as owner:
            compare("__init__")
            for seed in await subject.seeds(owner, EPISODES):
                await subject.reset(owner, seed)
                compare("reset")
                for call, work in OPTIONAL_CALLS.items():
                    with contextlib.suppress(EnvError):
                        await owner.run(call, work, subject.timeout_s)
                    compare(call)
                await episode(subject, owner, seed)
                compare("step")
        compare("close")
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])
    return "episodes draw from streams of their own"


async def episodes_apart(subject: Subject) -> str:
    """Check that two episodes that are played in turn, in two environments, are equal to the same two alone."""
    turns = 0
    async with subject.pair() as (one, other):
        seeds = await subject.seeds(one, 2 * EPISODES)
        for pair in zip(seeds[::2], seeds[1::2] or seeds, strict=False):
            async with subject.made() as alone:
                expected = [await episode(subject, alone, seed) for seed in pair]
            shared = await one.run("globals", _shared_values, subject.timeout_s)
            seen = [[await subject.reset(owner, seed)] for seed, owner in zip(pair, (one, other), strict=True)]
            for turn in range(max(len(actions) for actions, _ in expected)):
                for owner, (actions, _), results in zip((one, other), expected, seen, strict=True):
                    if turn < len(actions):
                        results.append(await subject.step(owner, actions[turn]))
            after = await one.run("globals", _shared_values, subject.timeout_s)
            names = [name for name, value in after.items() if shared.get(name, value) != value]
            for place, (actions, alone_seen) in enumerate(expected):
                where = f" (changed: {', '.join(f'`{name}`' for name in names[:3])})" if names else ""
                _compare(pair[place], actions, alone_seen, seen[place], f"shares state with other instances{where}")
                turns += len(actions)
    return f"{turns} turns of episodes in turn"


def _compare(
    seed: int, actions: Sequence[str], expected: Sequence[StepResult], seen: Sequence[StepResult], fault: str
) -> None:
    for turn, (one, other) in enumerate(zip(expected, seen, strict=True)):
        if outcome(one) != outcome(other):
            where = f"turn {turn}, action {actions[turn - 1]!r}" if turn else "reset"
            raise CheckFailed(
                f"it {fault}: seed {seed}, {where}: {difference(one, other)}. Episodes of a process are played in "
                "turn: keep all state in `self`, and draw from `self.np_random`"
            )


def _shared_values(env: TurnEnv) -> dict[str, str]:
    """Return the attributes of the environment's classes and the globals of their modules, as text."""
    core = env.core if isinstance(env, Adapted) else env
    values: dict[str, str] = {}
    for each in type(core).__mro__:
        if each in (TurnEnv, gymnasium.Env):
            break
        module = sys.modules.get(each.__module__)
        values |= {f"{each.__name__}.{name}": text for name, text in _plain(vars(each))}
        values |= {f"{each.__module__}.{name}": text for name, text in _plain(vars(module) if module else {})}
    return values


def _plain(values: Any) -> Iterator[tuple[str, str]]:
    for name, value in list(values.items()):
        if not (name.startswith("__") or callable(value) or inspect.ismodule(value)):
            yield name, repr(value)[:MAX_VALUE_CHARS]
