"""``turnwise/Code-v0``: its tools, observations and rewards."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from turnwise.envs import make
from turnwise.envs.authoring.check import check
from turnwise.envs.worlds.code.env import CodeEnv
from turnwise.envs.worlds.code.grading.pytest_host import BrokenTests
from turnwise.tests.envs.worlds.code.small_task import BROKEN, FIXED, small_task


@pytest.fixture
def env(sandboxes: str, tmp_path: Path) -> Iterator[CodeEnv]:
    made = CodeEnv(folder=str(small_task(tmp_path / "add", toml=BY_CASES, hidden="")), trusted=True)
    made.reset(seed=0)
    yield made
    made.close()


BY_CASES = """
instruction = "add of calc.py must add. Repair it."
protected = ["tests/*"]

[limits]
command_seconds = 2

[[case]]
call = "calc.add(2, 3)"
returns = "5"

[[case]]
call = "calc.add(70, 27)"
returns = "97"
"""


def seen(env: CodeEnv, action: str) -> str:
    observation = env.step(action)[0]
    assert isinstance(observation, str)
    return observation


def test_the_tools(env: CodeEnv) -> None:
    assert seen(env, "bash echo one; echo two >&2; exit 3") == "exit 3\none\nstderr:\ntwo"
    assert seen(env, "view .") == "calc.py\ntests/test_calc.py"
    assert seen(env, "view calc.py") == "    1 def add(one, two):\n    2     return one - two"
    assert seen(env, "view calc.py 2 9") == "    2     return one - two"
    assert seen(env, "edit calc.py\n<<<<<<<\none * two\n=======\none + two\n>>>>>>>").endswith(
        "does not occur as whole lines"
    )
    edit = "edit calc.py\n<<<<<<<\n    return one - two\n=======\n    return one + two\n>>>>>>>"
    assert seen(env, edit) == "edited calc.py: 1 place"
    assert seen(env, "view calc.py 2 2") == "    2     return one + two"
    assert seen(env, "write new/a.txt\nhello\n\n") == "wrote new/a.txt"
    assert seen(env, "```bash\ncat new/a.txt; wc -l < new/a.txt\n```") == "exit 0\nhello\n\n2"
    observation, reward, terminated, _, info = env.step("submit")
    assert (observation, reward, terminated) == ("submitted: every check passes", 1.0, True)
    assert (info["success"], info["extras"], info["reward_parts"]) == (True, {}, {"success": 1.0})


IMPOSSIBLE = (
    "",
    "hello",
    "done",
    "bash",
    "view",
    "view none.py",
    "view calc.py 9 3",
    "view calc.py 90 99",
    "view \0",
    "\0",
    "write",
    "write /etc/x\na",
    "write calc.py/x\na",
    "edit calc.py",
    "edit calc.py\nno blocks",
    "edit none.py\n<<<<<<<\na\n=======\nb\n>>>>>>>",
    "edit calc.py\n<<<<<<<\n=======\nb\n>>>>>>>",
    "```\na\n```\nand\n```\nb\n```",
)


@pytest.mark.parametrize("action", IMPOSSIBLE)
def test_an_impossible_action_is_an_observation(env: CodeEnv, action: str) -> None:
    observation, reward, terminated, truncated, info = env.step(action)
    assert observation
    assert (reward, terminated, truncated, info["action_valid"]) == (0.0, False, False, False)


def test_observations_are_bounded_and_report_the_omitted_part(env: CodeEnv) -> None:
    text = seen(env, "bash seq 1 20000")
    assert len(text) < 4100
    assert text.startswith("exit 0\n1\n2\n")
    assert text.endswith("\n20000")
    assert "characters left out" in text
    assert seen(env, "bash yes").startswith("killed: it printed too much")
    assert seen(env, "bash sleep 30") == "killed: not over after 2 s"
    assert "�" in seen(env, "bash printf '\\xff\\xfe'")


def test_state_key_names_the_files(env: CodeEnv) -> None:
    keys = [
        env.step(action)[4]["state_key"]
        for action in ("bash true", f"write calc.py\n{FIXED}", f"write calc.py\n{BROKEN}")
    ]
    assert keys[0] == keys[2] != keys[1]


def test_episodes_begin_clean(env: CodeEnv) -> None:
    seen(env, "bash sleep 60 & echo x > /tmp/kept; echo y > kept")
    env.reset(seed=0)
    assert seen(env, "bash ls -A /workspace /tmp; ps -e | grep -c sleep").splitlines()[-1] == "0"
    assert "kept" not in seen(env, "bash ls -A /workspace /tmp")


@pytest.mark.parametrize("sandboxes", ["local", pytest.param("docker", marks=pytest.mark.soak)], indirect=True)
def test_step_rewards_sum_to_the_final_share_and_cannot_be_farmed(sandboxes: str) -> None:
    env = make("turnwise/Code-v0", family="rename", step_reward=True, trusted=True, turn_cost=0.01, invalid_cost=0.1)
    env.reset(seed=1)
    begun, rng, total, costs = 4 / 7, random.Random(0), 0.0, 0.0
    oracles = []
    for _ in range(3):
        oracles.append(env.oracle())
        reward, _, _, info = env.step(oracles[-1])[1:]
        total += info["reward_parts"].get("passing", 0.0)
        costs += reward - info["reward_parts"].get("passing", 0.0)
    for _ in range(4):
        path = oracles[rng.randrange(3)].split("\n")[0].split()[1]
        total += env.step(f"bash cp {path} x; echo > {path}")[4]["reward_parts"].get("passing", 0.0)
        total += env.step(f"bash mv x {path}")[4]["reward_parts"].get("passing", 0.0)
    assert total == pytest.approx(1 - begun)
    assert costs == pytest.approx(-0.03)
    assert env.step("nonsense")[1] == pytest.approx(-0.11)
    reward, terminated, _, info = env.step("submit")[1:]
    assert (terminated, info["success"]) == (True, True)
    assert reward == pytest.approx(0.99)
    env.close()


def test_broken_hidden_tests_are_a_failure_of_the_world(any_sandboxes: str, tmp_path: Path) -> None:
    folder = small_task(tmp_path / "add", hidden="import no_such_module\n")
    env = CodeEnv(folder=str(folder), trusted=True)
    with pytest.raises(BrokenTests):
        env.reset(seed=0)
    env.close()


def test_costs_default_to_nothing(env: CodeEnv) -> None:
    assert env.step("nonsense")[4]["reward_parts"] == {}


def test_it_holds_to_its_contract(any_sandboxes: str) -> None:
    report = check("turnwise/Code-v0", {"trusted": True})
    assert report.ok, "\n".join(report.lines())


def test_unknown_family_and_split_are_refused() -> None:
    with pytest.raises(ValueError, match="choose from mix, boundary"):
        CodeEnv("fly")
    with pytest.raises(ValueError, match="unknown split 'dev'"):
        CodeEnv().reset(seed=0, options={"split": "dev"})
    with pytest.raises(RuntimeError, match="before its first reset"):
        CodeEnv().step("submit")
