"""The instances of ``turnwise/TinyCode-v0``: a shell program of a few parts, one or two of which are faulty.

Each part is a file that names a function of the library and a number for it. ``main`` runs every part on two inputs and
compares the results with the file ``wanted``; the hidden case does so with other inputs. An instance is a pure function
of (seed, split, family). As in ``envs.tiny.text_tasks``, the splits share no combination of task and faulty parts.
"""

import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ...sandbox import SandboxSpec, Tree
from ..code.task import Case, CodeTask


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FAMILIES = ("repair", "set", "write")
HELD_OUT_SHARE = 5
"""One combination in this many belongs to the test split."""
TWICE_SHARE = 3
"""One instance in this many has two faulty parts, except in the family ``write``."""
FIELDS = ("call", "value")
OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "plus": lambda one, two: one + two,
    "minus": lambda one, two: one - two,
    "product": lambda one, two: one * two,
    "least": min,
    "most": max,
    "over": lambda one, two: one // two,
}
CALLS = tuple(OPERATIONS)
VALUES = tuple(str(number) for number in range(10, 60))
PARTS = _words("lamp chair desk rug clock vase kettle pan fork plate drill saw hammer rope tent boots")
GRAMMAR = _words("task open run put done home fails pass file changed invalid ended right wrong")
VOCABULARY = GRAMMAR + FAMILIES + FIELDS + CALLS + PARTS + VALUES
SHOWN, HIDDEN = (5, 100_000), (7, 200_000)
"""Inputs of the visible and of the hidden check. One is below every number that a part may hold; the other is so large
that no two numbers or functions give the same result."""
DECOYS = 1
"""Number of wrong words per field among the valid actions."""

LIBRARY = b"""plus() { result=$(($1 + $2)); }
minus() { result=$(($1 - $2)); }
product() { result=$(($1 * $2)); }
least() { if [ $1 -lt $2 ]; then result=$1; else result=$2; fi; }
most() { if [ $1 -gt $2 ]; then result=$1; else result=$2; fi; }
over() { result=$(($1 / $2)); }
"""
MAIN = b"""set -eu
. ./lib
while read -r name first second; do
  . ./$name
  $call 5 $value
  small=$result
  $call 100000 $value
  if [ "$small $result" != "$first $second" ]; then
    echo "$name fails"
    exit 1
  fi
done < wanted
echo pass
"""
JUDGE = """. ./lib
for name; do
  . ./$name
  $call 7 $value
  small=$result
  $call 200000 $value
  echo $small $result
done"""
SPEC = SandboxSpec(memory_mib=96, disk_mib=8, pids=32, inodes=512, read_mib=1, output_kib=16, trusted=True)
"""A small sandbox. It is trusted, because the actions run only harmless commands."""

Part = dict[str, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TinyTask:
    """One instance."""

    family: str
    asked: str
    """The task, as in the first observation."""
    parts: tuple[str, ...]
    """Names of the parts, in the order in which ``main`` runs them."""
    faults: dict[str, Part]
    """The correct words of the wrong fields, by the name of the faulty part."""
    words: dict[str, tuple[str, ...]]
    """The words among the valid actions, by field."""
    code: CodeTask


def content(part: Part) -> bytes:
    """Return the content of a part's file."""
    return "".join(f"{field}={part[field]}\n" for field in FIELDS).encode()


def draw(seed: int, split: str, family: str) -> TinyTask:
    """Return the instance of a seed; ``family`` is one of ``FAMILIES``, or ``mix`` to draw it from the seed."""
    rng = random.Random(f"{split} {seed} {family}")  # noqa: S311 - a game, not a secret
    chosen = FAMILIES[int(rng.random() * len(FAMILIES))] if family == "mix" else family
    while True:
        task = _build(rng, chosen)
        key = " ".join([task.asked, *sorted(task.faults)])
        if (zlib.crc32(key.encode()) % HELD_OUT_SHARE == 0) == (split == "test"):
            return task


def _build(rng: random.Random, family: str) -> TinyTask:
    names = _pick(rng, PARTS, 2 + int(rng.random() * 3))
    (call,), (value,) = _pick(rng, CALLS, 1), _pick(rng, VALUES, 1)
    asked = {"repair": {"call": call}, "set": {"value": value}, "write": {"call": call, "value": value}}[family]
    count = 2 if family != "write" and rng.random() * TWICE_SHARE < 1 else 1
    right, given = dict[str, Part](), dict[str, Part]()
    faulty = _pick(rng, names, count)
    for name in names:
        (other,), (number,) = _pick(rng, CALLS, 1), _pick(rng, VALUES, 1)
        right[name] = {"call": other, "value": number}
        if name in faulty:
            right[name] |= asked
        given[name] = dict(right[name])
        for field in asked if name in faulty else ():
            options = CALLS if field == "call" else VALUES
            (given[name][field],) = _pick(rng, tuple(word for word in options if word != right[name][field]), 1)
    words = {field: _listed(rng, field, asked.get(field)) for field in FIELDS}
    text = " ".join(["task", family, *(f"{field} {word}" for field, word in asked.items())])
    faults = {name: dict(asked) for name in names if name in faulty}
    return TinyTask(family, text, names, faults, words, _code(family, text, names, given, right))


def _listed(rng: random.Random, field: str, asked: str | None) -> tuple[str, ...]:
    options = CALLS if field == "call" else VALUES
    picked = _pick(rng, tuple(word for word in options if word != asked), DECOYS)
    return _pick(rng, (asked, *picked), DECOYS + 1) if asked else picked


def _code(family: str, asked: str, names: Sequence[str], given: dict[str, Part], right: dict[str, Part]) -> CodeTask:
    def answers(name: str, inputs: tuple[int, int]) -> str:
        part = right[name]
        return " ".join(str(OPERATIONS[part["call"]](one, int(part["value"]))) for one in inputs)

    wanted = "".join(f"{name} {answers(name, SHOWN)}\n" for name in names).encode()
    fixed = {"lib": LIBRARY, "main": MAIN, "wanted": wanted}
    hidden = "".join(f"{answers(name, HIDDEN)}\n" for name in names).encode()
    return CodeTask(
        name=f"tiny-{family}",
        instruction=asked,
        workspace=Tree.of({**fixed, **{name: content(given[name]) for name in names}}),
        cases=(Case(("sh", "-c", JUDGE, "sh", *names), hidden),),
        protected=tuple(fixed),
        solution={name: content(right[name]) for name in names if given[name] != right[name]},
        spec=SPEC,
    )


def _pick(rng: random.Random, options: tuple[T, ...], count: int) -> tuple[T, ...]:
    pool = list(options)
    return tuple(pool.pop(int(rng.random() * len(pool))) for _ in range(count))
