"""An agent that breaks its own sandbox gains nothing, and harms neither the episode's verdict nor the next episode.

CI tries a way of every kind; the soak tries all.
"""

import subprocess
import threading
import time
from pathlib import Path

import pytest
from turnwise.envs.worlds.code.env import CodeEnv
from turnwise.sandbox import SandboxLease, SandboxLost, set_provider
from turnwise.tests.envs.soaked import soaked_but
from turnwise.tests.envs.worlds.code.faulty_provider import FaultyProvider
from turnwise.tests.envs.worlds.code.small_task import FIXED, small_task
from turnwise.tests.sandbox.backends.test_endings import FILL

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
IN_CI = (
    "kills all it can",
    "fills the work folder",
    "eats memory",
    "floods",
    "hangs unkillably",
    "removes everything",
    "a link for a file",
    "a very deep folder",
    "names that are no text",
)


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


@pytest.mark.parametrize("way", soaked_but(IN_CI, BREAKING))
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
def test_a_sandbox_that_the_agent_breaks_is_graded_by_its_last_files(
    docker: str, tmp_path: Path, repaired: bool
) -> None:
    env = CodeEnv(folder=str(small_task(tmp_path / "add")), tamper_cost=0.25)
    env.reset(seed=0)
    if repaired:
        env.step(f"write calc.py\n{FIXED}")
    terminated, actions = False, iter([f"bash python3 - <<'X'\n{FILL}\nX", *["bash head -c 10M /tmp/full"] * 60])
    while not terminated:
        observation, reward, terminated, _, info = env.step(next(actions))
    assert str(observation).startswith("the sandbox broke")
    assert (reward, info["success"]) == (float(repaired) - 0.25, repaired)
    assert "memory limit" in info["extras"]["tamper"][0]


def killed(name: str) -> None:
    subprocess.run(["docker", "kill", name], capture_output=True, check=True)


def test_an_end_from_outside_is_a_failure_at_every_stage(docker: str, tmp_path: Path) -> None:
    """Before a step, during a step, before the submission and during a snapshot."""
    env = CodeEnv(folder=str(small_task(tmp_path / "add")))
    for action, when in (("bash ls", 0.0), ("bash sleep 3", 0.7), ("submit", 0.0)):
        env.reset(seed=0)
        env.step(f"write calc.py\n{FIXED}")
        assert env._box is not None
        name = env._box.id
        threading.Timer(when, killed, [name]).start() if when else killed(name)
        with pytest.raises(SandboxLost):
            env.step(action)
        assert env.step("submit")[1:3] == (0.0, True)
    env.reset(seed=0)
    assert env._box is not None
    killed(env._box.id)
    assert env.snapshot() is None
    with pytest.raises(SandboxLost):
        env.step("submit")
    env.reset(seed=0)
    assert not env.step("submit")[4]["success"]


@pytest.mark.parametrize("kills", [1, 2])
def test_a_grading_that_ends_from_outside_is_repeated_or_fails(tmp_path: Path, kills: int) -> None:
    provider = FaultyProvider("docker", capacity=4)
    set_provider(provider)
    env = CodeEnv(folder=str(small_task(tmp_path / "add")))
    env.reset(seed=0)
    env.step(f"write calc.py\n{FIXED}")
    left = iter(range(kills))

    def kill(lease: SandboxLease) -> None:
        if next(left, None) is not None:
            killed(lease.id)

    provider.fault = kill
    if kills == 1:
        assert env.step("submit")[1] == 1.0
    else:
        with pytest.raises(SandboxLost):
            env.step("submit")
    set_provider(None)
    provider.close()
