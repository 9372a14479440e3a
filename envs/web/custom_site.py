"""A web site of one's own as an environment: a folder, what serves it, the tasks, and a check of how it ended.

    class Lamps(OwnSiteEnv):
        folder = Path(__file__).parent / "site"

        def task(self, seed, split):
            return Asked(goal="Open the page of the red lamp.", start="/index.html")

        def check(self, ended):
            return ended.url == "http://127.0.0.1:8080/red.html"

The folder is put into the sandbox afresh for every episode and ``serve`` is started in it; it must listen on
127.0.0.1:``port``. Nothing else can be reached: there is no network. The image has Python with its standard library,
and no other language. The agent ends the episode by ``send_msg_to_user("…")``, with a text or without one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from .actions import ANSWER, Action
from .browser_session import SPEC, Browser
from .env import Begin, BrowserEnv, Judged, Seen

PORT = 8080
HERE = "site"
"""The folder's name in the sandbox."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A task."""

    goal: str
    start: str = "/"
    """Path where the browser opens; it begins with ``/``."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Put over those of the folder: the world of this seed."""
    facts: Any = None
    """Whatever ``check`` wants to know of the task."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How an episode ended."""

    asked: Asked
    answer: str
    url: str
    files: Mapping[str, bytes]
    """What lies in the folder now, by path. Where it cannot be read, the episode has failed and nothing is checked."""


class OwnSiteEnv(BrowserEnv):
    """See the module. Inherit, and say what is said there."""

    folder: Path | None = None
    port = PORT

    def __init__(self, observation: Seen = "text", marks: bool = False) -> None:
        super().__init__(Browser(), observation, marks)
        self._asked: Asked | None = None

    def task(self, seed: int, split: str) -> Asked:
        """The task of a seed; ``train`` and ``test`` should share none."""
        raise NotImplementedError(f"{type(self).__name__} has no task(seed, split)")

    def check(self, ended: Ended) -> bool:
        """Whether it ended as asked."""
        raise NotImplementedError(f"{type(self).__name__} has no check(ended)")

    def serve(self) -> str:
        """The command that serves the folder, run in it; by default its files as they are."""
        return f"python3 -I -m http.server {self.port} --bind 127.0.0.1"

    @cached_property
    def files(self) -> Mapping[str, bytes]:
        """The folder's files, by path."""
        if self.folder is None:
            return {}
        root = Path(self.folder)
        if not root.is_dir():
            raise ValueError(f"{type(self).__name__}.folder: {root} is not a folder")
        return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}

    def begin(self, seed: int, split: str) -> Begin:
        """Put the world of the task in place, and begin at its first page."""
        self._asked = asked = self.task(seed, split)
        files = self._checked(asked)
        origin = f"http://127.0.0.1:{self.port}"
        world = {f"{HERE}/{path}": content for path, content in files.items()}
        self.browser.serve(HERE, world, self.serve(), self.port)
        return Begin(asked.goal, origin + asked.start, (origin,))

    def _checked(self, asked: Asked) -> dict[str, bytes]:
        """The files to serve. Raises ValueError, TypeError: the task is none that can be played."""
        what = f"{type(self).__name__}.task"
        if not isinstance(asked, Asked):
            raise TypeError(f"{what} is to return Asked(…), not {asked!r:.80}")
        if not asked.start.startswith("/"):
            raise ValueError(f"{what}: start is to begin with /, and is {asked.start!r}")
        files = {**self.files, **asked.files}
        if not files:
            raise ValueError(f"{what}: the site has no files; set `folder` or give Asked(files={{…}})")
        for path, content in files.items():
            if not isinstance(content, bytes):
                raise TypeError(f"{what}: the file {path!r} is to be bytes, not {type(content).__name__}")
            if path.startswith("/") or ".." in Path(path).parts:
                raise ValueError(f"{what}: the file {path!r} is not inside the site's folder")
        size, room = sum(map(len, files.values())), (SPEC.disk_mib << 20) // 2
        if size > room:
            raise ValueError(f"{what}: the site's files have {size >> 20} MiB, and there is room for {room >> 20}")
        return files

    def judge(self, action: Action | None, answer: Mapping[str, Any]) -> Judged:
        """Once the agent ends the episode, or its browser is gone: how it stands."""
        over = "broken" in answer or (action is not None and action.verb == ANSWER)
        if not over or self._asked is None:
            return Judged()
        tabs, active = answer.get("tabs") or [["", ""]], answer.get("active", 0)
        text = str(action.arguments["text"]) if action is not None and action.verb == ANSWER else ""
        files = self.browser.left(HERE)
        if files is None:
            return Judged(over=True)
        success = self.check(Ended(self._asked, text, str(tabs[active][0]), files))
        return Judged({"success": 1.0} if success else {}, over=True, success=bool(success))
