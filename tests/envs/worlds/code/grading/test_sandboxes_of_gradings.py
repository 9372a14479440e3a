"""A sandbox that held hidden tests or inputs of cases is leased again for the same purpose only."""

from pathlib import Path

import pytest
from turnwise.envs.worlds.code.env import CodeEnv
from turnwise.sandbox import set_provider
from turnwise.tests.envs.worlds.code.faulty_provider import FaultyProvider
from turnwise.tests.envs.worlds.code.small_task import FIXED, HIDDEN, TOML, small_task

pytestmark = pytest.mark.docker

CASE = """
[[case]]
call = "calc.add(2, 3)"
returns = "5"

[[case]]
call = "calc.add(400, 36)"
returns = "436"
"""


def sandboxes(backend: str, folders: list[Path]) -> dict[str, set[str]]:
    """Solve the task of each folder; return the leased sandboxes by purpose."""
    provider = FaultyProvider(backend, capacity=3, warm=0)
    set_provider(provider)
    try:
        for folder in folders:
            env = CodeEnv(folder=str(folder), trusted=backend == "local")
            env.reset(seed=0)
            env.step(f"write calc.py\n{FIXED}")
            assert env.step("submit")[4]["success"]
    finally:
        set_provider(None)
        provider.close()
    by_purpose = dict[str, set[str]]()
    for purpose, sandbox in provider.leases:
        by_purpose.setdefault(purpose, set()).add(sandbox)
    return by_purpose


def assert_disjoint(by_purpose: dict[str, set[str]]) -> None:
    assert len(set[str]().union(*by_purpose.values())) == sum(map(len, by_purpose.values()))


def test_agents_never_get_a_sandbox_of_a_grading_by_cases(tmp_path: Path) -> None:
    by_purpose = sandboxes("local", [small_task(tmp_path / "add", toml=TOML + CASE, hidden="")] * 4)
    assert set(by_purpose) == {"", "cases"}
    assert_disjoint(by_purpose)


@pytest.mark.soak
def test_agents_never_get_a_sandbox_of_hidden_tests(tmp_path: Path) -> None:
    both = small_task(tmp_path / "both", toml=TOML + CASE)
    other = small_task(tmp_path / "other", hidden=HIDDEN.replace("30", "40"))
    by_purpose = sandboxes("docker", [both, other, both])
    assert set(by_purpose) == {"", "cases", "tests"}
    assert_disjoint(by_purpose)
