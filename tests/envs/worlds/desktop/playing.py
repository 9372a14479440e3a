"""Desktop environments that the tests play."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from turnwise.envs.base import Info
from turnwise.envs.worlds.computer.elements import resolve
from turnwise.envs.worlds.desktop.env import DesktopEnv
from turnwise.envs.worlds.desktop.own_files import FILE_MODE, FOLDER_MODE, HOME
from turnwise.envs.worlds.desktop.task import DesktopTask, EndState
from turnwise.sandbox import Entry, Kind, Tree


class Played(DesktopEnv):
    """An environment whose task is given by the test; its last end state is kept."""

    given = DesktopTask("none")
    end: EndState | None = None

    def task(self, seed: int, split: str) -> DesktopTask:
        """Return the given task."""
        return self.given

    def check(self, end: EndState) -> bool:
        """Keep the end; success if the task's data are the documents."""
        self.end = end
        return end.documents == end.task.data

    def begin(self, *applications: str, files: dict[str, bytes] | None = None, data: Any = None) -> str:
        """Start an episode and return the first observation's text."""
        self.given = DesktopTask("test", applications, files or {}, data=data)
        return text_of(self.reset(seed=0)[0])

    def act(self, action: str) -> tuple[str, float, bool, Info]:
        """Step an action that may name elements; return text, reward, end and info."""
        observation, reward, over, _, info = self.step(resolve(action, self.nodes))
        return text_of(observation), reward, over, info

    def shell(self, command: str) -> str:
        """Run a command as a program of the agent, in the sandbox; return its output."""
        assert self.desktop.sandbox is not None
        result = self.desktop.sandbox.exec(["sh", "-c", command], timeout_s=10)
        return result.stdout.decode(errors="replace")


def play(env: DesktopEnv, actions: Sequence[str]) -> tuple[float, bool, Info]:
    """Step actions that may name elements; return the sum of the rewards, the end and the last info."""
    total, over, info = 0.0, False, Info()
    for action in actions:
        _, reward, over, _, info = env.step(resolve(action, env.nodes))
        total += reward
        if over:
            break
    return total, over, info


def text_of(observation: Any) -> str:
    """Return the text of an observation."""
    return observation["text"] if isinstance(observation, dict) else str(observation)


def world_of(files: Mapping[str, bytes | Entry], folders: Iterable[str] = ()) -> Tree:
    """Return the tree of a sandbox with these files and folders below the home folder, as the desktop makes them."""
    entries = {folder: Entry(Kind.FOLDER, mode=FOLDER_MODE) for folder in folders} | {
        path: Entry(Kind.FILE, content, FILE_MODE) if isinstance(content, bytes) else content
        for path, content in files.items()
    }
    return Tree({f"{HOME}/{path}": entry for path, entry in entries.items()})
