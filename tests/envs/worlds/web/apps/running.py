"""Run an app as the sandbox does, on a SQLite file, in a thread of this process."""

import socket
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from turnwise.envs.worlds.web.apps.server.serve import Server
from turnwise.envs.worlds.web.apps.state import opened
from turnwise.envs.worlds.web.apps.tasks.template import Act, AppTask

from .browser import Browser


class Served:
    """The server of one app, opened again for each world."""

    def __init__(self, site: str, folder: Path) -> None:
        self.folder = folder
        self.server = Server(socket.create_server(("127.0.0.1", 0)), site)
        self.site = self.server.app
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.begun = 0

    def begin(self, world: Mapping[str, Any]) -> int:
        """Open the app with a world and return its port."""
        self.database.unlink(missing_ok=True)
        self.begun += 1
        self.site.open(str(self.database), world)
        return int(self.server.server_address[1])

    @property
    def database(self) -> Path:
        return self.folder / f"{self.begun}.db"

    def play(self, task: AppTask, acts: tuple[Act, ...]) -> tuple[bool, Browser]:
        """Return whether the acts solve the task, by the end state, and the closed browser."""
        with closing(Browser(self.begin(task.world))) as browser:
            browser.do(*acts)
        return self.judge(task, browser.answer), browser

    def judge(self, task: AppTask, answer: str | None) -> bool:
        with opened(self.database.read_bytes()) as connection:
            return task.check(connection, answer)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        if self.begun:
            self.site.data.close()
        self.thread.join()
