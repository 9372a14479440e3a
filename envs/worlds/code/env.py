"""``turnwise/Code-v0``: repair, write or change something in a small repository, with a shell, and submit it.

``grading`` scores the submitted files in a fresh sandbox: 1 if every hidden check passes, else 0. With ``step_reward``
each turn also earns the change in the share of passing checks; the sum over the turns is the final share less the
first. ``info["extras"]["tamper"]`` lists tampering; it costs ``tamper_cost``, by default 0, because tampering does not
reach the grader. ``info["extras"]["left_out"]`` lists what the graded files lack, such as named pipes and caches.

If the agent breaks its sandbox, the episode ends and the files last read are graded. If something outside ends it,
``SandboxLost`` is raised at every stage. An agent that slows a step or its
grading down gets an outcome before the step times out (``deadlines``). A sandbox that cannot be leased, or fails in
grading, raises ``SandboxError``.

A snapshot holds the files of the sandbox, not its processes (``workspace_env``): a state in which a process of the
agent runs has no snapshot.
"""

import contextlib
from dataclasses import dataclass, replace
from time import monotonic

from ....sandbox import FileError, SandboxBroken, SandboxError, Tree
from ...episode import Turn
from ...spaces import FreeText
from .deadlines import ACTION_SHARE, end_of_step, latest_grading, left
from .fresh_sandbox import FILE_TIMEOUT_S
from .grading import Verdict
from .grading.grade import grade
from .grading.tampering import recorded
from .instances import MIX, Instances
from .oracle import next_action
from .submission import Submission, collect_submission
from .task import CodeTask
from .tools.actions import MalformedAction, Submit, parse
from .tools.execute import ActionResult, act, bounded, listing
from .workspace_env import WorkspaceEnv

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
class Work:
    """An episode, without its sandbox."""

    task: CodeTask
    files: Tree
    """The files that were last read."""
    digest: str
    judged: Tree
    """The files that were last graded."""
    share: float = 0.0
    """The share of their checks that pass."""


class CodeEnv(WorkspaceEnv[Work]):
    """Repair a repository through a shell and an editor, judged by hidden checks.

    ``family``: ``mix`` or one of ``instances.FAMILIES``; ``folder``: custom tasks.
    Costs are subtracted: ``turn_cost`` per turn, ``invalid_cost`` per action that does not parse or apply.
    ``trusted`` marks the policy as harmless, so that a local sandbox is allowed. ``max_chars`` bounds observations.

    Raises:
        ValueError: the family or, at reset, the split is unknown.
        BadTask: the folder contains no task.
        SandboxError: at reset or in grading, no sandbox can be leased or it fails.
    """

    deterministic = False

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
        self.action_space = FreeText(words=WORDS)
        self.observation_space = FreeText(2 * max_chars + 100, words=WORDS)

    @property
    def code_task(self) -> CodeTask:
        """The task of the running episode."""
        return self.episode.task

    @property
    def state_key(self) -> str:
        """Name the files."""
        return self.episode.digest[:16]

    def instructions(self) -> str:
        """Return the description of the tools."""
        return INSTRUCTIONS

    def _begin(self, seed: int, split: str) -> Turn:
        self.close()
        task = self._instances.draw(seed, split)
        task = replace(task, spec=task.spec.model_copy(update={"trusted": self._trusted}))
        extras = {"task": task.name, **self._open(task)}
        self.episode = Work(task, task.workspace, "", task.workspace)
        self._read(monotonic() + FILE_TIMEOUT_S)
        files = self.episode.files
        share = grade(task, files).share if self._step_reward else 0.0
        self.episode = replace(self.episode, judged=files, share=share)
        text = f"{task.instruction}\n\nFiles:\n{listing(task.workspace)}"
        return Turn(bounded(text, 2 * self._max_chars), info={"extras": extras})

    def _play(self, action: str) -> Turn:
        assert self._box is not None  # noqa: S101 - an episode without a sandbox is over
        task = self.episode.task
        try:
            request = parse(action)
        except MalformedAction as error:
            return self._continue(str(error), False, None)
        until, submitted, done = end_of_step(self.deadline), None, ActionResult("")
        latest = latest_grading(until)
        try:
            if isinstance(request, Submit):
                submitted = collect_submission(self._box, task.workspace, until)
            else:
                seconds = min(task.command_seconds, ACTION_SHARE * left(until))
                done = act(self._box, request, seconds, self._max_chars)
                self._read(until)
        except (SandboxBroken, FileError) as error:
            files = self.episode.files if monotonic() < latest else None
            lost = Submission(files, (f"the sandbox broke: {error}"[:200],))
            return self._end(lost, "the sandbox broke", until)
        except SandboxError:
            # Something outside the sandbox ended it: the episode fails, and is not graded.
            self.close()
            raise
        # Outside of the `try`: the agent does not cause the failures of a grading.
        if submitted is not None:
            return self._end(submitted, "submitted", until)
        return self._continue(done.text, done.applied, until if monotonic() < latest else None)

    def check_trainable(self) -> None:
        """Check that the agent cannot forge the verdict of any task of the split ``train``. Raises NotTrainable."""
        self._instances.check_trainable()

    def oracle(self) -> str:
        """Return the action that puts the next entry of the solution in place, then ``submit``."""
        task = self.episode.task
        if task.solution is None:
            raise NotImplementedError(f"task {task.name} has no solution/")
        return next_action(self.episode.files, task.workspace, task.solution)

    def _continue(self, text: str, valid: bool, until: float | None) -> Turn:
        """Return a turn that does not end the episode; its files are graded unless ``until`` is None."""
        work, parts = self.episode, self._cost(valid)
        if self._step_reward and work.files != work.judged and until is not None:
            self._progress(grade(work.task, work.files, until), parts)
        return Turn(bounded(text, self._max_chars), parts, valid)

    def _end(self, submitted: Submission, how: str, until: float) -> Turn:
        """Grade. Release the agent's sandbox first, so that grading in a full pool does not deadlock."""
        self.close()
        verdict = Verdict(0, 1)
        if submitted.files is not None:
            self.episode = replace(self.episode, files=submitted.files)
            verdict = grade(self.episode.task, submitted.files, until)
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
        text = f"{how}: {'every check passes' if verdict.success else 'a check fails'}"
        return Turn(text, parts, over=True, success=verdict.success, info={"extras": extras})

    def _progress(self, verdict: Verdict, parts: dict[str, float]) -> None:
        parts["passing"] = verdict.share - self.episode.share
        self.episode = replace(self.episode, share=verdict.share, judged=self.episode.files)

    def _cost(self, valid: bool) -> dict[str, float]:
        parts = {"turn": -self._costs["turn"]} if self._costs["turn"] else {}
        if not valid and self._costs["invalid"]:
            parts["invalid"] = -self._costs["invalid"]
        return parts

    def _read(self, until: float) -> None:
        """Read the files of the work folder if they changed; keep the earlier ones if they exceed the read limit."""
        assert self._box is not None  # noqa: S101 - an episode without a sandbox is over
        work = self.episode
        with contextlib.suppress(FileError):
            digest, found = self._box.read_changes(".", work.digest, timeout_s=left(until, FILE_TIMEOUT_S))
            self.episode = replace(work, digest=digest, files=work.files if found is None else found)
