"""Every command of the program, with odd streams, encodings, folders and variables: one line, never a traceback.

In CI each of the twelve conditions meets one command; ``make soak`` runs all conditions with all commands.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from turnwise.tests.console.forked_commands import Ended, ForkedCommands
from turnwise.tests.console.test_hostile_inputs import COMMANDS, OPTIONS, VALUES, drawn, files
from turnwise.tests.soak.sampling import in_soak

from .conftest import ENV

__all__ = ["files"]
pytestmark = pytest.mark.slow


Forked = Callable[..., Ended]


@pytest.fixture
def forked(forked_commands: ForkedCommands, store: str, tmp_path: Path) -> Forked:
    """Return a function that runs a command and returns its end."""

    def run(*arguments: str, environment: dict[str, str | None] | None = None, **conditions: Any) -> Ended:
        variables = {"TURNWISE_STORE": store, "PYTHONWARNINGS": "error", **(environment or {})}
        return forked_commands.run(tmp_path, *arguments, environment=variables, **conditions)

    return run


def line_of(command: str, files: dict[str, str]) -> list[str]:
    """Return a command line that the program accepts."""
    words = command.split()
    for one in COMMANDS[command].params:
        if one.required:
            key = next(name for name in (f"{command} {one.name}", one.name) if name in VALUES)
            value = VALUES[key].format(**files)
            words += [value] if type(one).__name__ == "TyperArgument" else [one.opts[0], value]
    return words + [one.format(**files) for one in OPTIONS.get(command, [])]


CONDITIONS: dict[str, dict[str, Any]] = {
    "ascii": {"encoding": "ascii"},
    "latin-1": {"encoding": "latin-1"},
    "stdin closed": {"streams": {0: "closed"}},
    "stdout closed": {"streams": {1: "closed"}},
    "all closed": {"streams": {0: "closed", 1: "closed", 2: "closed"}},
    "stdout full": {"streams": {1: "/dev/full"}},
    "both full": {"streams": {1: "/dev/full", 2: "/dev/full"}},
    "stdout without a reader": {"streams": {1: "pipe"}},
    "both without a reader": {"streams": {1: "pipe", 2: "pipe"}},
    "no home": {"environment": {"HOME": None, "TMPDIR": None, "USER": None, "LOGNAME": None}},
    "odd folders": {"environment": {"HOME": "/proc/nothing", "TMPDIR": "/proc/nothing", "XDG_CACHE_HOME": "/proc/x"}},
    "folder deleted": {"deleted": "{missing}-cwd"},
}


def sampled() -> list[str]:
    """Return one command per condition, from all groups of commands."""
    return [one for place, one in enumerate(COMMANDS) if place // len(CONDITIONS) == place % 3]


@pytest.mark.parametrize(
    ("command", "share"), [*((one, len(CONDITIONS)) for one in sampled()), *in_soak(*((one, 1) for one in COMMANDS))]
)
def test_odd_streams_and_folders_are_answered_in_one_line(
    command: str, share: int, forked: Forked, files: dict[str, str]
) -> None:
    line = line_of(command, files)
    wrong = []
    for name in drawn(list(CONDITIONS), share, command):
        condition = CONDITIONS[name]
        if "deleted" in condition:
            condition = {"deleted": condition["deleted"].format(**files)}
        ended = forked(*line, **condition)
        expected = (0, 1, 2)
        if ended.code not in expected or "Traceback" in ended.err or "Exception ignored" in ended.err:
            wrong.append(f"{name}: exit code {ended.code}: {ended.err[:600]}")
        elif "streams" not in condition and ended.code == 2 and not ended.err.startswith("turnwise: "):
            wrong.append(f"{name}: no line about the cause: {ended.err[:300]}")
    assert not wrong, "\n".join(wrong)


def test_a_deleted_folder_is_named(forked: Forked, tmp_path: Path) -> None:
    ended = forked("runs", "list", deleted=str(tmp_path / "gone"))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "turnwise: the current folder was deleted: change to another one, and run the command again\n"


def test_a_full_disk_behind_stdout_is_named(forked: Forked) -> None:
    for command in (["runs", "list"], ["runs", "list", "--json"], ["trajectories", "show", "t0"], ["--help"]):
        ended = forked(*command, streams={1: "/dev/full"})
        assert ended.code == 2
        assert "No space left on device" in ended.err
        assert ended.err.count("\n") == 1


def test_a_closed_pipe_ends_a_command_silently(forked: Forked) -> None:
    for command in (["runs", "list"], ["trajectories", "list", "--json"], ["trajectories", "show", "t0"], ["--help"]):
        ended = forked(*command, streams={1: "pipe"})
        assert (ended.code, ended.err) == (1, "")


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("ascii", "?? ? ?"), ("latin-1", "?? ? é"), ("cp1252", "?? ? é"), ("utf-8", "日本 😀 é")],
)
def test_characters_that_the_encoding_lacks_are_replaced(encoding: str, shown: str, forked: Forked) -> None:
    found = forked("trajectories", "search", "日本 😀 é", encoding=encoding)
    assert (found.code, found.err) == (0, "")
    assert f"no turn matches query '{shown}'" in found.out
    assert forked("trajectories", "lineage", "日本 😀 é", encoding=encoding).code == 2


def test_a_command_never_gets_the_descriptor_of_a_closed_stream(forked: Forked, store: str) -> None:
    before = Path(store.removeprefix("sqlite:///")).read_bytes()[:100]
    assert forked("runs", "list", streams={0: "closed", 1: "closed", 2: "closed"}).code == 0
    assert Path(store.removeprefix("sqlite:///")).read_bytes()[:100] == before
    assert forked("runs", "list").out.count("demo") == 1


def test_playing_without_stdin_ends_the_episode(forked: Forked, tmp_path: Path) -> None:
    assert forked("envs", "play", ENV, streams={0: "closed"}).code == 0
    (tmp_path / "input").write_bytes(b"click \xff\xfe home\n\x00\n")
    ended = forked("envs", "play", ENV, streams={0: str(tmp_path / "input")}, encoding="ascii")
    assert (ended.code, ended.err) == (0, "")
