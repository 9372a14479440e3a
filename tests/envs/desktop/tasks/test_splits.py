"""Splits: held-out tasks are never trained on."""

import pytest
from turnwise.envs.desktop.tasks.catalog import APPLICATIONS, GROUPS, TEMPLATES
from turnwise.envs.desktop.tasks.splits import BY, Instance, held_out_templates, instance, templates_of


def drawn(by: str, split: str) -> list[Instance]:
    return [instance(by, split, index) for index in range(600)]


@pytest.mark.parametrize("by", BY)
def test_no_instance_is_on_both_sides(by: str) -> None:
    train, test = drawn(by, "train"), drawn(by, "test")
    assert len(set(train)) == len(set(test)) == 600
    assert not set(train) & set(test)


def test_by_instance_the_templates_are_the_same_and_the_seeds_apart() -> None:
    train, test = drawn("instance", "train"), drawn("instance", "test")
    assert {each.template for each in train} == {each.template for each in test} == set(TEMPLATES)
    assert not {each.seed for each in train} & {each.seed for each in test}


def test_by_template_every_group_is_on_both_sides() -> None:
    train, test = templates_of("template", "train"), templates_of("template", "test")
    assert not set(train) & set(test)
    assert set(train) | set(test) == set(TEMPLATES)
    for group in GROUPS:
        held_out = held_out_templates(group)
        assert 1 <= len(held_out) <= 2
        assert set(held_out) <= set(test)
        assert [name for name in train if TEMPLATES[name].group == group]


@pytest.mark.parametrize("application", APPLICATIONS)
def test_by_application_no_training_task_uses_the_held_out_one(application: str) -> None:
    train, test = (templates_of("application", split, application) for split in ("train", "test"))
    assert all(application not in TEMPLATES[name].uses for name in train)
    assert test
    assert all(application in TEMPLATES[name].uses for name in test)
    assert set(train) | set(test) == set(TEMPLATES)


def test_without_screenshots_visual_tasks_are_left_out() -> None:
    left_out = set(templates_of("instance", "train")) - set(templates_of("instance", "train", visual=False))
    assert left_out == {name for name, template in TEMPLATES.items() if template.visual} != set()


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown `by` 'color'"):
        templates_of("color", "train")
    with pytest.raises(ValueError, match="unknown group"):
        held_out_templates("browser")
    with pytest.raises(ValueError, match="must not be negative"):
        instance("application", "train", -1)
