"""The plan of a learner is within 15 % of its measured peak; ``benchmarks/learner.py`` measures three sizes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from turnwise.trainer.preflight.machine import ERROR_MARGIN

PROGRAM = Path(__file__).resolve().parents[3] / "benchmarks" / "parts" / "learner_peak.py"


@pytest.mark.alone
def test_the_plan_of_a_small_learner_is_close_to_its_measured_peak() -> None:
    done = subprocess.run([sys.executable, str(PROGRAM), "small"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1])["plan_over_measured"] == pytest.approx(1, abs=ERROR_MARGIN)
