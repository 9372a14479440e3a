"""The plan of a learner is within 15 % of its measured peak; ``benchmarks/learner.py`` measures further sizes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from turnwise.trainer.preflight.machine import ERROR_MARGIN

PROGRAM = Path(__file__).resolve().parents[3] / "benchmarks" / "parts" / "learner_peak.py"


@pytest.mark.alone
@pytest.mark.parametrize("size", ["small", pytest.param("images", marks=pytest.mark.soak)])
def test_the_plan_of_a_small_learner_is_close_to_its_measured_peak(size: str) -> None:
    done = subprocess.run([sys.executable, str(PROGRAM), size], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1])["plan_over_measured"] == pytest.approx(1, abs=ERROR_MARGIN)
