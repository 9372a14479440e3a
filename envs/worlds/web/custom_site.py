"""The base class for a web site of yours as an environment: its files, its server, its tasks, and a check of the end.

    class Lamps(CustomSiteEnv):
        folder = Path(__file__).parent / "site"

        def task(self, seed, split):
            return SiteTask(goal="Open the page of the red lamp.", start="/index.html")

        def check(self, final):
            return final.url == "http://127.0.0.1:8080/red.html"

Each episode gets a fresh copy of the folder in the sandbox and a new server, which listens on 127.0.0.1:``port``. There
is no network. The image has Python with its standard library and no other language. The agent ends the episode with
``send_msg_to_user("…")``; the text may be empty.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ..computer.calls import Action
from ..computer.env import Checked, ObservationMode, Verdict, check_files, graded
from .actions import ANSWER
from .browser_session import FILES, SITE_USER, SPEC, BrowserSession, SiteServer
from .env import BrowserEnv, EpisodeStart

PORT = 8080


@dataclass(frozen=True, slots=True)
class SiteTask:
    """One task on a site."""

    goal: str
    start: str = "/"
    """The path that the browser opens first; it begins with ``/``."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files of this instance by path; they replace files of the folder."""
    data: Any = None
    """Anything that ``check`` needs."""
    oracle: Sequence[str] = ()
    """The actions of one solution, which may name elements: ``click({link 'Cart'})``, ``fill({textbox}, "red")``."""


@dataclass(frozen=True, slots=True)
class FinalState:
    """The end of an episode."""

    task: SiteTask
    answer: str
    url: str
    files: Mapping[str, bytes]
    """The files of the site's folder at the end, by path. If they cannot be read, ``check`` is not called."""


class CustomSiteEnv(BrowserEnv[SiteTask]):
    """The base class of a custom site: override ``task`` and ``check``, and set ``folder`` or override ``files``.

    An episode whose files cannot be read at the end has failed; ``check`` is not called for it.
    """

    folder: Path | None = None
    port = PORT

    def __init__(
        self,
        observation: ObservationMode = "text",
        marks: bool = False,
        max_pixels: int | None = None,
        coordinates: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(BrowserSession(), observation, marks, max_pixels, coordinates)

    def task(self, seed: int, split: str) -> SiteTask:
        """Return the task of a seed; ``train`` and ``test`` must not share a task."""
        raise NotImplementedError(f"{type(self).__name__} does not implement task(seed, split)")

    def check(self, final: FinalState) -> Checked:
        """Return whether the task is solved, or how much of it, as ``graded`` takes it.

        ``{"pizza": True, "street": False}`` has the reward 0.5, and is no success.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement check(final)")

    def server_command(self) -> str:
        """Return the shell command that serves the site; by default, it serves static files.

        It runs in a fresh copy of the files for each episode, which it may read and write, after ``task``; it listens
        on 127.0.0.1:``port`` and must not end.
        """
        return f"python3 -I -m http.server {self.port} --bind 127.0.0.1"

    @cached_property
    def files(self) -> Mapping[str, bytes]:
        """Return the files of the folder, by path; they are read once, before the first episode."""
        if self.folder is None:
            return {}
        root = Path(self.folder)
        if not root.is_dir():
            raise ValueError(f"`{type(self).__name__}.folder` is not a folder: `{root}`")
        return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}

    def start_episode(self, seed: int, split: str) -> EpisodeStart:
        """Upload the files of the seed's task, start the server, and open the task's first page."""
        self.episode = task = self.task(seed, split)
        self.browser.serve(SiteServer(self._site_files(task), self.server_command(), self.port))
        origin = f"http://127.0.0.1:{self.port}"
        return EpisodeStart(task.goal, origin + task.start, (origin,))

    def _site_files(self, task: SiteTask) -> dict[str, bytes]:
        """Return the files to serve. Raises ValueError or TypeError if the task is malformed."""
        method = f"`{type(self).__name__}.task`"
        if not isinstance(task, SiteTask):
            raise TypeError(f"{method} must return a SiteTask, not {task!r:.80}")
        if not task.start.startswith("/"):
            raise ValueError(f"{method}: `start` must begin with /, not {task.start!r}")
        files = {**self.files, **task.files}
        if not files:
            raise ValueError(f"{method}: the site has no files; set `folder` or return SiteTask(files={{…}})")
        check_files(method, files, "the site's folder", (SPEC.disk_mib << 20) // 2)
        return files

    def evaluate(self, action: Action | None, answer: Mapping[str, Any]) -> Verdict:
        """Check the final state once the agent has answered or its browser is gone."""
        answered = action is not None and action.verb == ANSWER
        if not (answered or "broken" in answer):
            return Verdict()
        text = str(action.arguments["text"]) if action is not None and answered else ""
        files = self.browser.read_files(FILES, SITE_USER)
        if files is None:
            return Verdict(over=True)
        tabs, active = answer.get("tabs") or [["", ""]], answer.get("active", 0)
        checked = self.check(FinalState(self.episode, text, str(tabs[active][0]), files))
        return graded(f"`{type(self).__name__}.check`", checked)

    def oracle(self) -> str:
        """Return the next action of the task's ``oracle``; errors are those of ``next_of``."""
        return self.next_of(self.episode.oracle)
