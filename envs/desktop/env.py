"""An episode on a desktop: what task templates and custom tasks share.

A subclass states how an episode starts (``start_episode``) and whether its end is a success (``check``). Damage that an
action does to the agent's own desktop (a crash, a dialog, an endless loop, a full disk) is an outcome: the observation
reports it.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from ..computer.calls import Action, InvalidAction
from ..computer.driver_client import Steps
from ..computer.elements import in_viewport, render
from ..computer.env import ObservationMode, ScreenEnv, Verdict
from .actions import DONE, FAIL, USAGE, parse, resolve
from .desktop_session import SPEC, DesktopSession, opening
from .task import DesktopTask, EndState, Window

CLICKABLE_ROLES = (
    *("button", "cell", "checkbox", "combobox", "link", "listitem", "menuitem", "menuitemcheckbox", "menuitemradio"),
    *("radio", "row", "switch", "tab", "textbox", "treeitem"),
)


class DesktopEnv(ScreenEnv):
    """The base class of environments on a desktop of 1024 x 768 pixels.

    ``observation`` is ``text``, ``screenshot`` or ``both``; ``marks`` draws the numbers of the elements on screenshots.

    Raises:
        ValueError: an option or, at reset, the split is unknown.
        SandboxError: the sandbox or its driver failed.
    """

    sandbox_memory_mib, sandbox_image = SPEC.memory_mib, SPEC.image
    width, height = 1024, 768
    undo: Sequence[Mapping[str, Any]] | None = None
    """Actions of the driver that undo an episode in place, for applications that then stay open; None: none do."""

    def __init__(self, observation: ObservationMode = "text", marks: bool = False) -> None:
        super().__init__(observation, marks)
        self.desktop = DesktopSession()
        self.current: DesktopTask | None = None
        """The task of the current episode."""

    @property
    def client(self) -> DesktopSession:
        """The desktop."""
        return self.desktop

    def start_episode(self, seed: int, split: str) -> DesktopTask:
        """Draw an instance of the task."""
        raise NotImplementedError(f"{type(self).__name__} does not implement start_episode(seed, split)")

    def check(self, end: EndState) -> bool:
        """Return whether the task is solved."""
        raise NotImplementedError(f"{type(self).__name__} does not implement check(end)")

    def instructions(self) -> str:
        """Return the description of the task and of the actions."""
        usage = "\n".join(USAGE.values())
        return (
            "You control a desktop with a mouse and a keyboard to complete a task. End each turn with one action on "
            f"the last line:\n{usage}"
        )

    def oracle(self) -> str:
        """Return the next action of the task's oracle.

        Raises:
            NotImplementedError: the task has no oracle.
            LookupError: the action names an element that is not in view.
        """
        if self.current is None or self._turn >= len(self.current.oracle):
            raise NotImplementedError(f"the task of `{type(self).__name__}` has no oracle for this turn")
        return resolve(self.current.oracle[self._turn], self.nodes)

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return a click on each element in view, some keys, a text, and the end of the episode, each with a weight."""
        actions: dict[str, float] = {}
        for node in self.nodes:
            if in_viewport(node) and node["role"] in CLICKABLE_ROLES and not {"disabled"} & set(node.get("flags", ())):
                actions[f"click({node['id']})"] = 1.0
        keys = {f'press("{key}")': 0.3 for key in ("Return", "Escape", "Tab", "Down")}
        return [*(actions | keys).items(), ('type("text")', 0.3), (f"{DONE}()", 0.2)]

    def _opening(self, seed: int, split: str) -> Steps:
        self.current = self.start_episode(seed, split)
        return [opening(self.current, self.undo)]

    def _goal(self, answer: Mapping[str, Any]) -> str:
        return self.current.goal if self.current is not None else ""

    def _parse(self, text: str) -> Sequence[Action] | InvalidAction:
        return parse(text)

    def _steps(self, actions: Sequence[Action]) -> Steps:
        ends = _end_of(actions) is not None
        steps = [{"do": "act", "action": one.as_request()} for one in actions if one.verb not in (DONE, FAIL)]
        # Effects of the last actions, such as a saved file, count.
        settle = [{"do": "settle"}] if ends else []
        return [*steps, *settle, self._observe_step() | {"windows": ends}]

    def _verdict(self, actions: Sequence[Action], answer: Mapping[str, Any]) -> Verdict:
        end = _end_of(actions)
        over = end is not None or "broken" in answer
        success = over and self._success(end, answer)
        return Verdict({"success": 1.0} if success else {}, over, success)

    def _success(self, end: Action | None, answer: Mapping[str, Any]) -> bool:
        """Check the world at the end; one that cannot be read is a failure of the agent."""
        world = self.desktop.world()
        if world is None or self.current is None:
            return False
        windows = tuple(
            Window(one["title"], one["application"], tuple(one["rect"]), one["focused"])
            for one in answer.get("windows", ())
        )
        text = str(end.arguments["text"]) if end is not None and end.verb == DONE else ""
        gave_up = end is not None and end.verb == FAIL
        nodes = answer.get("nodes", ())
        return bool(self.check(EndState(self.current, world, windows, nodes, text, gave_up)))

    def _text_with_screenshot(self, answer: Mapping[str, Any]) -> str:
        return render({"notes": answer.get("notes", ())})


