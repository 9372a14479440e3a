"""Type the commands of README.md and docs/ as written, page by page, in a fresh clone of this checkout.

``make test`` types those of ``QUICK``; README.md has a test of its own. ``make soak`` types every other command, also a
new one, except those of ``NOT_TYPED``.
"""

import os
import subprocess
from pathlib import Path

import pytest
from turnwise.tests.console.forked_commands import ForkedCommands
from turnwise.tests.envs.worlds.code.small_task import small_task
from turnwise.tests.house.shown import PAGES, ROOT, commands_of, files_of, name_of

QUICK = [
    "turnwise envs list",
    "turnwise envs list web",
    "turnwise envs check turnwise/TextSite-v0",
    "turnwise envs play turnwise/TextSite-v0",
    "turnwise eval --env turnwise/TextSite-v0 --policy oracle --split test --tasks 100",
    "turnwise trajectories export --source expert --format atif --out documents",
    "turnwise sandbox backends",
]
"""Commands that take a second or less, in an order in which they can be typed."""
GPU, CLUSTER = "it needs a GPU", "it needs a cluster"
SERVES = "it serves until Ctrl-C: `tests/console/viewer/test_server.py`"
NOT_TYPED = {
    "make install": "CI begins with it",
    "make quickstart": "minutes: `tests/console/test_quickstart.py` and `make soak` train it",
    "make test-fast": "minutes: CI runs these tests",
    ".venv/bin/python -m pip wheel --no-deps --wheel-dir dist .": "`tools/check_wheel.sh` builds the wheel",
    '/path/to/project/venv/bin/pip install "dist/turnwise-0.1.0-py3-none-any.whl[cpu]"': "`tools/check_wheel.sh`",
    "export TURNWISE_STORE=postgresql://turnwise@database/turnwise": CLUSTER,
    "sbatch examples/cluster/slurm.sh examples/eight_gpus.toml eight-gpus": CLUSTER,
    "python3 -m venv .venv-gpu && . .venv-gpu/bin/activate": GPU,
    'pip install ".[gpu]"': GPU,
    "make test-gpu": GPU,
    "turnwise plan examples/gpu_24gb.toml": GPU,
    "turnwise train examples/gpu_24gb.toml": GPU,
    "turnwise train examples/eight_gpus.toml": GPU,
    "turnwise view": SERVES,
    "turnwise view --demo": SERVES,
    "turnwise view --open RUN": SERVES,
    "turnwise model merge runs/NAME/checkpoints/VERSION models/merged": "NAME and VERSION are the reader's",
    "turnwise runs score quickstart --rewards judged --reward llm_judge --option url=http://127.0.0.1:8000/v1 "
    "--option model=judge --option 'rubric=Was it done?'": "it needs the reader's judge",
    "turnwise trajectories import trajectory.json --env turnwise/TextSite-v0 --option family=find": "the reader's file",
}
"""Commands that no test types as written, and why."""
SHORTER = (
    "--set max_steps=1 --set evaluation.tasks=2 --set sft_warmup.steps=100 "
    "--set rollout.groups_per_batch=2 --set rollout.max_concurrent_groups=2"
)
"""Added to the runs that the pages train, which take minutes."""
DOCKER = {
    "docs/sandboxes.md",
    "docs/gpu.md",
    "docs/guide/sandbox_environment.md",
    "docs/shipped_environments/code_tasks.md",
    "docs/shipped_environments/desktop.md",
    "docs/shipped_environments/desktop_tasks.md",
    "docs/shipped_environments/web.md",
}
"""Pages whose commands need the Docker engine."""
LIMIT_S = 1800


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a fresh clone with the environment of this checkout."""
    folder = tmp_path_factory.mktemp("typed") / "turnwise"
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


@pytest.fixture(scope="module")
def quickstart(clone: Path) -> None:
    """Train the run that several pages name."""
    type_in(clone, f"turnwise train examples/quickstart.toml {SHORTER}")


def type_in(folder: Path, script: str) -> str:
    variables = {**os.environ, "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", script],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def script_of(page: Path) -> str:
    """Return what a test types of a page: its commands in their order, and shorter runs."""
    texts = [one.text for one in commands_of(page) if one.text not in NOT_TYPED]
    return "\n".join(f"{text} {SHORTER}" if text.startswith("turnwise train") else text for text in texts)


TYPED = [page for page in PAGES[1:] if script_of(page)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for the quick commands."""
    return tmp_path_factory.mktemp("quick")


@pytest.mark.parametrize("command", QUICK)
def test_a_quick_command_runs(command: str, folder: Path, forked_commands: ForkedCommands) -> None:
    ended = forked_commands.run(folder, *command.split()[1:], folder=str(folder))
    assert ended.code == 0, ended


@pytest.mark.soak
@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.docker] * (name_of(page) in DOCKER), id=name_of(page)) for page in TYPED],
)
def test_the_commands_of_a_page_run_as_written(page: Path, clone: Path, request: pytest.FixtureRequest) -> None:
    if "quickstart" in script_of(page):
        request.getfixturevalue("quickstart")
    for name, text in files_of(page).items():
        if name == "task.toml":
            small_task(clone / "tasks" / "add", toml=text, hidden="")
        else:
            (clone / name).write_text(text)
    type_in(clone, script_of(page))


def test_the_lists_name_commands_that_are_shown() -> None:
    shown = {one.text for page in PAGES for one in commands_of(page)}
    assert {*QUICK, *NOT_TYPED} <= shown
    assert {name_of(page) for page in TYPED} >= DOCKER
