"""axe-core finds nothing serious on any page of the populated store, in both themes."""

import subprocess
from pathlib import Path

import pytest
from turnwise.tests.console.viewer.browser.test_chromium import PATHS, walked

ROOT = Path(__file__).parents[4]


@pytest.mark.soak
@pytest.mark.docker
def test_axe_finds_nothing_serious(address: str) -> None:
    subprocess.run(["bash", "tools/axe.sh"], cwd=ROOT, check=True, timeout=200)
    (script,) = (ROOT / ".venv-axe").rglob("axe.min.js")
    more = (
        *("/trajectories/a-0", "/groups/b", "/groups/failed", "/runs/s", "/search?q=nothing", "/nothing"),
        *("/trajectories", "/compare", "/runs/r?open=speed", "/runs/r/groups?update=1", "/trajectories/a-0?turn=9"),
    )
    assert walked("walk_accessibility.py", address, *PATHS, *more, before=f"AXE = {script.read_text()!r}\n") == []
