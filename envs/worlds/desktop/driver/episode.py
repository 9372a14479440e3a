"""One episode's applications, and the reset between episodes: in place where that is exact, else a new session."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from .accessibility.accessibles import Reader
from .accessibility.tree import Node, Numbers, Tree
from .baseline import Baseline
from .deadline import Timeout
from .errors import DesktopLost
from .screen import Screen
from .session import OPEN_HOLD_S, Session, settle

LOG = logging.getLogger(__name__)
"""Warnings go to stderr, which is a file of the sandbox."""

WINDOW_TIMEOUT_S = 8.0
"""Time for an application to show a window."""
CLOSE_TIMEOUT_S = 2.0
OPEN_SETTLE_TIMEOUT_S = 5.0
POLL_INTERVAL_S = 0.003


Execute = Callable[["Episode", dict[str, Any]], None]
"""Executes an action and waits for its effects."""


class Episode:
    """The present episode; ``begin`` starts the next one."""

    def __init__(self, session: Session, execute: Execute) -> None:
        self.session = session
        self.execute = execute
        self.numbers = Numbers()
        self.notes: list[str] = []
        self.last_click: tuple[int, int, str] | None = None
        self.last_click_s = 0.0
        self.baseline: Baseline
        self.reader: Reader
        self._opened: dict[str, Any] = {}
        self._start: tuple[Any, ...] = ()
        """The state that an episode restored in place must have."""

    @property
    def screen(self) -> Screen:
        """The screen of the session."""
        return self.session.screen

    def start_session(self) -> None:
        """Start a session, or replace it by a new one."""
        self.session.start()
        self._opened = {}
        self.reader = Reader(self.session.bus)
        settle(self.session, OPEN_SETTLE_TIMEOUT_S)
        self.baseline = Baseline(self.screen)
        self.session.user.call("complete")

    def begin(self, opened: dict[str, Any]) -> None:
        """Start an episode: its files, its settings and its applications.

        ``opened`` may hold ``applications`` (shell commands), ``files`` (base64 by path), ``settings`` (by schema and
        key), ``undo``: actions that undo what an episode did to applications that stay open, if that is exact, and
        ``prepare``: actions before the first observation. A ``name`` in these actions, a role and a name, stands for
        the number of the first such element.

        Raises:
            DesktopLost: the session does not start, or an application shows no window.
        """
        self._open({name: value for name, value in opened.items() if name != "prepare"})
        if opened.get("prepare"):
            if missing := self._do(opened["prepare"]):
                raise DesktopLost(f"the start of the task needs the element {missing}, which no application shows")
            self.forget()

    def _open(self, opened: dict[str, Any]) -> None:
        undo = opened.get("undo")
        if undo is not None and opened == self._opened and self._restored(undo):
            return
        self._opened = {}
        self.clean()
        self.session.user.call("write_home", opened.get("files", {}), opened.get("settings", {}))
        self.forget()
        for command in opened.get("applications", ()):
            self._launch(command)
        self.screen.move(self.screen.width - 1, self.screen.height - 1)
        settle(self.session, OPEN_SETTLE_TIMEOUT_S, OPEN_HOLD_S)
        self._opened = opened
        if undo is not None:
            # So that an episode in new processes begins exactly as one in those of an earlier episode.
            self._do(undo)
            self._start = self._state()
            self.forget()

    def forget(self) -> None:
        """Forget the numbers, notes and clicks of the previous episode."""
        self.numbers, self.notes, self.last_click = Numbers(), [], None
        self.session.crashes.clear()

    def clean(self) -> None:
        """End all applications and undo everything that an episode left; replace the session if that is not exact."""
        user = self.session.user
        left = user.call("end_applications")
        self.reader.pids.clear()
        try:
            self.session.check()
            self.screen.release_input()
            self.screen.move(self.screen.width - 1, self.screen.height - 1)
            until = monotonic() + CLOSE_TIMEOUT_S
            while not left and (differences := self.baseline.differences(self.screen)):
                if monotonic() > until:
                    left += differences
                sleep(POLL_INTERVAL_S)
        except (OSError, DesktopLost) as error:
            left.append(str(error))
        left += user.call("restore_files")
        if left:
            LOG.warning("the session is replaced: %s", "; ".join(left))
            self.start_session()
            # The window manager writes into the home folder when it starts.
            user.call("restore_files")

    def observe(self) -> list[Node]:
        """Return the nodes of the desktop."""
        found, hung = self.reader.applications()
        windows = self.screen.windows()
        names = {window.pid: window.application for window in windows}
        for pid in hung:
            self.notes.append(f"{names.get(pid, 'an application')} does not respond")
        return Tree(self.numbers, windows, self.screen.width, self.screen.height).build(found)

    def _restored(self, actions: list[dict[str, Any]]) -> bool:
        """Undo the previous episode by actions; return whether everything is as it was at its start."""
        self.screen.release_input()
        self._do(actions)
        state = self._state()
        exact = state == self._start
        if not exact:
            names = ("elements", "pixels", "other programs", "processes", "home folder", "temporary files")
            differing = [name for name, one, other in zip(names, state, self._start, strict=True) if one != other]
            LOG.warning("applications start again; other than at the start: %s", ", ".join(differing))
        self.forget()
        return exact

    def _do(self, actions: list[dict[str, Any]]) -> str:
        """Execute actions that may name elements; stop at one whose element is missing, and return that element."""
        self.observe()
        for action in actions:
            named = {}
            if "name" in action:
                nodes = self.numbers.nodes.values()
                found = [node["id"] for node in nodes if (node["role"], node["name"]) == tuple(action["name"])]
                if not found:
                    return " ".join(map(repr, action["name"]))
                named["id"] = found[0]
            self.execute(self, {**action, **named})
        self.screen.move(self.screen.width - 1, self.screen.height - 1)
        settle(self.session)
        return ""

    def _state(self) -> tuple[Any, ...]:
        """Return everything that tells a fresh episode from a used one."""
        self.numbers = Numbers()
        nodes = self.observe()
        return nodes, bytes(self.screen.capture.take()), *self.session.user.call("state")

    def _launch(self, command: str) -> None:
        known = {window.id for window in self.screen.windows()}
        self.session.user.call("launch", command)
        timeout = Timeout(WINDOW_TIMEOUT_S)
        while not [window for window in self.screen.windows() if window.id not in known]:
            self.session.check()
            if timeout.left_s() <= 0:
                raise DesktopLost(f"`{command}` showed no window within {WINDOW_TIMEOUT_S:g} s")
            sleep(POLL_INTERVAL_S)
        settle(self.session, OPEN_SETTLE_TIMEOUT_S)
