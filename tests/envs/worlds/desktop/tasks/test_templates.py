"""Every template on real applications: the oracle succeeds, near misses fail, two runs of one seed look the same.

CI plays one template on its applications; `make soak` plays every one over 20 seeds.
"""

import json
from pathlib import Path

import pytest
from turnwise.envs.worlds.desktop.tasks import APPLICATIONS, GROUPS, TEMPLATES, draw
from turnwise.tests.soak.desktops import soak_desktops

SAMPLE = tuple(TEMPLATES)[::24]


@pytest.mark.slow
@pytest.mark.docker
def test_the_oracle_succeeds_and_near_misses_fail(desktops: None, tmp_path: Path) -> None:
    found = soak_desktops(tmp_path / "record.jsonl", [0], 2, templates=SAMPLE[:1])
    assert found["failed"] == {}
    assert (found["passed"], found["left"]) == (1, 0)


def test_an_interrupted_soak_plays_what_has_not_passed(tmp_path: Path) -> None:
    record, (failed, *others) = tmp_path / "record.jsonl", SAMPLE
    rows = [{"template": name, "seed": 0, "problem": ""} for name in others]
    rows += [{"template": failed, "seed": 0, "problem": "no reward"}]
    record.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = soak_desktops(record, [0, 1], 1, seconds=0, templates=SAMPLE)
    assert (found["passed"], found["left"]) == (len(others), len(SAMPLE))
    assert found["failed"] == {f"{failed}, seed 0": "no reward"}


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
