"""``turnwise/Code-v0``: repair, write or change something in a small repository, with a shell, and submit it.

``grading`` scores the submitted files in a fresh sandbox: 1 if every hidden check passes, else 0. With ``step_reward``
each turn also earns the change in the share of passing checks; the sum over the turns is the final share less the
first. ``info["extras"]["tamper"]`` lists tampering; it costs ``tamper_cost``, by default 0, because tampering does not
reach the grader. ``info["extras"]["left_out"]`` lists what the graded files lack, such as named pipes and caches.

If the agent breaks its sandbox, the episode ends and the files last read are graded. If something outside ends it,
``SandboxLost`` is raised at every stage. An agent that slows a step or its
grading down gets an outcome before the step times out (``deadlines``). A sandbox that cannot be leased, or fails in
grading, raises ``SandboxError``.

A snapshot holds the files of the sandbox, not its processes (``workspace_snapshot``): a state in which a process of the
agent runs has no snapshot.
"""

import contextlib
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from ...sandbox import FileError, SandboxBroken, SandboxError, SandboxLease, Tree
from ..base import Info, Obs, TurnEnv
from ..spaces import FreeText
from .deadlines import ACTION_SHARE, end_of_step, latest_grading, left
from .fresh_sandbox import FILE_TIMEOUT_S, open_sandbox, sandbox_extras
from .grading.grade import Verdict, grade
from .grading.pytest_host import prepare_tests
from .grading.record import recorded
from .instances import MIX, Instances
from .oracle import next_action
from .submission import Submission, collect_submission
from .task import CodeTask
from .tools.actions import MalformedAction, Submit, parse
from .tools.execute import ActionResult, act, bounded, listing
from .workspace_snapshot import pack, unpack

