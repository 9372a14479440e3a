"""A run refuses tasks whose verdict the agent can forge, before it starts anything; an evaluation plays them."""

from pathlib import Path
from typing import Any

import gymnasium
import pytest
from turnwise.envs import make
from turnwise.envs.base import Adapted
from turnwise.envs.errors import NotTrainable
from turnwise.tests.envs.faulty import FAULTY, HANG
from turnwise.tests.envs.worlds.code.small_task import TOML, small_task
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.preflight.environments import forgeable_rewards
from turnwise.trainer.preflight.refusal import Refused
from turnwise.trainer.run.run import train

from .refusing import call

CODE = "turnwise/Code-v0"
CASE = """
[[case]]
call = "calc.add(2, 3)"
returns = "5"

[[case]]
call = "calc.add(400, 36)"
returns = "436"
"""
REFUSED = "turnwise/Code-v0 cannot be trained on: task add of .*hidden `tests/`.*forge.*`call`.*`trusted = true`"


def refuse(folder: Path) -> None:
    check(10.0, {"id": CODE, "options": {"folder": str(folder)}})


def check(timeout_s: float, *environments: dict[str, Any]) -> None:
    settings = {"name": "r", "environments": environments, "rollout": {"reset_timeout_s": timeout_s}}
    call(forgeable_rewards, parse_config(settings))


def test_hidden_tests_are_refused_with_and_without_cases(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=REFUSED):
        refuse(small_task(tmp_path / "add"))
    with pytest.raises(Refused, match=REFUSED):
        refuse(small_task(tmp_path / "both" / "add", toml=TOML + CASE))


def test_cases_and_trusted_tests_are_accepted(tmp_path: Path) -> None:
    refuse(small_task(tmp_path / "cases", toml=TOML + CASE, hidden=""))
    refuse(small_task(tmp_path / "trusted", toml="trusted = true\n" + TOML))
    refuse(small_task(tmp_path / "evaluated", toml='split = "test"\n' + TOML).parent)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ('argv = ["sh", "run.sh"]', "the case compares no answer"),
        ('argv = ["sh", "run.sh"]\nstdout = "5"', "`argv` runs no program that solution/ changes"),
        ("stdin = '5'", "a case needs `call` and `returns`"),
    ],
)
def test_a_task_that_is_forgeable_or_does_not_load_is_refused(tmp_path: Path, bad: str, message: str) -> None:
    with pytest.raises(Refused, match=rf"cannot be trained on: .*add/task.toml: case.0: {message}"):
        refuse(small_task(tmp_path / "add", toml=f"{TOML}\n[[case]]\n{bad}\n", hidden=""))


@pytest.mark.parametrize("literal", ["{[1]: 2}", "-" * 200_000 + "1"])
def test_a_task_that_breaks_the_check_does_not_hide_another(tmp_path: Path, literal: str) -> None:
    small_task(tmp_path / "forgeable")
    small_task(tmp_path / "broken", toml=f'{TOML}\n[[case]]\ncall = "calc.add(1)"\nreturns = "{literal}"\n', hidden="")
    with pytest.raises(Refused, match="task forgeable of"):
        refuse(tmp_path)


@pytest.mark.parametrize(
    ("fault", "cause"),
    [("raise", "raised.*the page is gone"), ("hang", "did not return within 0.2 s")],
)
def test_a_check_that_fails_refuses_the_environment(fault: str, cause: str) -> None:
    HANG.clear()
    try:
        with pytest.raises(Refused, match=rf"(?s)cannot be trained on.*{cause}.*`rollout.reset_timeout_s`"):
            check(0.2, {"id": FAULTY, "options": {"fault": fault, "where": "check_trainable"}})
    finally:
        HANG.set()


def test_one_task_of_a_set_is_named(tmp_path: Path) -> None:
    for name in ("add", "minus", "times"):
        small_task(tmp_path / name)
    small_task(tmp_path / "aa", toml="trusted = true\n" + TOML)
    with pytest.raises(Refused, match="task add and 2 more of"):
        refuse(tmp_path)


def test_other_environments_and_other_failures_are_accepted() -> None:
    broken = {"id": FAULTY, "options": {"fault": "raise", "where": "make"}}
    check(10.0, broken, {"id": CODE}, {"id": "turnwise/TextSite-v0"})


def test_a_run_starts_nothing(tmp_path: Path) -> None:
    folder = small_task(tmp_path / "add")
    config = parse_config({"name": "forged", "environments": [{"id": CODE, "options": {"folder": str(folder)}}]})
    notes: list[object] = []
    with pytest.raises(Refused, match=REFUSED):
        train(config, store_url=f"sqlite:///{tmp_path}/turnwise.db", report=notes.append)
    assert notes == []
    assert not (tmp_path / "turnwise.db").exists()


def test_a_wrapped_environment_is_checked(tmp_path: Path) -> None:
    inner = make(CODE, folder=str(small_task(tmp_path / "add")))
    with pytest.raises(NotTrainable, match="task add"):
        Adapted(gymnasium.Wrapper(inner)).check_trainable()
