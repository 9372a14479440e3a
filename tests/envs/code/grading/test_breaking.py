"""An agent that breaks its own sandbox gains nothing, and harms neither the episode's verdict nor the next episode."""

import subprocess
import threading
import time
from pathlib import Path

import pytest
from turnwise.envs.code.env import CodeEnv
from turnwise.tests.envs.code.small_task import FIXED, small_task

BREAKING = {
    "kills all it can": "kill -9 -1",
    "kills its server": "for n in $(seq 1 40); do kill -9 $n; done",
    "fork bomb": "bomb() { bomb | bomb & }; bomb; sleep 2",
    "fills the work folder": "head -c 100m /dev/zero > big",
    "fills its home": "head -c 100m /dev/zero > /tmp/big",
    "many files": "for n in $(seq 1 20000); do echo > f$n || break; done",
    "eats memory": "python3 -c 'kept = bytearray(1 << 30)'",
    "floods": "yes",
    "hangs": "sleep 100",
    "hangs unkillably": "trap '' TERM INT HUP; while :; do :; done",
    "removes everything": "rm -rf /workspace/* /tmp/*",
    "shuts the door": "chmod 000 /workspace",
    "a pipe for a file": "rm calc.py; mkfifo calc.py",
    "a link for a file": "rm calc.py; ln -s /etc/hostname calc.py",
    "a folder for a file": "rm calc.py; mkdir calc.py; touch calc.py/x",
    "a very deep folder": 'for n in $(seq 1 300); do mkdir -p d; cd d; done; echo "deep" > f',
    "names that are no text": "touch $'\\xff\\xfe' $'new\\nline'",
}

HARD = ("fork bomb", "hangs")


@pytest.fixture(scope="module")
def env(docker: str, tmp_path_factory: pytest.TempPathFactory) -> CodeEnv:
    return CodeEnv(folder=str(small_task(tmp_path_factory.mktemp("tasks") / "add")), step_reward=True)


def submitted(env: CodeEnv, action: str, *first: str) -> tuple[float, bool]:
    """Return the total reward of an episode with this action, and whether it succeeds."""
    env.reset(seed=0)
    total = 0.0
    for each in (*first, action, "submit"):
        observation, reward, terminated, truncated, info = env.step(each)
        assert isinstance(observation, str)
        assert len(observation) < 9000
        assert not truncated
        assert info["env_error"] is None
        total += reward
        if terminated:
            return total, info["success"]
    raise AssertionError("submit does not end the episode")


@pytest.mark.parametrize("way", BREAKING)
def test_breaking_gains_nothing(env: CodeEnv, way: str) -> None:
    began = time.monotonic()
    total, success = submitted(env, f"bash\n{BREAKING[way]}")
    assert total <= 0.0 + 1e-9
    assert not success
    assert time.monotonic() - began < 25
    total, success = submitted(env, f"write calc.py\n{FIXED}")
    assert total == pytest.approx(1.0 + 4 / 4 - 1 / 4)
    assert success


@pytest.mark.parametrize("way", ["kills all it can", *(pytest.param(way, marks=pytest.mark.soak) for way in HARD)])
def test_breaking_the_sandbox_does_not_raise_the_reward(env: CodeEnv, way: str) -> None:
    repaired, _ = submitted(env, f"write calc.py\n{FIXED}")
    total, _ = submitted(env, f"bash\n{BREAKING[way]}", f"write calc.py\n{FIXED}")
    assert total <= repaired + 1e-9


@pytest.mark.parametrize("repaired", [False, True])
def test_a_sandbox_lost_by_the_agents_command_is_graded_by_its_last_files(
    docker: str, tmp_path: Path, repaired: bool
) -> None:
    env = CodeEnv(folder=str(small_task(tmp_path / "add")))
    env.reset(seed=0)
    if repaired:
        env.step(f"write calc.py\n{FIXED}")
    assert env._box is not None
    name = env._box.id
    gone = threading.Timer(0.5, lambda: subprocess.run(["docker", "kill", name], capture_output=True, check=True))
    gone.start()
    observation, reward, terminated, _, info = env.step("bash sleep 2.5")
    assert terminated
    assert str(observation).startswith("the sandbox broke")
    assert (reward, info["success"]) == (float(repaired), repaired)
    assert info["extras"]["tamper"]
    assert env.step("submit")[1:3] == (0.0, True)
    env.reset(seed=0)
    assert not env.step("submit")[4]["success"]
