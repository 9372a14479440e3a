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

from dataclasses import dataclass
from typing import Any

from ...sandbox import SandboxError, SandboxLease
from ..base import Info, Obs, TurnEnv, seed_and_split
from ..spaces import FreeText
from ..code.deadlines import end_of_step, left
from ..code.fresh_sandbox import FILE_TIMEOUT_S, open_sandbox, sandbox_extras
from ..code.grading.grade import grade
from ..code.grading.record import recorded
from ..code.workspace_snapshot import pack, unpack
from .code_tasks import CALLS, FAMILIES, FIELDS, SPEC, VALUES, VOCABULARY, TinyTask, draw

STEP_REWARD = 0.2
WRONG = -0.3
INVALID = -0.05
MAX_CHARS = 400
COMMAND_SECONDS = 10.0
SHOW = 'while read -r line; do echo "$line"; done < "$1"'
PUT = """. "./$1"
case $2 in call) call=$3 ;; value) value=$3 ;; esac
say() { printf 'call=%s\\nvalue=%s\\n' "$call" "$value"; }
say > "$1"
say"""
"""Shell built-ins only: another process would double the time of a turn."""

_WORDS = {"call": frozenset(CALLS), "value": frozenset(VALUES)}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a running episode."""

    task: TinyTask
    view: str
    open: str
    left: tuple[str, ...]
    failing: str | None
    earned: frozenset[str]
    parts: tuple[tuple[str, str], ...]
    archive: bytes
    """The files of the sandbox."""


class TinyCodeEnv(TurnEnv):
    """A small program with faults. ``family``: ``mix``, or one of ``repair``, ``set``, ``write``.

    Raises:
        ValueError: the family or, at reset, the split is unknown.
        SandboxError: no sandbox can be leased, or it fails.
    """

    sandboxed = True
    sandbox_memory_mib = SPEC.memory_mib
    restorable = True

    def __init__(self, family: str = "mix") -> None:
        if family != "mix" and family not in FAMILIES:
            raise ValueError(
                f"unknown family {family!r} of turnwise/TinyCode-v0; choose from mix, {', '.join(FAMILIES)}"
            )
        self.family = family
        self.action_space = FreeText(words=VOCABULARY)
        self.observation_space = FreeText(MAX_CHARS, words=VOCABULARY)
        self._task: TinyTask | None = None
        self._box: SandboxLease | None = None

    @property
    def task(self) -> TinyTask:
        """Return the current instance.

        Raises:
            RuntimeError: before the first reset.
        """
        if self._task is None:
            raise RuntimeError("`turnwise/TinyCode-v0` was stepped before its first reset; call `reset` first")
        return self._task

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Draw an instance of ``options["split"]`` (default ``train``) and put it into a clean sandbox."""
        super().reset(seed=seed)
        self.close()
        number, split = seed_and_split(self, seed, options)
        self._task = draw(number, split, self.family)
        self._open = ""
        self._left: list[str] = []
        self._failing: str | None = None
        self._earned: set[str] = set()
        self._parts: dict[str, str] = {}
        self._box = open_sandbox(self._task.code.spec, self._task.code.workspace)
        self._view = " ".join(["open", *self._task.parts, "home"])
        return f"{self._task.asked} {self._view}", self._info(True, {}) | {"extras": sandbox_extras(self._box)}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """Apply one action's text."""
        task = self.task
        parts: dict[str, float] = {}
        if self._box is None:
            return "ended", 0.0, True, False, self._info(False, {})
        match action.split():
            case ["done"]:
                return self._end(self._box)
            case ["run"]:
                self._view = self._run(self._box)
            case ["open", name] if name in task.parts:
                self._view = self._look(self._box, name, parts)
            case ["put", field, word] if self._open and word in _WORDS.get(field, ()):
                self._view = self._put(self._box, field, word, parts)
            case _:
                parts["invalid"] = INVALID
        valid = "invalid" not in parts
        text = self._view if valid else f"invalid {self._view}"
        return text, sum(parts.values()), False, False, self._info(valid, parts)

    def snapshot(self) -> Snapshot | None:
        """Return the files of the sandbox and the progress; None if the episode is over."""
        archive = pack(self._box) if self._box is not None else None
        if archive is None:
            return None
        left, earned, parts = tuple(self._left), frozenset(self._earned), tuple(self._parts.items())
        return Snapshot(self.task, self._view, self._open, left, self._failing, earned, parts, archive)

    def restore(self, snapshot: Snapshot) -> None:
        """Continue the episode of a snapshot in a fresh sandbox.

        Raises:
            SandboxError: no sandbox can be leased, or it fails.
        """
        self.close()
        self._task, self._view, self._open = snapshot.task, snapshot.view, snapshot.open
        self._left, self._failing = list(snapshot.left), snapshot.failing
        self._earned, self._parts = set(snapshot.earned), dict(snapshot.parts)
        self._box = unpack(snapshot.task.code.spec, snapshot.archive)

    def close(self) -> None:
        """Release the sandbox."""
        box, self._box = self._box, None
        if box is not None:
            box.release()

    def _run(self, box: SandboxLease) -> str:
        self._open, self._left = "", []
        output = self._output(box, ["sh", "main"]).split()
        self._failing = output[0] if output[-1:] == ["fails"] else ""
        return f"open {self._failing} fails" if self._failing else "done pass"

    def _look(self, box: SandboxLease, name: str, parts: dict[str, float]) -> str:
        self._open, self._left = name, list(FIELDS)
        if name in self.task.faults:
            self._earn(f"found {name}", parts)
        return self._shown(self._output(box, ["sh", "-c", SHOW, "sh", name]), "file")

    def _put(self, box: SandboxLease, field: str, word: str, parts: dict[str, float]) -> str:
        output = self._output(box, ["sh", "-c", PUT, "sh", self._open, field, word])
        self._left = [each for each in self._left if each != field]
        if self.task.faults.get(self._open, {}).get(field) == word:
            self._earn(f"{field} of {self._open}", parts)
        return self._shown(output, "changed")

    def _shown(self, output: str, kind: str) -> str:
        self._parts[self._open] = output
        held = dict(line.split("=") for line in output.split())
        left = [f"{held[field]} {field}" for field in self._left]
        return " ".join(["put", *left, kind]) if left else f"run {kind}"

    def _output(self, box: SandboxLease, argv: list[str]) -> str:
        """Return the output of a command of the environment. No agent action can make it fail.

        Raises:
            SandboxError: the output is empty or has an unknown word.
        """
        done = box.exec(argv, timeout_s=COMMAND_SECONDS)
        output = done.stdout.decode(errors="replace").strip()
        if not output or not set(output.replace("=", " ").split()) <= set(VOCABULARY):
            raise SandboxError(f"{' '.join(argv)} ended with {done.exit_code}: {output} {done.stderr.decode()!r}"[:300])
        return output

    def _earn(self, name: str, parts: dict[str, float]) -> None:
        if name not in self._earned:
            self._earned.add(name)
            parts[name] = STEP_REWARD

    def _end(self, box: SandboxLease) -> tuple[Obs, float, bool, bool, Info]:
        until = end_of_step(self.deadline)
        files = box.read_tree(".", timeout_s=left(until, FILE_TIMEOUT_S))
        self.close()
        verdict = grade(self.task.code, files, until)
        parts = {"success": 1.0} if verdict.success else {"wrong": WRONG}
        extras = {"tamper": recorded(verdict.tamper)} if verdict.tamper else {}
        info = self._info(True, parts) | {"success": verdict.success, "extras": extras}
        return "right" if verdict.success else "wrong", sum(parts.values()), True, False, info

    def _info(self, valid: bool, parts: dict[str, float]) -> Info:
        seen = ",".join(f"{name}:{held}" for name, held in sorted(self._parts.items())).replace("\n", " ")
        key = f"{self._view}|{self._open}|{seen}"
        return {"action_valid": valid, "state_key": key, "env_error": None, "success": False, "reward_parts": parts}

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return the actions of this page and ``run``, weighted: changes weigh less, ``done`` least."""
        task, run, done = self.task, ("run", 1.0), ("done", 0.25)
        if self._open:
            return [run, done, *((f"put {field} {word}", 0.5) for field in self._left for word in task.words[field])]
        if self._failing == "":
            return [("done", 1.0), ("run", 0.5)]
        names = [self._failing] if self._failing else task.parts
        return [run, done, *((f"open {name}", 1.0) for name in names)]

    def oracle(self) -> str:
        """Return the next correct action of a policy that finds faults only by running the program."""
        if self._open:
            wanted = self.task.faults.get(self._open, {})
            for field in self._left:
                if field in wanted:
                    return f"put {field} {wanted[field]}"
            return "run"
        if self._failing:
            return f"open {self._failing}"
        return "run" if self._failing is None else "done"

    def vocabulary(self) -> list[str]:
        """Return the closed set of words of every observation and valid action."""
        return list(VOCABULARY)
