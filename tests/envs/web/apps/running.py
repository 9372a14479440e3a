"""Run an app as the sandbox does: as a process on a SQLite file, started as a plain file."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import turnwise.envs.web.apps.server
from turnwise.envs.web.apps.database import opened
from turnwise.envs.web.apps.tasks.template import Act, AppTask

from .browser import Browser

START = Path(turnwise.envs.web.apps.server.__file__).parent / "start.py"


class Served:
    """The process of one app, restarted for each world."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None
        self.begun = 0

    def begin(self, world: Mapping[str, Any]) -> int:
        """Start the app with a world and return its port."""
        self.database.unlink(missing_ok=True)
        self.begun += 1
        file = self.folder / "world.json"
        file.write_text(json.dumps(world))
        if self.process is None:
            argv = [sys.executable, "-I", str(START), world["site"], "0", str(self.database), str(file)]
            self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        else:
            assert self.process.stdin
            self.process.stdin.write(json.dumps([str(self.database), str(file)]) + "\n")
            self.process.stdin.flush()
        assert self.process.stdout
        word, _, port = self.process.stdout.readline().partition(" ")
        assert word == "ready"
        return int(port)

    @property
    def database(self) -> Path:
        return self.folder / f"{self.begun}.db"

    def play(self, task: AppTask, acts: tuple[Act, ...]) -> tuple[bool, Browser]:
        """Return whether the acts solve the task, by the end state, and the closed browser."""
        with closing(Browser(self.begin(task.world), task.start)) as browser:
            browser.do(*acts)
        return self.judge(task, browser.answer), browser

    def judge(self, task: AppTask, answer: str | None) -> bool:
        with opened(self.database) as connection:
            return task.check(connection, answer)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    with closing(Served(folder)) as one:
        yield one
