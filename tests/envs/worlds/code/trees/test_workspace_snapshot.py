"""A snapshot of a code environment is restored in another sandbox: files, modes, links and deletions, no processes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from turnwise.envs.worlds.code.env import CodeEnv
from turnwise.sandbox import SandboxError
from turnwise.tests.envs.worlds.code.small_task import FIXED, small_task
from turnwise.tests.envs.worlds.code.test_env import BY_CASES

LISTING = "bash cd /; ls -lAR --time-style=+%s workspace tmp dev/shm | sed 's/^total.*//'; cat */*.py tmp/.config"
CHANGES = (
    "bash rm -r tests; mkdir -p empty 'a b'; printf '\\0\\377' > 'a b/-f'; chmod 751 'a b/-f'; chmod 700 empty",
    "bash ln -s ../calc.py 'a b/link'; ln calc.py hard; echo set > /tmp/.config; echo x > /dev/shm/kept",
    "bash touch -d '2001-02-03 04:05:06' calc.py; : > .hidden; : > -- -dash",
)


@pytest.fixture
def make(local: str, tmp_path: Path) -> Iterator[Callable[[], CodeEnv]]:
    """Return a factory of environments of one task, and close them at the end."""
    made: list[CodeEnv] = []
    folder = small_task(tmp_path / "add", toml=BY_CASES, hidden="")

    def make_one() -> CodeEnv:
        made.append(CodeEnv(folder=str(folder), trusted=True))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


@pytest.fixture
def env(make: Callable[[], CodeEnv]) -> CodeEnv:
    """Return an environment at the beginning of an episode."""
    made = make()
    made.reset(seed=0)
    return made


def seen(env: CodeEnv, action: str) -> str:
    return str(env.step(action)[0])


def test_files_modes_links_and_deletions_are_restored(env: CodeEnv, make: Callable[[], CodeEnv]) -> None:
    for action in CHANGES:
        assert seen(env, action) == "exit 0"
    before, snapshot = seen(env, LISTING), env.snapshot()
    assert snapshot is not None
    assert seen(env, "bash rm -r ./* .hidden /tmp/.config /dev/shm/*").startswith("exit 0")
    for owner in (env, make(), env):
        owner.restore(snapshot)
        assert seen(owner, LISTING) == before
        assert seen(owner, "bash cat calc.py > copy; rm calc.py").startswith("exit 0")


def test_a_restored_episode_is_graded_as_the_original(env: CodeEnv, make: Callable[[], CodeEnv]) -> None:
    snapshot = env.snapshot()
    assert seen(env, f"write calc.py\n{FIXED}") == "wrote calc.py"
    solved, other = env.snapshot(), make()
    for state, success in ((snapshot, False), (solved, True), (snapshot, False)):
        assert state is not None
        other.restore(state)
        *_, terminated, _, info = other.step("submit")
        assert (terminated, info["success"], info["extras"]) == (True, success, {})
        assert other.snapshot() is None, "the episode is over"
    assert env.step("submit")[-1]["success"]


@pytest.mark.parametrize(
    ("action", "undo"),
    [
        pytest.param(
            "bash sleep 60 > /dev/null 2>&1 & echo $! > /tmp/pid", "bash kill $(cat /tmp/pid)", id="a process"
        ),
        pytest.param("bash : > secret; chmod 0 secret", "bash rm -f secret", id="not readable"),
        pytest.param("bash head -c 20M /dev/urandom > a", "bash rm a", id="too large"),
    ],
)
def test_a_state_that_files_do_not_describe_has_no_snapshot(env: CodeEnv, action: str, undo: str) -> None:
    seen(env, action)
    assert env.snapshot() is None
    for _ in range(50):  # A process that was killed ends a little later.
        seen(env, undo)
        if env.snapshot() is not None:
            return
    pytest.fail("there is still no snapshot")


@pytest.mark.parametrize(
    "action",
    [
        pytest.param("bash head -c 1M /dev/zero > a; for n in $(seq 20); do ln a b$n; done", id="too large to be read"),
        pytest.param("bash truncate -s 15M /dev/shm/a; ls -ls /dev/shm", id="larger than its folder"),
    ],
)
def test_a_state_that_has_a_snapshot_can_be_restored(env: CodeEnv, make: Callable[[], CodeEnv], action: str) -> None:
    """The restored episode failed before, though the agent alone was to blame."""
    seen(env, action)
    before, snapshot, other = seen(env, LISTING), env.snapshot(), make()
    assert snapshot is not None
    other.restore(snapshot)
    assert seen(other, LISTING) == before
    assert other.step("submit")[1:3] == (0.0, True)


def test_an_empty_workspace_is_restored(env: CodeEnv) -> None:
    seen(env, "bash rm -r ./*")
    snapshot = env.snapshot()
    assert snapshot is not None
    env.restore(snapshot)
    assert seen(env, "view .") == ". holds no files"


def test_modes_and_times_of_the_folders_themselves_are_restored(env: CodeEnv, make: Callable[[], CodeEnv]) -> None:
    listing = "bash stat -c '%n %a %Y' /workspace /tmp"
    assert seen(env, "bash echo x > x; chmod 500 /workspace; chmod 711 /tmp") == "exit 0"
    assert seen(env, "bash touch -d '2001-02-03 04:05:06' /workspace /tmp") == "exit 0"
    before, snapshot, other = seen(env, listing), env.snapshot(), make()
    assert snapshot is not None
    other.restore(snapshot)
    assert seen(other, listing) == before
    assert "/workspace 500 981173106" in before
    assert seen(other, "bash cat x") == "exit 0\nx"


def test_a_folder_of_many_files_with_odd_names_has_a_snapshot(env: CodeEnv, make: Callable[[], CodeEnv]) -> None:
    """A list of files that took quadratic time reached the timeout here."""
    assert (
        seen(env, "bash cd /dev/shm; seq 12000 | xargs touch; touch -- -C '--x=1' $'new\nline' 'a\\tb' ' '") == "exit 0"
    )
    listing = "bash cd /dev/shm; ls -A --quoting-style=c | cksum; ls -A --quoting-style=c | head -4"
    snapshot, other = env.snapshot(), make()
    assert snapshot is not None
    other.restore(snapshot)
    assert seen(other, listing) == seen(env, listing)


def test_files_that_cannot_be_restored_are_a_failure_of_the_sandbox(env: CodeEnv) -> None:
    snapshot = env.snapshot()
    assert snapshot is not None
    with pytest.raises(SandboxError, match="could not be restored"):
        env.restore((snapshot[0], b"no archive" * 100))
    env.restore(snapshot)
    assert "calc.py" in seen(env, "view .")
