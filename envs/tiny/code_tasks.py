"""The instances of ``turnwise/TinyCode-v0``: a shell program of a few parts, one or two of which are faulty.

Each part is a file that names a function of the library and a number for it. ``main`` runs every part on two inputs and
compares the results with the file ``wanted``; the hidden case does so with other inputs. An instance is a pure function
of (seed, split, family). The splits share no combination of task and faulty parts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...sandbox import SandboxSpec, Tree
from ..code.task import Case, CodeTask
from ..draws import SeededDraws, draw_for, held_out, words

FAMILIES = ("repair", "set", "write")
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
PARTS = words("lamp chair desk rug clock vase kettle pan fork plate drill saw hammer rope tent boots")
GRAMMAR = words("task open run put done home fails pass file changed invalid ended right wrong")
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
    draws = SeededDraws(f"{split} {seed} {family}")
    chosen = draws.choice(FAMILIES) if family == "mix" else family

    def task() -> tuple[TinyTask, bool]:
        drawn = _build(draws, chosen)
        return drawn, held_out(" ".join([drawn.asked, *sorted(drawn.faults)]))

    return draw_for(split, task)


def _build(draws: SeededDraws, family: str) -> TinyTask:
    names = draws.sample(PARTS, draws.integer(2, 4))
    call, value = draws.choice(CALLS), draws.choice(VALUES)
    asked = {"repair": {"call": call}, "set": {"value": value}, "write": {"call": call, "value": value}}[family]
    faulty = draws.sample(names, 2 if family != "write" and draws.chance(1 / TWICE_SHARE) else 1)
    right, given = dict[str, Part](), dict[str, Part]()
    for name in names:
        right[name] = {"call": draws.choice(CALLS), "value": draws.choice(VALUES)}
        if name in faulty:
            right[name] |= asked
        given[name] = dict(right[name])
        for field in asked if name in faulty else ():
            given[name][field] = draws.choice(_others(field, right[name][field]))
    words = {field: _listed(draws, field, asked.get(field)) for field in FIELDS}
    text = " ".join(["task", family, *(f"{field} {word}" for field, word in asked.items())])
    faults = {name: dict(asked) for name in names if name in faulty}
    return TinyTask(family, text, names, faults, words, _code(family, text, names, given, right))


def _listed(draws: SeededDraws, field: str, asked: str | None) -> tuple[str, ...]:
    picked = draws.sample(_others(field, asked), DECOYS)
    return draws.shuffled((asked, *picked)) if asked else picked


def _others(field: str, word: str | None) -> tuple[str, ...]:
    """Return the words of a field without one of them."""
    return tuple(each for each in (CALLS if field == "call" else VALUES) if each != word)


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
