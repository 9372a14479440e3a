"""``turnwise/TinyCode-v0``: repair a small program in a real sandbox, in few words, for policies trained from scratch.

One or two parts of the program are faulty. Families of tasks:

* **repair**: a part calls the wrong function;
* **set**: a part has the wrong number;
* **write**: a part has both faults.

Only the first observation states the correct words. The agent finds the faulty part by running the program or by
opening parts. Actions: ``run`` (the program, which names the first part that fails), ``open PART``, ``put FIELD WORD``
(into the open part), ``done``. Each of the first three is a command in the sandbox, and the observation shows its
output.

Observations have the form of those of ``turnwise/TextSite-v0``: a list begins with the word that begins the action and
ends with the kind of page. An open part shows each word before its field, so a word follows a field only in the task. A
field that was changed is not listed again.

Reward: 1 for success, determined by the hidden case in a fresh sandbox; -.3 for ``done`` without success; +.2 once each
for opening a faulty part and for each correct word put there; -.05 for an action that does not parse or apply.
"""

import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ....sandbox import SandboxError, SandboxLease, SandboxSpec, Tree
from ...draws import SeededDraws, draw_for, held_out, words
from ...episode import Turn
from ...options import one_of
from ..code.deadlines import end_of_step, left
from ..code.fresh_sandbox import FILE_TIMEOUT_S
from ..code.grading.grade import grade
from ..code.grading.tampering import recorded
from ..code.task import Case, CodeTask
from ..code.workspace_env import WorkspaceEnv
from .base import STEP_REWARD, TinyEnv, end, invalid

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

PROGRAMS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
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
        for wrong in asked if name in faulty else ():
            given[name][wrong] = draws.choice(_others(wrong, right[name][wrong]))
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
    fixed = {"lib": PROGRAMS["lib"].encode(), "main": PROGRAMS["main"].encode(), "wanted": wanted}
    hidden = "".join(f"{answers(name, HIDDEN)}\n" for name in names).encode()
    return CodeTask(
        name=f"tiny-{family}",
        instruction=asked,
        workspace=Tree.of({**fixed, **{name: content(given[name]) for name in names}}),
        cases=(Case(("sh", "-c", PROGRAMS["judge"], "sh", *names), hidden),),
        protected=tuple(fixed),
        solution={name: content(right[name]) for name in names if given[name] != right[name]},
        spec=SPEC,
    )


COMMAND_SECONDS = 10.0
_WORDS = {"call": frozenset(CALLS), "value": frozenset(VALUES)}


@dataclass(frozen=True, slots=True)
class Repair:
    """An episode, without the files in its sandbox."""

    task: TinyTask
    view: str
    open: str = ""
    """The part that is open; empty for none."""
    left: tuple[str, ...] = ()
    """The fields of the open part that were not changed."""
    failing: str | None = None
    """The part that failed in the last run; empty if none did; None before the first run."""
    earned: frozenset[str] = frozenset()
    parts: Mapping[str, str] = field(default_factory=dict)
    """The content of the parts that were opened, by name."""


