"""Every page in a real Chromium: both themes, two widths, no message in the console, and the keys."""

import json
import subprocess
from pathlib import Path

import pytest
from turnwise.sandbox.images.reference import image_reference
from turnwise.store.database import Database
from turnwise.tests.console.viewer.conftest import serving
from turnwise.tests.store.making import play_scored, start, train

FOLDER = Path(__file__).parent
PATHS = (
    *(
        "/runs",
        "/runs/r",
        "/runs/r?from=x&to=9",
        "/runs/r/groups",
        "/runs/r/failures",
        "/runs/r/tasks",
        "/runs/r/updates/1",
        "/groups/a",
        "/trajectories?run=r",
    ),
    *(
        "/runs/r/logs",
        "/trajectories/b-0/replay",
        "/trajectories/b-0",
        "/trajectories/b-0?view=tokens",
        "/search?q=page",
        "/compare?runs=r,s",
        "/compare?runs=r,s&axis=time",
    ),
)


def walked(script: str, *arguments: str, before: str = "") -> list[str]:
    """Return what a script, which follows the lines ``before``, finds wrong in the Chromium of the image."""
    image = [
        "docker",
        "run",
        "--rm",
        "-i",
        "--network",
        "host",
        "-e",
        "PYTHONPATH=/opt/browser",
        image_reference("web"),
    ]
    done = subprocess.run(
        [*image, "python3", "-", *arguments],
        input=before + (FOLDER / script).read_text(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.parametrize("windows", ["few", pytest.param("all", marks=pytest.mark.soak)])
def test_chromium_has_nothing_to_report(address: str, windows: str) -> None:
    assert walked("walk.py", windows, address, "/runs/r", *PATHS) == []


@pytest.mark.slow
@pytest.mark.docker
def test_an_episode_is_played_quoted_and_read_token_by_token(address: str) -> None:
    assert walked("walk_episode.py", address, "/trajectories/a-0") == []


@pytest.mark.slow
@pytest.mark.docker
def test_the_largest_and_smallest_numbers_are_drawn(own: Database) -> None:
    start(own)
    for update, value in enumerate((1e308, -1e308, 1e20, 1e20 + 16_384, 5e-324)):
        play_scored(own, f"g{update}", update, [1.0, 0.0], version=update)
        metrics = dict.fromkeys(("grad_norm", "reward", "entropy", "update_s", "batch_wait_s", "clip_fraction"), value)
        train(own, [f"g{update}"], update + 1, update, metrics=metrics | {"loss": 5e-324, "learning_rate": 10**300})
    with serving(own) as address:
        paths = ("/runs/r", "/runs/r?log=1", "/runs/r?smooth=0.9", "/runs/r?from=3&to=4", "/runs/r?from=1&to=1e308")
        assert walked("walk_numbers.py", address, *paths) == []
