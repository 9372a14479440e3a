"""A sandbox that held hidden tests or inputs of cases is leased again for the same purpose only."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from turnwise.envs.code.env import CodeEnv
from turnwise.sandbox import set_provider
from turnwise.tests.envs.code.faulty_provider import FaultyProvider
from turnwise.tests.envs.code.small_task import FIXED, HIDDEN, TOML, small_task

CASE = '\n[[case]]\ncall = "calc.add(2, 3)"\nreturns = "5"\n'


@pytest.fixture
def provider(docker: str) -> Iterator[FaultyProvider]:
    made = FaultyProvider("docker", capacity=3, warm=0)
    set_provider(made)
    yield made
    set_provider(None)
    made.close()


def test_agents_never_get_a_sandbox_of_a_grading(provider: FaultyProvider, tmp_path: Path) -> None:
    both = small_task(tmp_path / "both", toml=TOML + CASE)
    other = small_task(tmp_path / "other", hidden=HIDDEN.replace("30", "40"))
    for folder in (both, other, both):
        env = CodeEnv(folder=str(folder))
        env.reset(seed=0)
        env.step(f"write calc.py\n{FIXED}")
        assert env.step("submit")[4]["success"]
    by_purpose = dict[str, set[str]]()
    for purpose, sandbox in provider.leases:
        by_purpose.setdefault(purpose, set()).add(sandbox)
    assert len(by_purpose) == 3, "agents, cases and hidden tests"
    assert len(set[str]().union(*by_purpose.values())) == sum(map(len, by_purpose.values()))
