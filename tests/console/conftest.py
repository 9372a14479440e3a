"""A real store with a run, and the command line called as a user calls it."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from turnwise.console.command_line import main
from turnwise.envs.registry import make
from turnwise.envs.tasks import make_task
from turnwise.records import Group, Horizon, Status, Step, Trajectory
from turnwise.store import operations
from turnwise.store.content.rows import rows_of
from turnwise.store.database import open_database
from turnwise.store.project import RUNS_VARIABLE

ENV = "turnwise/TextSite-v0"
HOSTILE = "\x1b[2J\x1b]0;owned\x07[red]click[/red] home"


@dataclass(frozen=True)
class Ended:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str


Turnwise = Callable[..., Ended]


@pytest.fixture
def turnwise(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Turnwise:
    """Run ``turnwise ARGUMENTS``."""
    monkeypatch.setenv(RUNS_VARIABLE, "")  # `--runs` sets it for the process; the end of the test restores it

    def call(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["turnwise", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code
        return Ended(code if isinstance(code, int) else int(code is not None), captured.out, captured.err)

    return call


@pytest.fixture
def store(tmp_path: Path, stored: Path) -> str:
    """Return the URL of a store with one run of two trajectories; the second one contains escape sequences."""
    shutil.copytree(stored, tmp_path, dirs_exist_ok=True)
    return f"sqlite:///{tmp_path}/turnwise.db"


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the store that each test gets a copy of."""
    folder = tmp_path_factory.mktemp("stored")
    database = open_database(f"sqlite:///{folder}/turnwise.db", create=True)
    task = make_task(ENV, seed=5)
    group = Group("g1", "demo", task, Horizon(12, 8, 96, 256), 2)
    with database.transaction() as tx:
        operations.create_run(tx, run="demo", config={"name": "demo"}, config_hash="h", kind="train", code_version="c")
        operations.add_version(tx, run="demo", update=0, parent=None)
        operations.open_group(tx, group=group)
        for member, action in enumerate(("back", HOSTILE)):
            name = f"t{member}"
            operations.start_trajectory(tx, trajectory=Trajectory(name, "demo", "g1", member, 0, policy="random"))
            env = make(ENV)
            seen, _ = env.reset(seed=5, options={"split": "train"})
            after, paid, *_ = env.step(action)
            reward = float(paid)
            step = Step(0, str(seen), "00" * 16, action, reward, {}, False, True, False, "", None, 0.0, 0.0)
            operations.append(tx, trajectory=name, rows=rows_of([step], []))
            operations.finish_trajectory(
                tx, trajectory=name, status=Status.TRUNCATED, reward=reward, success=False, final_observation=str(after)
            )
    database.close()
    return folder
