"""Every page in a real Chromium: both themes, two widths, no message in the console, and the keys."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
import uvicorn
from turnwise.console.viewer.application import application
from turnwise.console.viewer.security import LOOPBACK, Door
from turnwise.console.viewer.server import listening
from turnwise.sandbox.images.reference import image_reference
from turnwise.store.database import Database

FOLDER = Path(__file__).parent
PATHS = (
    *(
        "/runs",
        "/runs/r",
        "/runs/r/groups",
        "/runs/r/failures",
        "/runs/r/tasks",
        "/runs/r/updates/1",
        "/groups/a",
        "/trajectories?run=r",
    ),
    *("/trajectories/b-0", "/trajectories/b-0?view=tokens", "/search?q=page", "/compare?runs=r,s"),
)


@pytest.fixture
def address(viewed: Database) -> Iterator[str]:
    """The address of a running viewer."""
    with listening("127.0.0.1", 0) as listener:
        config = uvicorn.Config(application(viewed, Door(LOOPBACK, None)), log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(timeout=20)


def walked(script: str, *arguments: str) -> list[str]:
    """Return what a script finds wrong in the Chromium of the image."""
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
        input=(FOLDER / script).read_text(),
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
def test_chromium_has_nothing_to_report(address: str) -> None:
    assert walked("walk.py", address, "/runs/r", *PATHS) == []


@pytest.mark.slow
@pytest.mark.docker
def test_an_episode_is_played_quoted_and_read_token_by_token(address: str) -> None:
    assert walked("walk_episode.py", address, "/trajectories/a-0") == []
