"""The check of episodes in another process, in which the hashes of texts, and so the order of a set, differ.

``python -m turnwise.envs.authoring.other_process`` is that process: it reads a ``_Request`` as JSON from stdin and
writes a list of ``_Played`` as JSON, or the error as text.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

from ...process.children import isolate_signals
from ...process.output import claim_output, stdout
from ..base import TurnEnv, checked_actions, checked_vocabulary
from ..errors import EnvError
from ..registry import spec
from ..runner.env_thread import EnvThread
from ..runner.step_result import StepResult
from ..tasks import env_package
from .subject import NOT_DETERMINISTIC, CheckFailed, Skipped, Subject, difference, episode, outcome

EPISODES = 2
START_S = 30.0
"""Limit of the start of the other process; its episodes may take twice as long as they took here."""
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


@dataclass(frozen=True, slots=True)
class _Request:
    env_id: str
    options: dict[str, Any]
    timeout_s: float
    actions: list[tuple[int, list[str]]]
    """The seed and the actions of each episode."""


@dataclass(frozen=True, slots=True)
class _Played:
    """An episode, and the values of ``LISTS`` after its reset."""

    results: list[StepResult]
    lists: dict[str, list[str]]


async def same_in_another_process(subject: Subject) -> str:
    """Check that an episode is the same in another process: a trajectory is replayed in one."""
    played = list[tuple[int, list[str], _Played]]()
    async with subject.made() as owner:
        if not owner.deterministic:
            raise Skipped(NOT_DETERMINISTIC)
        if await owner.run("sandboxed", lambda env: bool(env.sandboxed), subject.timeout_s):
            raise Skipped("leases sandboxes")
        began = time.monotonic()
        for seed in await subject.seeds(owner, EPISODES):
            actions, _ = await episode(subject, owner, seed)
            played.append((seed, actions, await _play(owner, seed, actions, subject.timeout_s)))
        limit_s = START_S + 2 * (time.monotonic() - began)
    request = _Request(subject.env_id, subject.options, subject.timeout_s, [(seed, taken) for seed, taken, _ in played])
    answers = await _in_another_process(request, limit_s)
    for (seed, taken, here), there in zip(played, answers, strict=True):
        for turn, (one, other) in enumerate(zip(here.results, there.results, strict=True)):
            if (outcome(one), one.state_key) != (outcome(other), other.state_key):
                where = f"turn {turn}, action {taken[turn - 1]!r}" if turn else "reset"
                raise CheckFailed(f"in another process, seed {seed}, {where}: {difference(one, other)}. {ADVICE}")
        for name, values in here.lists.items():
            if values != there.lists.get(name):
                raise CheckFailed(
                    f"in another process, seed {seed}: `{name}` returns other or reordered values. {ADVICE}"
                )
    return f"{len(played)} episodes replayed in another process"


async def _in_another_process(request: _Request, limit_s: float) -> list[_Played]:
    module = request.env_id.rpartition(":")[0]
    if not module and not env_package(request.env_id):
        raise Skipped("no installed package or module of the id provides it: another process cannot make it")
    try:
        sent = json.dumps(asdict(request))
    except (TypeError, ValueError) as error:
        raise Skipped(f"an option is not a JSON value: {error}") from error
    own = os.environ.get("PYTHONHASHSEED", "")
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
        "PYTHONHASHSEED": str(int(own) + 1) if own.isdecimal() else "1",
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
        async with asyncio.timeout(limit_s):
            out, errors = await process.communicate(sent.encode())
    except TimeoutError:
        raise CheckFailed(
            f"in another process: its import and {len(request.actions)} episodes did not end within {limit_s:.0f} s, "
            f"twice their time here and {START_S:g} s"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        lines = errors.decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"]
        raise CheckFailed(f"another process cannot make or play it, and so no run can: {lines[-1]}")
    answers = json.loads(out)
    if isinstance(answers, str):
        raise CheckFailed(f"in another process: {answers}")
    return [_Played([StepResult(**each) for each in answer["results"]], answer["lists"]) for answer in answers]


async def _play(owner: EnvThread, seed: int, actions: list[str], timeout_s: float) -> _Played:
    """Play an episode, and keep the values that are compared; of images their hash."""
    results = [await owner.reset(seed, "train", timeout_s)]
    lists = await owner.run("lists", _lists, timeout_s)
    results += [await owner.step(action, timeout_s) for action in actions]
    return _Played([replace(each, images=(), reward_parts={}, extras={}) for each in results], lists)


def _lists(env: TurnEnv) -> dict[str, list[str]]:
    found = {}
    for name, read in LISTS.items():
        try:
            found[name] = [repr(value) for value in islice(read(env), MAX_VALUES)]
        except NotImplementedError:
            continue
    return found


async def _answer(request: _Request) -> list[_Played]:
    owner = EnvThread(request.env_id, request.options)
    await owner.make(request.timeout_s)
    try:
        return [await _play(owner, seed, taken, request.timeout_s) for seed, taken in request.actions]
    finally:
        await owner.close(request.timeout_s)


def main() -> None:
    """Answer the request of stdin on stdout."""
    claim_output()
    isolate_signals()
    request = _Request(**json.load(sys.stdin))
    spec(request.env_id)
    try:
        answers: object = list(map(asdict, asyncio.run(_answer(request))))
    except EnvError as error:
        answers = str(error)
    json.dump(answers, stdout())
    stdout().flush()
    os._exit(0)


if __name__ == "__main__":
    from turnwise.envs.authoring.other_process import main as run

    run()
