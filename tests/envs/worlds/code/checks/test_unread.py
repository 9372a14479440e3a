"""A check of files fails on everything that it does not read: links, pipes, unreadable files and folders, by name."""

from collections.abc import Iterator

import pytest
from turnwise.envs.worlds.code.env import CodeEnv

HIDDEN = {
    "a link": "ln -s main.py {place}/old.py",
    "a link to nowhere": "ln -s nowhere {place}/old.py",
    "a link to the parent": "ln -s .. {place}/old",
    "a named pipe": "mkfifo {place}/old.py",
    "a socket": "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('{place}/old.py')\"",
    "an unreadable file": "echo > {place}/old.py; chmod 000 {place}/old.py",
    "an unreadable folder": "mkdir {place}/old; touch {place}/old/x.py; chmod 000 {place}/old",
    "a name that is not UTF-8": "touch {place}/$'old\\xff.py'",
}
PLACES = {"rename": ".", "setting": "config"}


@pytest.fixture(scope="module", params=PLACES)
def world(local: str, request: pytest.FixtureRequest) -> Iterator[tuple[CodeEnv, str]]:
    """Yield an environment of each family with a check of files, and the folder that the check reads."""
    env = CodeEnv(family=request.param, trusted=True)
    yield env, PLACES[request.param]
    env.close()


def submitted(env: CodeEnv, script: str) -> tuple[bool, object]:
    """Solve a task, run a script, and submit."""
    env.reset(seed=0)
    while (action := env.oracle()) != "submit":
        env.step(action)
    assert "exit 0" in str(env.step(f"bash\n{script}")[0])
    info = env.step("submit")[4]
    return info["success"], info["extras"]


def test_a_solution_passes_next_to_folders(world: tuple[CodeEnv, str]) -> None:
    assert submitted(world[0], f"mkdir {world[1]}/old json; touch json/__init__.abi3.so")[0]


@pytest.mark.parametrize("what", HIDDEN)
def test_what_cannot_be_read_fails_a_check_of_files(world: tuple[CodeEnv, str], what: str) -> None:
    env, place = world
    success, extras = submitted(env, HIDDEN[what].format(place=place))
    assert not success, extras
