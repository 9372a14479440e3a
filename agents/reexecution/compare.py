"""Compare a stored step, and the end of a stored trajectory, with their re-execution.

Observations may have megabytes: only a window around their first difference is compared line by line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import unified_diff
from itertools import takewhile
from math import fsum, isclose

from ...envs.base import TurnEnv
from ...envs.runner.env_thread import EnvThread
from ...envs.runner.observations import observation_hash, parts
from ...envs.runner.step_result import StepResult
from ...records import SCORED_STATUSES, Status, Step, Trajectory

CALL_TIMEOUT_S = 60.0
"""Timeout of each call to the environment."""
REWARD_TOLERANCE = 1e-9
"""Tolerance of the sum of the rewards, relative and absolute."""

CONTEXT_LINES = 2
MAX_LINES = 40
"""Lines of each text in the window, after the lines of context."""
MAX_LINE_CHARS = 200


def text_diff(stored: str, now: str) -> str:
    """Return the first differences of two texts as a unified diff, stored against now; empty if they are equal."""
    if stored == now:
        return ""
    before, after = stored.splitlines(), now.splitlines()
    equal = _common(before, after)
    if equal == len(before) == len(after):
        return "the texts differ only in the white space at the end of lines"
    start = max(0, equal - CONTEXT_LINES)
    end = equal + MAX_LINES
    offset = _offset(before[equal] if equal < len(before) else "", after[equal] if equal < len(after) else "")
    one, other = (
        [_cut(line, offset if number == equal else 0) for number, line in enumerate(lines[start:end], start)]
        for lines in (before, after)
    )
    lines = list(unified_diff(one, other, "stored", "now", lineterm="", n=CONTEXT_LINES))
    shown = [f"@@ from line {start + 1} @@" if line.startswith("@@") else line for line in lines]
    left = max(len(before), len(after)) - end
    return "\n".join([*shown, *([f"… {left} more lines"] if left > 0 else [])])


def _common(one: list[str], other: list[str]) -> int:
    """Return the number of equal lines at the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _offset(one: str, other: str) -> int:
    """Return where to begin to show two long lines, so that their first difference is visible."""
    equal = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return max(0, equal - MAX_LINE_CHARS // 2) if max(len(one), len(other)) > MAX_LINE_CHARS else 0


def _cut(line: str, offset: int) -> str:
    """Return at most ``MAX_LINE_CHARS`` characters of a line, with marks where it is cut."""
    shown = line[offset : offset + MAX_LINE_CHARS]
    return ("…" if offset and shown else "") + shown + ("…" if offset + MAX_LINE_CHARS < len(line) else "")


Check = tuple[str, object, object]
"""The name of a value, the stored value and the new one. If the new value is None, there is nothing to compare."""


@dataclass(frozen=True, slots=True)
class StepVerdict:
    """The result of re-executing one step, or of comparing the end: the last observation and the summary columns.

    ``index`` is the step's index; for the end, it equals the number of steps.
    """

    index: int
    matches: bool
    differs: str = ""
    """The first difference: the stored and the new value, as text."""
    diff: str = ""
    """If the observations differ, their texts as a unified diff, stored against now."""


@dataclass(frozen=True, slots=True)
class Texts:
    """The text of an observation as the environment normalizes it: the stored text and the new one.

    ``stored_hash`` is None if the observation is more than text; the text alone then has no hash.
    """

    stored: str
    now: str
    stored_hash: str | None


async def texts_of(env_thread: EnvThread, stored: str | None, result: StepResult, *, has_images: bool) -> Texts:
    """Return the stored text of an observation and the new one, as the environment normalizes them.

    Args:
        stored: None if the store has no text of this observation.
        has_images: whether the stored observation is more than this text.
    """
    if stored is None or has_images or result.images:
        return Texts(result.text if stored is None else stored, result.text, None)

    def normalized(env: TurnEnv) -> Texts:
        digest, text = observation_hash(env, stored), parts(env.normalize(stored))[0]
        return Texts(text, text if digest == result.hash else parts(env.normalize(result.text))[0], digest)

    return await env_thread.run("normalize", normalized, CALL_TIMEOUT_S)


def compare(step: Step, before: StepResult, after: StepResult, texts: Texts) -> StepVerdict:
    """Compare a stored step with its re-execution: ``before`` holds the observation, ``after`` the action's result."""
    seen = _observation("observation hash", "the stored text", step.observation_hash, before.hash, texts)
    acted = [
        ("reward", step.reward, after.reward),
        ("end", (step.terminated, step.truncated), (after.terminated, after.truncated)),
    ]
    return _verdict(step.index, seen, acted, texts, bool(step.images or before.images))


def compare_end(trajectory: Trajectory, last: StepResult, texts: Texts) -> StepVerdict:
    """Compare the last observation and the summary columns of an ended trajectory with its steps and the environment.

    Summary columns are compared only for completed or truncated trajectories; if the worker died they were never
    computed.
    """
    seen: list[Check] = []
    if trajectory.final_observation_hash:
        stored = trajectory.final_observation_hash
        seen = _observation("last observation's hash", "the stored last text", stored, last.hash, texts)
    summary: list[Check] = []
    if trajectory.status in SCORED_STATUSES:
        total = fsum(step.reward for step in trajectory.steps)
        if not isclose(total, trajectory.reward, rel_tol=REWARD_TOLERANCE, abs_tol=REWARD_TOLERANCE):
            summary.append(("total reward", trajectory.reward, total))
        if trajectory.steps:
            summary.append(("success", trajectory.success, last.success))
        status = Status.COMPLETED if last.terminated else Status.TRUNCATED
        summary.append(("status", trajectory.status.value, status.value))
    index = sum(not step.failed for step in trajectory.steps)
    return _verdict(index, seen, summary, texts, bool(last.images))


def compare_with_parent(branch: Trajectory, parent: Trajectory) -> StepVerdict | None:
    """Compare the turns that a branch shares with its parent; None if they are equal."""
    for mine, theirs in zip(branch.steps[: branch.branched_at], parent.steps, strict=False):
        checks = [
            ("observation hash", theirs.observation_hash, mine.observation_hash),
            ("action", theirs.action, mine.action),
            ("reward", theirs.reward, mine.reward),
        ]
        for name, of_parent, of_branch in checks:
            if of_parent != of_branch:
                return StepVerdict(
                    mine.index, False, f"{name} is {of_branch!r}, and {of_parent!r} in its parent {parent.id}"
                )
    if len(parent.steps) < (branch.branched_at or 0):
        return StepVerdict(len(parent.steps), False, f"its parent {parent.id} has only {len(parent.steps)} steps")
    return None


def _observation(name: str, text: str, stored: str, now: str, texts: Texts) -> list[Check]:
    return [(name, stored, now), (f"hash of {text} (normalized)", stored, texts.stored_hash)]


def _verdict(index: int, seen: Iterable[Check], others: Iterable[Check], texts: Texts, has_images: bool) -> StepVerdict:
    """Return the verdict on a step, with the first difference; ``seen`` are the checks of its observation."""
    if differs := _first(seen):
        diff = text_diff(texts.stored, texts.now)
        if has_images and not diff:
            diff = "the texts are equal: the images differ"
        return StepVerdict(index, False, differs, diff)
    differs = _first(others)
    return StepVerdict(index, not differs, differs)


def _first(checks: Iterable[Check]) -> str:
    """Return the first difference as text; empty if all values are equal."""
    for name, stored, now in checks:
        if now is not None and stored != now:
            return f"{name} was {stored!r}, now {now!r}"
    return ""