def _end_of(actions: Sequence[Action]) -> Action | None:
    """Return the last action if it ends the episode."""
    return actions[-1] if actions and actions[-1].verb in (DONE, FAIL) else None


class CustomDesktopEnv(DesktopEnv):
    """The base class for a desktop task of yours: override ``task`` and ``check``.

        class Rename(CustomDesktopEnv):
            def task(self, seed, split):
                name = random.Random(f"{split} {seed}").choice(["a.txt", "b.txt"])
                return DesktopTask(f"Rename draft.txt to {name}.", ("pcmanfm .",), {"draft.txt": b"hello"}, data=name)

            def check(self, end):
                return set(end.documents) == {end.task.data}

    Each episode gets the files of the task in the home folder, and its applications in fresh processes. There is no
    network. The agent ends the episode with ``done()``, ``done("answer")`` or ``fail()``; then ``check`` runs on the
    host. An episode whose files cannot all be read at the end has failed; ``check`` is not called for it.
    """

    def task(self, seed: int, split: str) -> DesktopTask:
        """Return the task of a seed; ``train`` and ``test`` must not share a task."""
        raise NotImplementedError(f"{type(self).__name__} does not implement task(seed, split)")

    def start_episode(self, seed: int, split: str) -> DesktopTask:
        """Return the task of a seed, checked."""
        task = self.task(seed, split)
        method = f"`{type(self).__name__}.task`"
        if not isinstance(task, DesktopTask):
            raise TypeError(f"{method} must return a DesktopTask, not {task!r:.80}")
        for path, content in task.files.items():
            if not isinstance(content, bytes):
                raise TypeError(f"{method}: the file `{path}` must be bytes, not {type(content).__name__}")
            if path.startswith("/") or ".." in PurePosixPath(path).parts or not path.strip("/"):
                raise ValueError(f"{method}: the file `{path}` is outside of the home folder")
        size, limit = sum(map(len, task.files.values())), (SPEC.disk_mib << 20) // 4
        if size > limit:
            raise ValueError(f"{method}: the files have {size >> 20} MiB; the limit is {limit >> 20} MiB")
        if isinstance(task.applications, str):
            raise TypeError(f"{method}: `applications` must be a tuple of commands, not a string")
        if isinstance(task.oracle, str) or any(isinstance(one, str) for one in task.near_misses):
            raise TypeError(f"{method}: `oracle` and each of `near_misses` must be a tuple of actions, not a string")
        return task
