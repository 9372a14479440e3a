"""What the patches of Ray change. `make soak` adds a driver that searches the current folder itself."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from pathlib import Path
from turnwise.trainer.cluster.runtime import start_ray, stop_ray

def searched():
    import sys
    return str(Path.cwd()) in {str(Path(folder).resolve()) for folder in sys.path}

start_ray()
import ray
print(searched(), ray.get(ray.remote(searched).remote()))
stop_ray()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("options", "searched"), [(["-P"], False), pytest.param([], True, marks=pytest.mark.soak)])
def test_processes_of_ray_search_the_current_folder_only_if_this_one_does(
    tmp_path: Path, options: list[str], searched: bool
) -> None:
    """``turnwise`` does not; a folder there would hide a package of its name that is installed as editable."""
    program = [sys.executable, *options, "-c", PROGRAM]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == [str(searched), str(searched)]
