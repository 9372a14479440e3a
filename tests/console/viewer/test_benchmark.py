"""The benchmark of the viewer measures every page of a small store."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from turnwise.console.viewer.pages.listing import PAGES

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "viewer.py"


@pytest.mark.soak
def test_the_benchmark_measures_every_page() -> None:
    command = [sys.executable, str(BENCHMARK), "--trajectories", "400", "--rounds", "1", "--seconds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found["pages"]) == len(found["api"]) > len(PAGES)
    assert 0 < found["live_bytes"] < 20_000
    assert found["write_rate"] > 0
    assert found["write_rate_read"] > 0
