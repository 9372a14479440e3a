"""An environment a stranger wrote: made by ``envs new``, installed by pip, checked, trained on, replayed. By the
program alone, as its user would.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = str(Path(sys.executable).with_name("turnwise"))
PIP = (sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index")
CONFIG = """
name = "demo"
preset = "tiny"
max_steps = 3
group_filters = []
[[environments]]
id = "demo/Demo-v0"
[rollout]
groups_per_batch = 2
group_size = 4
max_concurrent_groups = 4
max_staleness = 1
[horizon]
max_turns = 4
max_context = 128
[engine]
kv_cache_memory_bytes = 33_554_432
[model.new]
hidden = 64
heads = 2
[sft_warmup]
steps = 30
[evaluation]
tasks = 0
"""


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_strangers_environment_is_installed_checked_trained_on_and_replayed(tmp_path: Path) -> None:
    site = tmp_path / "site"
    environment = {**os.environ, "PYTHONPATH": str(site), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment["TURNWISE_STORE"] = f"sqlite:///{tmp_path}/runs/turnwise.db"

    def run(*command: str, seconds: float = 60) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    run(PROGRAM, "envs", "new", "demo")
    # Into a folder of its own: the environment the tests run in stays as it is.
    run(*PIP, "--target", str(site), "./demo", seconds=120)
    assert "demo/Demo-v0" in [one["id"] for one in json.loads(run(PROGRAM, "envs", "list", "--json"))]
    assert json.loads(run(PROGRAM, "envs", "check", "demo/Demo-v0", "--json"))["ok"] is True

    (tmp_path / "demo.toml").write_text(CONFIG)
    trained = json.loads(run(PROGRAM, "train", "demo.toml", "--json", seconds=240).splitlines()[-1])
    assert trained["run"] == "demo"
    assert trained["updates"] == 3

    assert [(one["id"], one["status"]) for one in json.loads(run(PROGRAM, "runs", "list", "--json"))] == [
        ("demo", "finished")
    ]
    listed = json.loads(run(PROGRAM, "trajectories", "list", "--run", "demo", "--json"))
    played = [one["id"] for one in listed if one["status"] in ("completed", "truncated")]
    assert len(played) >= 3 * 2 * 4
    (report,) = json.loads(run(PROGRAM, "replay", played[0], "--json"))
    assert report["matches"] is True
