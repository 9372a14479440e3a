"""The environments on the pages of docs/guide/ run as written."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest
from turnwise.envs import make
from turnwise.envs.authoring.check import check
from turnwise.envs.authoring.checks import CHECKS

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
MODULES = ("capitals", "hints", "judged", "shell", "sums")


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Write the files that the pages show into a folder from which modules are imported."""
    for page in ("dataset_environment.md", "sandbox_environment.md", "tutorial.md"):
        for text in re.findall(r"^```python\n(.*?)^```$", (GUIDE / page).read_text(), re.MULTILINE | re.DOTALL):
            (tmp_path / text.splitlines()[0].removeprefix("# ")).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    kept = {name: each for name, each in CHECKS.items() if name != "another process"}
    monkeypatch.setattr("turnwise.envs.authoring.check.CHECKS", kept)
    yield tmp_path
    for module in MODULES:
        sys.modules.pop(module, None)
        gymnasium.registry.pop(f"{module.capitalize()}-v0", None)


def test_the_environments_of_rows_keep_the_contract(written: Path) -> None:
    assert sorted(path.stem for path in written.iterdir()) == sorted(MODULES)
    for env_id in ("capitals:Capitals-v0", "hints:Hints-v0", "sums:Sums-v0"):
        report = check(env_id)
        assert report.ok, "\n".join(report.lines())
    make("judged:Judged-v0").reset(seed=0)  # a judge needs a server
    env = make("hints:Hints-v0")
    env.reset(seed=0, options={"split": "test"})
    assert env.step("Lagos")[0] == "No. It begins with N."
    assert env.step("It is N'Djamena")[4]["reward_parts"] == {"correct": 1.0, "brief": 0.2}


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.usefixtures("written")
def test_the_environment_with_a_sandbox_keeps_the_contract() -> None:
    report = check("shell:Shell-v0")
    assert report.ok, "\n".join(report.lines())
