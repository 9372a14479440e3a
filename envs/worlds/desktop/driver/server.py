"""Answer requests about the desktop, one at a time, on a unix socket.

A request is a JSON object with ``deadline`` in seconds and ``steps``, executed in order until one fails:

* ``open``: a new episode with its files and applications (``episode.Episode.begin``).
* ``act``: one ``action``; ``refused`` in the answer is the reason if it was not executed.
* ``settle``: wait until the effects of earlier actions are there.
* ``observe``: nodes, windows, notes and, after the line of JSON, the bytes of a PNG. Notes are taken once.

If the steps overrun the deadline, or the X server ends, the applications are ended; ``lost`` in the answer is the
reason, and ``fault`` is ``page`` or ``machine``. ``broken`` is the reason that no new session started, ``failed`` an
error of the driver itself.
"""

from __future__ import annotations

import json
import logging
import socket
from typing import Any

from Xlib.error import ConnectionClosedError, DisplayError, XError

from .act import act
from .deadline import Deadline
from .episode import Episode
from .errors import DeadlineExceeded, DesktopLost, Refused
from .session import Session, UserClient, settle

LOG = logging.getLogger(__name__)

RECOVERY_TIMEOUT_S = 13.0
"""Limit of ending the applications, or of a new session."""
SCREENSHOT_ATTEMPTS = 3
CHUNK_BYTES = 1 << 18
BACKLOG = 8


class Driver:
    """The server of one desktop."""

    def __init__(self, episode: Episode) -> None:
        self.episode = episode

    def serve(self, end: socket.socket) -> None:
        """Answer the one request of a connection."""
        received = bytearray()
        while chunk := end.recv(CHUNK_BYTES):
            received += chunk
        request = json.loads(received)
        answer, png = self.do(request)
        # Titles and texts may contain half of a surrogate pair.
        end.sendall(json.dumps(answer, ensure_ascii=False).encode(errors="replace") + b"\n" + png)

    def do(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Execute the steps within the deadline and return the answer; ``lost`` reports ended applications."""
        answer: dict[str, Any] = {}
        png = b""
        limit = Deadline(request["deadline"])
        try:
            with limit:
                if [step["do"] for step in request["steps"]] == ["observe"]:
                    # Every other step ends with a status of the session.
                    self.episode.session.check()
                for step in request["steps"]:
                    png = self.step(step, answer) or png
        except DeadlineExceeded:
            answer |= {"lost": "the desktop did not respond", "fault": limit.at_fault()}
            LOG.warning("the desktop did not respond; at fault is the %s", answer["fault"])
        except (DesktopLost, OSError, ConnectionClosedError, DisplayError, XError) as error:
            answer |= {"lost": f"the desktop was lost: {str(error)[:200]}", "fault": "page"}
            LOG.warning(answer["lost"], exc_info=True)
        except Exception as error:
            answer["failed"] = f"{type(error).__name__}: {error}"[:300]
            LOG.exception("a step failed")
        if "lost" in answer:
            self.recover(answer)
        return answer, png

    def recover(self, answer: dict[str, Any]) -> None:
        """End all applications in a new session; ``broken`` in the answer is the reason that none started."""
        limit = Deadline(RECOVERY_TIMEOUT_S)
        try:
            with limit:
                self.episode.start_session()
                self.episode.forget()
                self.episode.notes.append(f"{answer['lost']}; all applications were closed")
        except DeadlineExceeded:
            answer |= {"broken": "no new session started in time", "fault": limit.at_fault()}
            LOG.warning("no new session started in time; at fault is the %s", answer["fault"])
        except Exception as worse:
            # Only the agent's programs can prevent a new session.
            answer["broken"] = f"{type(worse).__name__}: {worse}"[:300]
            LOG.exception("no new session started")

    def step(self, step: dict[str, Any], answer: dict[str, Any]) -> bytes:
        """Execute one step, add its results to ``answer``, and return the PNG if it takes one."""
        kind = step["do"]
        if kind == "open":
            self.episode.begin(step)
            return b""
        if kind == "act":
            try:
                act(self.episode, step["action"])
            except Refused as refusal:
                answer["refused"] = str(refusal)
        elif kind == "settle":
            settle(self.episode.session)
        elif kind == "observe":
            return self.observe(step, answer)
        return b""

    def observe(self, step: dict[str, Any], answer: dict[str, Any]) -> bytes:
        """Add nodes, windows and notes to the answer, and return the PNG if the step requests one."""
        episode = self.episode
        answer["nodes"] = episode.observe() if step.get("tree", True) else []
        if step.get("windows"):
            answer["windows"] = [
                {
                    "title": window.title,
                    "application": window.application,
                    "rect": window.rect,
                    "focused": window.focused,
                }
                for window in episode.screen.windows()
            ]
        if step.get("notes", True):
            answer["notes"] = [*episode.session.crashes, *episode.notes]
            episode.notes = []
            episode.session.crashes.clear()
        return self.screenshot() if step.get("screenshot") else b""

    def screenshot(self) -> bytes:
        """Return the PNG of the screen without tooltips, unless a program shows one after the other."""
        screen, png = self.episode.screen, b""
        for _ in range(SCREENSHOT_ATTEMPTS):
            png = screen.png()
            if not screen.hide_tooltips():
                break
            settle(self.episode.session)
        return png


def main(path: str, launcher_path: str) -> None:
    """Start a desktop and answer requests on a unix socket at ``path`` until killed.

    ``launcher_path`` is the socket of the process that runs as the desktop's user.

    Raises:
        DesktopLost: the desktop does not start.
    """
    driver = Driver(Episode(Session(UserClient(launcher_path)), act))
    try:
        driver.episode.start_session()
    except OSError as error:
        raise DesktopLost(str(error)) from error
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(BACKLOG)
        while True:
            end, _ = listener.accept()
            try:
                with end:
                    driver.serve(end)
            except (ValueError, OSError):
                LOG.warning("a request failed", exc_info=True)
