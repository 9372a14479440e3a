"""The base class for a desktop task as an environment: how it starts, and a check of the end.

    class Rename(DesktopEnv):
        def task(self, seed, split):
            name = random.Random(f"{split} {seed}").choice(["a.txt", "b.txt"])
            return DesktopTask(f"Rename draft.txt to {name}.", ("pcmanfm .",), {"draft.txt": b"hello"}, data=name)

        def check(self, end):
            return set(end.documents) == {end.task.data}

Each episode gets the files of the task in the home folder, and its applications in fresh processes. There is no
network. The agent ends the episode with ``done()``, ``done("answer")`` or ``fail()``; then ``check`` runs on the host.
Damage that an action does to the agent's own desktop (a crash, a dialog, an endless loop, a full disk) is an outcome:
the observation reports it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..computer.calls import Action, InvalidAction
from ..computer.driver_client import Steps
from ..computer.elements import in_viewport, render
from ..computer.env import Checked, ObservationMode, ScreenEnv, Verdict, check_files, graded
from .actions import DIALECT, DONE, FAIL, parse
from .desktop_session import HEIGHT, SPEC, WIDTH, DesktopSession, opening
from .task import DesktopTask, EndState, Window

CLICKABLE_ROLES = (
    *("button", "cell", "checkbox", "combobox", "link", "listitem", "menuitem", "menuitemcheckbox", "menuitemradio"),
    *("radio", "row", "switch", "tab", "textbox", "treeitem"),
)


class DesktopEnv(ScreenEnv[DesktopTask]):
    """The base class of environments on a desktop of 1024 x 768 pixels: override ``task`` and ``check``.

    An episode whose files cannot all be read at the end has failed; ``check`` is not called for it. Options and errors
    are those of ``ScreenEnv``. A subclass may set another ``width`` and ``height`` of the display.
    """

    sandbox_memory_mib, sandbox_image = SPEC.memory_mib, SPEC.image
    width, height = WIDTH, HEIGHT

    def __init__(
        self,
        observation: ObservationMode = "text",
        marks: bool = False,
        max_pixels: int | None = None,
        coordinates: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(observation, marks, max_pixels, coordinates)
        self.desktop = DesktopSession(self.width, self.height)

    @property
    def client(self) -> DesktopSession:
        """The desktop."""
        return self.desktop

    def task(self, seed: int, split: str) -> DesktopTask:
        """Return the task of a seed; ``train`` and ``test`` must not share a task."""
        raise NotImplementedError(f"{type(self).__name__} does not implement task(seed, split)")

    def check(self, end: EndState) -> Checked:
        """Return whether the task is solved, or how much of it, as ``graded`` takes it."""
        raise NotImplementedError(f"{type(self).__name__} does not implement check(end)")

    def instructions(self) -> str:
        """Return the description of the task and of the actions."""
        return (
            "You control a desktop with a mouse and a keyboard to complete a task. End each turn with one action on "
            f"the last line:\n{DIALECT.usage}{self._points()}"
        )

    def oracle(self) -> str:
        """Return the next action of the task's ``oracle``; errors are those of ``next_of``."""
        return self.next_of(self.episode.oracle)

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return a click on each element in view, some keys, a text, and the end of the episode, each with a weight."""
        actions: dict[str, float] = {}
        for node in self.nodes:
            if in_viewport(node) and node["role"] in CLICKABLE_ROLES and not {"disabled"} & set(node.get("flags", ())):
                actions[f"click({node['id']})"] = 1.0
        keys = {f'press("{key}")': 0.3 for key in ("Return", "Escape", "Tab", "Down")}
        return [*(actions | keys).items(), ('type("text")', 0.3), (f"{DONE}()", 0.2)]

    def _opening(self, seed: int, split: str) -> Steps:
        self.episode = self._checked(self.task(seed, split))
        return [opening(self.episode)]

    def _checked(self, task: DesktopTask) -> DesktopTask:
        """Return a task. Raises ValueError or TypeError if it is malformed."""
        method = f"`{type(self).__name__}.task`"
        if not isinstance(task, DesktopTask):
            raise TypeError(f"{method} must return a DesktopTask, not {task!r:.80}")
        check_files(method, task.files, "the home folder", (SPEC.disk_mib << 20) // 4)
        if isinstance(task.applications, str):
            raise TypeError(f"{method}: `applications` must be a tuple of commands, not a string")
        if isinstance(task.oracle, str) or any(isinstance(near_miss, str) for near_miss in task.near_misses):
            raise TypeError(f"{method}: `oracle` and each of `near_misses` must be a tuple of actions, not a string")
        return task

    def _goal(self, answer: Mapping[str, Any]) -> str:
        return self.episode.goal

    def _parse(self, text: str) -> Sequence[Action] | InvalidAction:
        return parse(text)

    def _steps(self, actions: Sequence[Action]) -> Steps:
        ends = _end_of(actions) is not None
        steps = [{"do": "act", "action": action.as_request()} for action in actions if action.verb not in (DONE, FAIL)]
        # Effects of the last actions, such as a saved file, count.
        settle = [{"do": "settle"}] if ends else []
        return [*steps, *settle, self._observe_step() | {"windows": ends}]

    def _verdict(self, actions: Sequence[Action], answer: Mapping[str, Any]) -> Verdict:
        end = _end_of(actions)
        over = end is not None or "broken" in answer
        return self._final(end, answer) if over else Verdict()

    def _final(self, end: Action | None, answer: Mapping[str, Any]) -> Verdict:
        """Check the world at the end; one that cannot be read is a failure of the agent."""
        world = self.desktop.world()
        if world is None:
            return Verdict(over=True)
        windows = tuple(
            Window(one["title"], one["application"], tuple(one["rect"]), one["focused"])
            for one in answer.get("windows", ())
        )
        text = str(end.arguments["text"]) if end is not None and end.verb == DONE else ""
        gave_up = end is not None and end.verb == FAIL
        nodes = answer.get("nodes", ())
        checked = self.check(EndState(self.episode, world, windows, nodes, text, gave_up))
        return graded(f"`{type(self).__name__}.check`", checked)

    def _text_with_screenshot(self, answer: Mapping[str, Any]) -> str:
        return render({"notes": answer.get("notes", ())})


def _end_of(actions: Sequence[Action]) -> Action | None:
    """Return the last action if it ends the episode."""
    return actions[-1] if actions and actions[-1].verb in (DONE, FAIL) else None
