"""The commands and pages that read a store import no module that only the store names."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from turnwise.console.viewer.application import application
from turnwise.console.viewer.security import LOOPBACK, Door
from turnwise.envs.worlds.semi_online.env import COMMAND
from turnwise.store import operations
from turnwise.store.database import open_database

from ..conftest import Turnwise

WORLD = """
import gymnasium
from turnwise.envs import TurnEnv
class World(TurnEnv):
    deterministic = True
    def reset(self, *, seed=None, options=None):
        return "say hi", {}
    def step(self, action):
        return "done", 1.0, True, False, {"success": True}
    def oracle(self):
        return "hi"
    def instructions(self):
        return "Greet."
gymnasium.register("Stored-v0", entry_point=World)
"""


@pytest.fixture
def stored_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turnwise: Turnwise) -> Iterator[str]:
    """Return a store whose episode and whose configurations name modules; none of them is imported."""
    (tmp_path / "stored_world.py").write_text(WORLD)
    monkeypatch.syspath_prepend(tmp_path)
    store = f"sqlite:///{tmp_path}/turnwise.db"
    played = ("--env", "stored_world:Stored-v0", "--policy", "oracle", "--tasks", "1", "--split", "train")
    assert turnwise("eval", *played, "--name", "played", "--store", store).code == 0
    config = {"name": "trained", "loss": {"name": "stored_world:World"}, "environments": [{"id": "stored_world:X"}]}
    database = open_database(store)
    with database.transaction() as tx:
        operations.create_run(tx, run="trained", config=config, config_hash="h", kind="train", code_version="c")
        operations.add_version(tx, run="trained", update=0, parent=None)
    database.close()
    _forget()
    yield store
    _forget()


def _forget() -> None:
    import gymnasium

    sys.modules.pop("stored_world", None)
    gymnasium.registry.pop("Stored-v0", None)


@pytest.mark.slow
def test_commands_and_pages(stored_names: str, turnwise: Turnwise, tmp_path: Path) -> None:
    from starlette.testclient import TestClient

    listed = turnwise("trajectories", "list", "--run", "played", "--ids", "--store", stored_names)
    name = listed.out.split()[0]
    commands = {
        ("trajectories", "replay", name): 1,
        ("trajectories", "export", "--format", "atif", "--out", str(tmp_path / "atif")): 2,
    }
    for command, code in commands.items():
        ended = turnwise(*command, "--store", stored_names)
        assert (ended.code, "stored_world" in sys.modules) == (code, False), command
        assert "a name in data imports nothing; if you trust its module, add `--import stored_world`" in ended.err
    written = [sys.executable, *COMMAND.split()[1:], str(tmp_path / "experts.jsonl"), "--store", stored_names]
    refused = subprocess.run(written, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "add `--import stored_world`" in refused.stderr
    database = open_database(stored_names, read_only=True)
    client = TestClient(application(database, Door(LOOPBACK, None)), base_url="http://127.0.0.1:8600")
    page = client.get(f"/api/trajectories/{name}/replay")
    assert "--import stored_world" in page.json()["problem"]
    config = client.get("/api/runs/trained").json()["config"]
    assert {one["key"] for one in config if one["is_changed"]} == {"loss.name"}
    assert "stored_world" not in sys.modules
    database.close()
    for command in commands:
        ended = turnwise(*command, "--import", "stored_world", "--store", stored_names)
        assert ended.code == 0, ended
    read = subprocess.run([*written, "--import", "stored_world"], cwd=tmp_path, capture_output=True, timeout=60)
    assert (read.returncode, (tmp_path / "experts.jsonl").read_text().count("Greet.")) == (0, 1), read
    assert json.loads(next((tmp_path / "atif").glob("*.json")).read_text())["steps"][0]["message"] == "Greet."
