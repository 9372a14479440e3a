"""The check of episodes in another process, in which the hashes of texts, and so the order of a set, differ.

``python -m turnwise.envs.authoring.other_process`` is that process: it reads the arguments of ``_made_and_played`` as
JSON from stdin and writes the result as JSON, or the error as text.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import islice
from typing import Any

from ...base.process.children import isolate_signals
from ...base.process.output import claim_output, stdout
from ..base import TurnEnv, checked_actions, checked_vocabulary
from ..errors import EnvError
from ..registry import spec
from ..runner.env_thread import EnvThread
from ..runner.step_result import StepResult
from ..tasks import env_package
from .subject import NOT_DETERMINISTIC, CheckFailed, Skipped, Subject, difference, episode, outcome

EPISODES = 2
MAX_VALUES = 1000
"""Most seeds, words or actions of a list that are compared."""
LISTS: dict[str, Callable[[TurnEnv], Iterable[Any]]] = {
    "instructions": lambda env: env.instructions(),
    "valid_actions": checked_actions,
    "vocabulary": checked_vocabulary,
    'tasks("train")': lambda env: env.tasks("train") or (),
    'tasks("test")': lambda env: env.tasks("test") or (),
}
"""Methods whose order counts: a random policy, a tokenizer and a sampler of tasks go by it."""

ADVICE = (
    "The hashes of texts, the addresses of objects and the identifiers of processes differ between processes: sort "
    "sets of texts, and use none of these values"
)
Seen = list[tuple[str, Any]]
"""Places of episodes, each with a step, or with the texts of a list."""


async def same_in_another_process(subject: Subject) -> str:
    """Check that an episode is the same in another process: a trajectory is replayed in one."""
    async with subject.made() as owner:
        if not owner.deterministic:
            raise Skipped(NOT_DETERMINISTIC)
        if await owner.run("sandboxed", lambda env: bool(env.sandboxed), subject.timeout_s):
            raise Skipped("leases sandboxes")
        seeds = await subject.seeds(owner, EPISODES)
        episodes = [(seed, (await episode(subject, owner, seed))[0]) for seed in seeds]
        here = await _played(owner, episodes, subject.timeout_s)
    there = await _in_another_process(subject, episodes)
    for (place, one), (_, other) in zip(here, there, strict=False):
        if isinstance(one, StepResult):
            step = StepResult(**other)
            if (outcome(one), one.state_key) != (outcome(step), step.state_key):
                raise CheckFailed(f"in another process, {place}: {difference(one, step)}. {ADVICE}")
        elif one != other:
            raise CheckFailed(f"in another process, {place} returns other or reordered values. {ADVICE}")
    return f"{len(episodes)} episodes replayed in another process"


async def _in_another_process(subject: Subject, episodes: Sequence[tuple[int, list[str]]]) -> Seen:
    if ":" not in subject.env_id and not env_package(subject.env_id):
        raise Skipped("no installed package or module of the id provides it: another process cannot make it")
    try:
        sent = json.dumps([subject.env_id, subject.options, episodes, subject.timeout_s])
    except (TypeError, ValueError) as error:
        raise Skipped(f"an option is not a JSON value: {error}") from error
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
        "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1",
    }
    process = await asyncio.create_subprocess_exec(
        # -P: the folder of this process is searched only if this process searches it, as in a run.
        *(sys.executable, "-P", "-m", __name__),
        stdin=-1,
        stdout=-1,
        stderr=-1,
        env=variables,
    )
    try:
        out, errors = await process.communicate(sent.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        lines = errors.decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"]
        raise CheckFailed(f"another process cannot make or play it, and so no run can: {lines[-1]}")
    answer = json.loads(out)
    if isinstance(answer, str):
        raise CheckFailed(f"in another process: {answer}")
    return list(answer)


async def _played(owner: EnvThread, episodes: Sequence[tuple[int, list[str]]], timeout_s: float) -> Seen:
    """Play episodes; of images only their hash is kept."""
    seen: Seen = []
    for seed, actions in episodes:
        seen.append((f"seed {seed}, reset", _bare(await owner.reset(seed, "train", timeout_s))))
        seen += [(f"seed {seed}: `{name}`", texts) for name, texts in await owner.run("lists", _lists, timeout_s)]
        for turn, action in enumerate(actions, 1):
            step = await owner.step(action, timeout_s)
            seen.append((f"seed {seed}, turn {turn}, action {action!r}", _bare(step)))
    return seen


def _bare(seen: StepResult) -> StepResult:
    return replace(seen, images=(), reward_parts={}, extras={})


def _lists(env: TurnEnv) -> list[tuple[str, list[str]]]:
    found = []
    for name, read in LISTS.items():
        with suppress(NotImplementedError):
            found.append((name, [repr(value) for value in islice(read(env), MAX_VALUES)]))
    return found


async def _made_and_played(
    env_id: str, options: dict[str, Any], episodes: list[tuple[int, list[str]]], timeout_s: float
) -> Seen:
    owner = EnvThread(env_id, options)
    await owner.make(timeout_s)
    try:
        return await _played(owner, episodes, timeout_s)
    finally:
        await owner.close(timeout_s)


def main() -> None:
    """Answer the request of stdin on stdout."""
    claim_output()
    isolate_signals()
    request = json.load(sys.stdin)
    spec(request[0])
    try:
        answer: object = asyncio.run(_made_and_played(*request))
    except EnvError as error:
        answer = str(error)
    json.dump(answer, stdout(), default=asdict)
    stdout().flush()
    os._exit(0)


if __name__ == "__main__":
    main()
