"""Checks of what an environment shares with the other environments and episodes of its process."""

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium

from ..base import Adapted, TurnEnv, checked_actions, checked_oracle, checked_vocabulary
from ..errors import EnvError
from ..runner.env_thread import EnvThread
from ..runner.step_result import StepResult
from .process_state import ZOMBIE, changes, counts, detached_processes_kept, growth, left_running, process_state
from .subject import CheckFailed, Skipped, Subject, difference, episode, outcome, random_stream

EPISODES = 2
ROUNDS = 3
"""Environments that are made to see whether each leaves something."""
MAX_VALUE_CHARS = 10_000


@dataclass(frozen=True, slots=True)
class _Stream:
    """A global random stream of the process."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], Any]
    seed: Callable[[int], Any]


_STREAMS = {
    "random": ("`random`", "getstate", "setstate", "seed"),
    "numpy.random": ("NumPy (`np.random`)", "get_state", "set_state", "seed"),
    "torch": ("`torch`", "get_rng_state", "set_rng_state", "manual_seed"),
}
"""The name and the functions of each stream, by its module; ``torch`` is not imported for its own."""
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
    zombies = left_running() - subject.running
    async with subject.made() as owner:
        seeds = await subject.seeds(owner, ROUNDS)
        await episode(subject, owner, seeds[0])
        sandboxed = await owner.run("sandboxed", lambda env: bool(env.sandboxed), subject.timeout_s)
        found = changes(subject.before, await owner.run("process", lambda _: process_state(), subject.timeout_s))
    if found:
        raise CheckFailed(
            f"it changes {'; '.join(found)}. A run shares its processes among episodes and environments: restore the "
            "value before each call returns, or do it in a process of the environment"
        )
    if sandboxed:
        return "folder, signals, streams, variables and settings as before"
    with detached_processes_kept():
        before = counts()
        for number in range(ROUNDS):
            async with subject.made() as owner:
                seed = seeds[number % len(seeds)]
                await episode(subject, owner, seed)
                await subject.reset(owner, seed)
        grown = await growth(before, ROUNDS)
        left = {one for one in left_running() - subject.running if ZOMBIE not in one} | zombies
    if left:
        raise CheckFailed(f"`close` leaves {', '.join(sorted(left)[:5])}: end it and wait for it in `close`")
    if grown:
        found = [f"{count} more {kind}" for kind, count in grown.items()]
        raise CheckFailed(
            f"{ROUNDS} environments with {2 * ROUNDS} episodes left {', '.join(found)}: end them in `close`"
        )
    return "folder, signals, streams, variables and settings as before; no process, thread or open file is left"


async def own_random_stream(subject: Subject) -> str:
    """Check that the environment never seeds a global random stream of the process, and no episode depends on one."""
    found = [(sys.modules[module], name, calls) for module, (name, *calls) in _STREAMS.items() if module in sys.modules]
    streams = [_Stream(name, *(getattr(module, call) for call in calls)) for module, name, calls in found]
    kept = [stream.read() for stream in streams]
    try:
        await _seeds_nothing(subject, streams)
        await _depends_on_nothing(subject, streams)
    finally:
        for stream, state in zip(streams, kept, strict=True):
            stream.write(state)
    return "episodes draw from streams of their own"


async def _seeds_nothing(subject: Subject, streams: Sequence[_Stream]) -> None:
    """Check that after every call the global streams still depend on the seeds that they had before the first one."""
    one, other = [await _life(subject, streams, first) for first in (1, 1001)]
    for call in [call for call in one if call in other]:
        for stream, *ends in zip(streams, one[call], other[call], strict=True):
            if ends[0] == ends[1]:
                raise CheckFailed(
                    f"`{call}` seeds the global random stream of {stream.name}, which all episodes of a process "
                    "share: draw from `self.np_random`, which `super().reset(seed=seed)` seeds"
                )


async def _life(subject: Subject, streams: Sequence[_Stream], first: int) -> dict[str, list[Any]]:
    """Seed the streams with ``first``; return their states after each call of an environment's life."""
    ends: dict[str, list[Any]] = {}

    def read(call: str) -> None:
        ends[call] = [_comparable(stream.read()) for stream in streams]

    for stream in streams:
        stream.seed(first)
    async with subject.made() as owner:
        read("__init__")
        (seed,) = await subject.seeds(owner, 1)
        seen = await subject.reset(owner, seed)
        read("reset")
        for call, work in OPTIONAL_CALLS.items():
            with contextlib.suppress(EnvError):
                await owner.run(call, work, subject.timeout_s)
            read(call)
        if not (seen.terminated or seen.truncated):
            await subject.step(owner, await subject.action(owner, random_stream(0)))
            read("step")
    read("close")
    return ends


def _comparable(state: Any) -> Any:
    """Return the state of a stream with lists instead of arrays and tensors."""
    if isinstance(state, tuple):
        return list(map(_comparable, state))
    return state.tolist() if hasattr(state, "tolist") else state


async def _depends_on_nothing(subject: Subject, streams: Sequence[_Stream]) -> None:
    """Check that the seeds of the global streams make no difference to an episode."""
    async with subject.pair() as (one, other):
        for seed in await subject.seeds(one, EPISODES):
            actions, _ = await episode(subject, one, seed)
            played = partial(_replay, subject, other, seed, actions)
            first = await played(dict.fromkeys(streams, 1))
            if _outcomes(first) != _outcomes(await played(dict.fromkeys(streams, 1))):
                raise Skipped("an episode cannot be repeated, for another reason")
            moved = await played(dict.fromkeys(streams, 1001))
            if _outcomes(first) != _outcomes(moved):
                for stream in streams:
                    moved = await played(dict.fromkeys(streams, 1) | {stream: 1001})
                    _compare(seed, actions, first, moved, f"depends on the global random stream of {stream.name}")


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


async def _replay(
    subject: Subject, owner: EnvThread, seed: int, actions: Sequence[str], firsts: Mapping[_Stream, int]
) -> list[StepResult]:
    """Return the results of an episode; before each call the streams are seeded, with ``firsts`` and successors."""
    seen: list[StepResult] = []
    for turn in range(len(actions) + 1):
        for stream, first in firsts.items():
            stream.seed(first + turn)
        seen.append(await (subject.step(owner, actions[turn - 1]) if turn else subject.reset(owner, seed)))
    return seen


def _outcomes(seen: Sequence[StepResult]) -> list[tuple[object, ...]]:
    return list(map(outcome, seen))


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