class TinyCodeEnv(TinyEnv[Repair], WorkspaceEnv[Repair]):
    """Repair a small program, in a closed vocabulary.

    ``family``: ``mix``, or one of ``repair``, ``set``, ``write``.

    Raises:
        ValueError: the family or, at reset, the split is unknown.
        SandboxError: no sandbox can be leased, or it fails.
    """

    name = "turnwise/TinyCode-v0"
    words = VOCABULARY
    sandbox_memory_mib = SPEC.memory_mib

    def __init__(self, family: str = "mix") -> None:
        super().__init__()
        self.family = one_of("family", family, ("mix", *FAMILIES), self.name)

    @property
    def code_task(self) -> CodeTask:
        """The task of the running episode."""
        return self.episode.task.code

    @property
    def state_key(self) -> str:
        """Name the view, the open part and the content of the parts that were opened."""
        seen = ",".join(f"{name}:{held}" for name, held in sorted(self.episode.parts.items())).replace("\n", " ")
        return f"{self.episode.view}|{self.episode.open}|{seen}"

    def _begin(self, seed: int, split: str) -> Turn:
        self.close()
        task = draw(seed, split, self.family)
        extras = self._open(task.code)
        self.episode = Repair(task, " ".join(["open", *task.parts, "home"]))
        return Turn(f"{task.asked} {self.episode.view}", info={"extras": extras})

    def _play(self, action: str) -> Turn:
        assert self._box is not None  # noqa: S101 - an episode without a sandbox is over
        match action.split():
            case ["done"]:
                return self._end(self._box)
            case ["run"]:
                return self._run(self._box)
            case ["open", name] if name in self.episode.task.parts:
                return self._look(self._box, name)
            case ["put", name, word] if self.episode.open and word in _WORDS.get(name, ()):
                return self._put(self._box, name, word)
        return invalid(self.episode.view)

    def _run(self, box: SandboxLease) -> Turn:
        output = _output(box, ["sh", "main"]).split()
        failing = output[0] if output[-1:] == ["fails"] else ""
        view = f"open {failing} fails" if failing else "done pass"
        self.episode = replace(self.episode, view=view, open="", left=(), failing=failing)
        return Turn(view)

    def _look(self, box: SandboxLease, name: str) -> Turn:
        output = _output(box, ["sh", "-c", PROGRAMS["show"], "sh", name])
        steps = [f"found {name}"] if name in self.episode.task.faults else []
        return self._show(replace(self.episode, open=name, left=FIELDS), output, "file", steps)

    def _put(self, box: SandboxLease, name: str, word: str) -> Turn:
        repair = self.episode
        output = _output(box, ["sh", "-c", PROGRAMS["put"], "sh", repair.open, name, word])
        right = repair.task.faults.get(repair.open, {}).get(name) == word
        after = replace(repair, left=tuple(each for each in repair.left if each != name))
        return self._show(after, output, "changed", [f"{name} of {repair.open}"] if right else [])

    def _show(self, repair: Repair, output: str, kind: str, steps: Collection[str]) -> Turn:
        """Return the turn that shows the open part, with the rewards of the ``steps`` that are new."""
        held = dict(line.split("=") for line in output.split())
        view = (
            " ".join(["put", *(f"{held[name]} {name}" for name in repair.left), kind]) if repair.left else f"run {kind}"
        )
        new = [step for step in steps if step not in repair.earned]
        parts = {**repair.parts, repair.open: output}
        self.episode = replace(repair, view=view, parts=parts, earned=repair.earned.union(new))
        return Turn(view, dict.fromkeys(new, STEP_REWARD))

    def _end(self, box: SandboxLease) -> Turn:
        until = end_of_step(self.deadline)
        files = box.read_tree(".", timeout_s=left(until, FILE_TIMEOUT_S))
        self.close()
        verdict = grade(self.episode.task.code, files, until)
        return end(verdict.success, {"extras": {"tamper": recorded(verdict.tamper)} if verdict.tamper else {}})

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return the actions of this page and ``run``, weighted: changes weigh less, ``done`` least."""
        repair, run, done = self.episode, ("run", 1.0), ("done", 0.25)
        if repair.open:
            words = repair.task.words
            return [run, done, *((f"put {name} {word}", 0.5) for name in repair.left for word in words[name])]
        if repair.failing == "":
            return [("done", 1.0), ("run", 0.5)]
        names = [repair.failing] if repair.failing else repair.task.parts
        return [run, done, *((f"open {name}", 1.0) for name in names)]

    def oracle(self) -> str:
        """Return the next correct action of a policy that finds faults only by running the program."""
        repair = self.episode
        if repair.open:
            wanted = repair.task.faults.get(repair.open, {})
            return next((f"put {name} {wanted[name]}" for name in repair.left if name in wanted), "run")
        if repair.failing:
            return f"open {repair.failing}"
        return "run" if repair.failing is None else "done"


def _output(box: SandboxLease, argv: list[str]) -> str:
    """Return the output of a command of the environment. No agent action can make it fail.

    Raises:
        SandboxError: the output is empty or has an unknown word.
    """
    done = box.exec(argv, timeout_s=COMMAND_SECONDS)
    output = done.stdout.decode(errors="replace").strip()
    if not output or not set(output.replace("=", " ").split()) <= set(VOCABULARY):
        raise SandboxError(f"{' '.join(argv)} ended with {done.exit_code}: {output} {done.stderr.decode()!r}"[:300])
    return output
