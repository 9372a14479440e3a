"""Every template on real applications: the oracle succeeds, near misses fail, two runs of one seed look the same.

CI samples the templates; `make soak` plays every one over 20 seeds.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from turnwise.envs.base import Obs
from turnwise.envs.desktop.oracle import resolve
from turnwise.envs.desktop.tasks.catalog import APPLICATIONS, GROUPS, TEMPLATES, draw
from turnwise.envs.desktop.tasks.env import DesktopTasksEnv

SEEDS = int(os.environ.get("TURNWISE_DESKTOP_SEEDS", "1"))
EVERY = int(os.environ.get("TURNWISE_DESKTOP_EVERY", "16"))
SAMPLE = tuple(TEMPLATES)[::EVERY]


@pytest.fixture(scope="module")
def env(desktops: None) -> Iterator[DesktopTasksEnv]:
    made = DesktopTasksEnv()
    yield made
    made.close()


def played(env: DesktopTasksEnv, name: str, seed: int, acts: Sequence[str]) -> tuple[float, list[Obs]]:
    """Play acts from the start of a task; return the reward and the observations."""
    env.choice = replace(env.choice, template=name)
    observation, _ = env.reset(seed=seed)
    total, seen, over = 0.0, [observation], False
    for act in acts:
        assert not over, f"the episode ended before {act}"
        observation, reward, over, _, info = env.step(resolve(act, env.nodes))
        assert info["action_valid"], (act, observation)
        total += reward
        seen.append(observation)
    assert over
    return total, seen


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.parametrize("name", SAMPLE)
def test_the_oracle_succeeds_and_near_misses_fail(env: DesktopTasksEnv, name: str) -> None:
    for seed in range(SEEDS):
        task = draw(name, seed)
        reward, seen = played(env, name, seed, task.oracle)
        assert reward == 1.0, (task.goal, seen[-1])
        again, seen_again = played(env, name, seed, task.oracle)
        assert again == 1.0
        assert seen == seen_again
        for acts in (("done()",), *task.near_misses):
            assert played(env, name, seed, acts)[0] == 0.0, (task.goal, acts)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_task_is_a_pure_function_of_the_seed(name: str) -> None:
    first, again = draw(name, 7), draw(name, 7)
    assert (first.goal, first.files, first.oracle, first.data) == (again.goal, again.files, again.oracle, again.data)
    others = [draw(name, seed) for seed in range(20)]
    assert len({(task.goal, tuple(task.files.items())) for task in others}) >= 15


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_task_has_near_misses_and_a_goal_that_a_person_can_follow(name: str) -> None:
    for seed in range(5):
        task = draw(name, seed)
        assert len(set(task.near_misses) | {("done()",)}) >= 3
        assert task.oracle not in task.near_misses
        assert all(acts[-1].startswith(("done(", "fail(")) for acts in (task.oracle, *task.near_misses))
        assert task.goal[0].isupper()
        assert task.goal.endswith(".") or task.goal.endswith("?")
        answers = task.data.answer is not None
        assert answers == ("nswer with" in task.goal)
        assert answers == (task.oracle[-1] not in ("done()", "fail()"))


def test_the_catalog_covers_every_application_alone_and_with_others() -> None:
    assert len(TEMPLATES) >= 24
    assert set(GROUPS) == {*APPLICATIONS, "several"}
    together = {use for template in TEMPLATES.values() if template.group == "several" for use in template.uses}
    assert together == set(APPLICATIONS)


def test_an_unknown_template_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown template"):
        draw("editor/nothing", 0)