INSTRUCTIONS = """You work in a repository, through one tool call a turn. The first line of your answer names the tool:
bash COMMAND            run a command, or the script on the lines below it
view PATH [FIRST LAST]  show a file with line numbers, or list a folder
edit PATH               followed by one or more blocks of
<<<<<<<
old lines: whole lines, which occur exactly once
=======
new lines
>>>>>>>                 (more of each mark if the lines hold such marks)
write PATH              followed by the whole new content
submit                  when you are done: the files are judged by checks you do not see"""
WORDS = ("bash", "ls", "cat", "view", ".", "README.md", "submit", "echo", "python3")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a running episode."""

    task: CodeTask
    files: Tree
    digest: str
    judged: Tree
    share: float
    archive: bytes
    """The files of the sandbox."""


class CodeEnv(TurnEnv):
    """A repository with a shell. ``family``: ``mix`` or one of ``families.FAMILIES``; ``folder``: custom tasks instead.

    Costs are subtracted: ``turn_cost`` per turn, ``invalid_cost`` per action that does not parse or apply.
    ``trusted`` marks the policy as harmless, so that a local sandbox is allowed. ``max_chars`` bounds observations.

    Raises:
        ValueError: the family or, at reset, the split is unknown.
        BadTask: the folder contains no task.
        SandboxError: at reset or in grading, no sandbox can be leased or it fails.
    """

    deterministic = False
    sandboxed = True
    restorable = True

    def __init__(
        self,
        family: str = MIX,
        folder: str | None = None,
        step_reward: bool = False,
        turn_cost: float = 0.0,
        invalid_cost: float = 0.0,
        tamper_cost: float = 0.0,
        max_chars: int = 4000,
        trusted: bool = False,
    ) -> None:
        self._instances = Instances(family, folder)
        self._step_reward = step_reward
        self._costs = {"turn": turn_cost, "invalid": invalid_cost, "tamper": tamper_cost}
        self._max_chars = max_chars
        self._trusted = trusted
        self._box: SandboxLease | None = None
        self._task: CodeTask | None = None
        self._over = True
        self.action_space = FreeText(words=WORDS)
        self.observation_space = FreeText(2 * max_chars + 100, words=WORDS)

    @property
    def task(self) -> CodeTask:
        """Return the current instance.

        Raises:
            RuntimeError: before the first reset.
        """
        if self._task is None:
            raise RuntimeError("`turnwise/Code-v0` was stepped before its first reset; call `reset` first")
        return self._task

    def instructions(self) -> str:
        """Return the description of the tools."""
        return INSTRUCTIONS

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Lease a clean sandbox with the workspace of the task of this seed."""
        super().reset(seed=seed)
        self.close()
        number = int(self.np_random.integers(2**31)) if seed is None else seed
        task = self._instances.draw(number, (options or {}).get("split", "train"))
        self._task = replace(task, spec=task.spec.model_copy(update={"trusted": self._trusted}))
        if task.tests:
            prepare_tests(self._task)
        self._box = open_sandbox(self._task.spec, task.workspace)
        self._files, self._digest = task.workspace, ""
        self._read(self._box, monotonic() + FILE_TIMEOUT_S)
        self._over = False
        self._judged = self._files
        self._share = grade(self._task, self._files).share if self._step_reward else 0.0
        text = f"{task.instruction}\n\nFiles:\n{listing(task.workspace)}"
        return bounded(text, 2 * self._max_chars), self._info(True, {}) | {
            "extras": {"task": task.name, **sandbox_extras(self._box)}
        }

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """Parse the text of an action, run the action, and return Gymnasium's five values."""
        task = self.task
        if self._over or self._box is None:
            return "the episode is over", 0.0, True, False, self._info(False, {})
        try:
            asked = parse(action)
        except MalformedAction as error:
            return self._turn(str(error), False, None)
        until, submitted, done = end_of_step(self.deadline), None, ActionResult("")
        latest = latest_grading(until)
        try:
            if isinstance(asked, Submit):
                submitted = collect_submission(self._box, task.workspace, until)
            else:
                seconds = min(task.command_seconds, ACTION_SHARE * left(until))
                done = act(self._box, asked, seconds, self._max_chars)
                self._read(self._box, until)
        except (SandboxBroken, FileError) as error:
            files = self._files if monotonic() < latest else None
            lost = Submission(files, (f"the sandbox broke: {error}"[:200],))
            return self._end(lost, "the sandbox broke", until)
        except SandboxError:
            # Something outside the sandbox ended it: the episode fails, and is not graded.
            self._over = True
            self.close()
            raise
        # Outside of the `try`: the agent does not cause the failures of a grading.
        if submitted is not None:
            return self._end(submitted, "submitted", until)
        return self._turn(done.text, done.applied, until if monotonic() < latest else None)

    def check_trainable(self) -> None:
        """Check that no task of the split ``train`` has hidden tests, except ``trusted`` tasks. Raises NotTrainable."""
        self._instances.check_trainable()

    def snapshot(self) -> Snapshot | None:
        """Return the files of the sandbox and the progress; None if the episode is over or has no snapshot now."""
        archive = pack(self._box) if self._box is not None else None
        if archive is None:
            return None
        return Snapshot(self.task, self._files, self._digest, self._judged, self._share, archive)

    def restore(self, snapshot: Snapshot) -> None:
        """Continue the episode of a snapshot in a fresh sandbox.

        Raises:
            SandboxError: no sandbox can be leased, or it fails.
        """
        self.close()
        self._task, self._files, self._digest = snapshot.task, snapshot.files, snapshot.digest
        self._judged, self._share = snapshot.judged, snapshot.share
        if snapshot.task.tests:
            prepare_tests(snapshot.task)
        self._box = unpack(snapshot.task.spec, snapshot.archive)
        self._over = False

    def close(self) -> None:
        """Release the sandbox."""
        box, self._box = self._box, None
        if box is not None:
            box.release()

    def oracle(self) -> str:
        """Return the action that puts the next entry of the solution in place, then ``submit``."""
        if self.task.solution is None:
            raise NotImplementedError(f"task {self.task.name} has no solution/")
        return next_action(self._files, self.task.workspace, self.task.solution)

    def _turn(self, text: str, valid: bool, until: float | None) -> tuple[Obs, float, bool, bool, Info]:
        """Return the result of a turn that does not end the episode; its files are graded unless ``until`` is None."""
        parts = self._cost(valid)
        if self._step_reward and self._files != self._judged and until is not None:
            self._progress(grade(self.task, self._files, until), parts)
        return bounded(text, self._max_chars), sum(parts.values()), False, False, self._info(valid, parts)

    def _end(self, submitted: Submission, how: str, until: float) -> tuple[Obs, float, bool, bool, Info]:
        """Grade. Release the agent's sandbox first, so that grading in a full pool does not deadlock."""
        self._over = True
        self.close()
        verdict = Verdict(0, 1)
        if submitted.files is not None:
            self._files = submitted.files
            verdict = grade(self.task, submitted.files, until)
        tamper = recorded([*submitted.tamper, *verdict.tamper])
        parts = self._cost(valid=True)
        parts["success"] = float(verdict.success)
        if self._step_reward:
            self._progress(verdict, parts)
        if tamper:
            parts["tamper"] = 0.0 - self._costs["tamper"]
        extras = {"tamper": tamper} if tamper else {}
        if left_out := recorded([*submitted.left_out, *verdict.left_out]):
            extras["left_out"] = left_out
        if verdict.timed_out:
            extras["timed_out"] = ["grading"]
        info = self._info(True, parts) | {"success": verdict.success, "extras": extras}
        text = f"{how}: {'every check passes' if verdict.success else 'a check fails'}"
        return text, sum(parts.values()), True, False, info

    def _progress(self, verdict: Verdict, parts: dict[str, float]) -> None:
        parts["passing"] = verdict.share - self._share
        self._share, self._judged = verdict.share, self._files

    def _cost(self, valid: bool) -> dict[str, float]:
        parts = {"turn": -self._costs["turn"]} if self._costs["turn"] else {}
        if not valid and self._costs["invalid"]:
            parts["invalid"] = -self._costs["invalid"]
        return parts

    def _info(self, valid: bool, parts: dict[str, float]) -> Info:
        key = self._digest[:16]
        return {"action_valid": valid, "state_key": key, "env_error": None, "success": False, "reward_parts": parts}

    def _read(self, box: SandboxLease, until: float) -> None:
        """Read the files of the work folder if they changed; keep the earlier ones if they exceed the read limit."""
        with contextlib.suppress(FileError):
            self._digest, found = box.read_changes(".", self._digest, timeout_s=left(until, FILE_TIMEOUT_S))
            self._files = self._files if found is None else found
