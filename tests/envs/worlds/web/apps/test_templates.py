"""Every template on the real servers: the oracle succeeds and near misses fail.

CI plays a template of every kind on every site; the soak plays all.
"""

import os
import re
from functools import cache
from pathlib import Path

import pytest
from turnwise.envs.worlds.web.actions import ANSWER
from turnwise.envs.worlds.web.apps.tasks import SITES, TEMPLATES, draw
from turnwise.envs.worlds.web.apps.tasks.template import Act, AppTask
from turnwise.tests.envs.soaked import soaked_but
from turnwise.tests.envs.worlds.web.apps.running import Served

pytestmark = pytest.mark.slow

SEEDS = int(os.environ.get("TURNWISE_SITE_SEEDS", "1"))
KINDS = {"lookup", "search", "create", "edit", "delete", "wizard", "compound"}
IN_CI = {(template.group, template.kind): name for name, template in TEMPLATES.items()}.values()


@cache
def drawn(name: str) -> list[AppTask]:
    """Return the tasks of twenty seeds."""
    return [draw(name, seed) for seed in range(20)]


@pytest.mark.parametrize("name", soaked_but(IN_CI, TEMPLATES))
def test_the_oracle_succeeds_and_near_misses_fail(name: str, sites: dict[str, Served]) -> None:
    for seed in range(SEEDS):
        task = draw(name, seed)
        served = sites[task.site]
        solved, browser = served.play(task, task.oracle)
        assert solved, task.goal
        assert set(browser.statuses) == {200}
        assert len(task.near_misses) >= 2
        for acts in ((), *task.near_misses):
            missed, browser = served.play(task, acts)
            assert not missed, (task.goal, acts)
            assert set(browser.statuses) <= {200, 422}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_task_is_a_pure_function_of_the_seed(name: str) -> None:
    first, again, other = draw(name, 7), drawn(name)[7], drawn(name)[8]
    assert first == again
    assert other.goal != first.goal


@pytest.mark.parametrize("name", TEMPLATES)
def test_there_are_many_different_instances(name: str) -> None:
    goals = {task.goal for task in drawn(name)}
    assert len(goals) >= 12


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_goal_contains_everything_to_type(name: str) -> None:
    for task in drawn(name)[:5]:
        typed = {act.value for act in task.oracle if act.verb == "fill" and act.role == "textbox"}
        # The text of a section is that of the page with the correction in the goal.
        missing = [text for text in typed if text not in task.goal and not text.startswith("== ")]
        assert missing == [] or name in LOOKED_UP, task.goal
        answers = any(act.verb == ANSWER for act in task.oracle)
        assert answers == (task.answer is not None) == ("Answer with" in task.goal)


LOOKED_UP = {"tracker/mark-duplicate"}
"""Tasks whose input must be found on the site."""


def test_every_site_has_templates_of_every_kind() -> None:
    assert len(TEMPLATES) >= 33
    for site in SITES:
        mine = [template for template in TEMPLATES.values() if template.group == site]
        assert len(mine) >= 11
        assert {template.kind for template in mine} == KINDS


def test_an_unknown_template_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown template"):
        draw("shop/nothing", 0)


def test_a_detour_and_an_unrequested_answer_are_accepted(sites: dict[str, Served]) -> None:
    task = draw("shop/add-address", 1)
    wrong = [Act("fill", "textbox", "Street", "") if act.name == "Street" else act for act in task.oracle]
    right = [act for act in task.oracle if act.verb == "fill" and act.name == "Street"]
    acts = (*wrong, *right, Act("click", "button", "Save address"), Act(ANSWER, value="done"))
    assert sites["shop"].play(task, acts)[0]


def test_the_page_lists_every_template() -> None:
    page = (Path(__file__).resolve().parents[5] / "docs" / "shipped_environments" / "web.md").read_text()
    found = {
        f"{site}/{name}"
        for site, names in re.findall(r"^\* `(\w+)/`: ((?:[\w-]+,?\s+)+)", page, re.MULTILINE)
        for name in re.split(r",\s+", names.strip())
    }
    assert found == set(TEMPLATES)
