"""The difference between two results that should be equal, as one line."""

from itertools import zip_longest

from ..runner.step_result import StepResult

FIELDS = ("reward", "terminated", "truncated", "action_valid", "success", "state_key")
MAX_LINE_CHARS = 100


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
