"""Splits of the desktop tasks and of the web apps: held-out tasks are never trained on."""

import pytest
from turnwise.envs.draws import HELD_OUT_EVERY
from turnwise.envs.splits import Instance, TemplateChoice, TemplateSplits
from turnwise.envs.worlds.desktop.tasks import DESKTOP_SPLITS, VISUAL
from turnwise.envs.worlds.web.apps.tasks import APP_SPLITS

BOTH = (DESKTOP_SPLITS, APP_SPLITS)
BY = [(splits, by) for splits in BOTH for by in splits.by]
PARTS = [(splits, part) for splits in BOTH for part in splits.all_parts]


def drawn(splits: TemplateSplits, by: str, split: str) -> list[Instance]:
    choice = TemplateChoice(splits, by, splits.all_parts[0])
    return [choice.instance(index, split) for index in range(600)]


def sides(splits: TemplateSplits, by: str, part: str) -> tuple[set[str], set[str]]:
    train, test = (splits.templates_of(by, split, part) for split in ("train", "test"))
    assert train
    assert test
    assert not set(train) & set(test)
    assert set(train) | set(test) == set(splits.parts)
    return set(train), set(test)


@pytest.mark.parametrize(("splits", "by"), BY)
def test_no_instance_is_on_both_sides(splits: TemplateSplits, by: str) -> None:
    train, test = drawn(splits, by, "train"), drawn(splits, by, "test")
    assert len(set(train)) == len(set(test)) == 600
    assert not set(train) & set(test)


@pytest.mark.parametrize("splits", BOTH)
def test_by_instance_the_templates_are_the_same_and_the_seeds_apart(splits: TemplateSplits) -> None:
    train, test = drawn(splits, "instance", "train"), drawn(splits, "instance", "test")
    assert {each.template for each in train} == {each.template for each in test} == set(splits.parts)
    assert not {each.seed for each in train} & {each.seed for each in test}


@pytest.mark.parametrize("splits", BOTH)
def test_by_template_every_group_is_on_both_sides(splits: TemplateSplits) -> None:
    train, test = sides(splits, "template", splits.all_parts[0])
    for group in splits.groups:
        held_out = splits.held_out_templates(group)
        of_group = [name for name in splits.parts if name.startswith(f"{group}/")]
        assert len(held_out) == -(-len(of_group) // HELD_OUT_EVERY)
        assert set(held_out) == test & set(of_group)
        assert train & set(of_group)


@pytest.mark.parametrize(("splits", "part"), PARTS)
def test_by_part_no_training_task_needs_the_held_out_one(splits: TemplateSplits, part: str) -> None:
    train, test = sides(splits, splits.part, part)
    assert all(part not in splits.parts[name] for name in train)
    assert all(part in splits.parts[name] for name in test)


def test_held_out_templates_stay_the_same() -> None:
    assert APP_SPLITS.held_out_templates("wiki") == ("wiki/correct", "wiki/fact", "wiki/message", "wiki/reply")
    assert DESKTOP_SPLITS.held_out_templates("several") == ("several/price-to-note", "several/result-to-note")


def test_templates_that_are_left_out_are_not_drawn() -> None:
    choice = TemplateChoice(DESKTOP_SPLITS, "instance", "spreadsheet", left_out=VISUAL)
    shown = {choice.instance(index, "train").template for index in range(2 * len(DESKTOP_SPLITS.parts))}
    assert shown == set(DESKTOP_SPLITS.parts) - VISUAL
    assert VISUAL


def test_a_single_template_keeps_the_seed() -> None:
    choice = TemplateChoice(APP_SPLITS, "instance", "wiki", "shop/checkout")
    assert choice.instance(11, "test") == Instance("shop/checkout", 11)


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown `by` 'color'; choose from instance, template, site"):
        TemplateChoice(APP_SPLITS, "color", "wiki")
    with pytest.raises(ValueError, match="unknown `held_out_site` 'bank'"):
        TemplateChoice(APP_SPLITS, "site", "bank")
    with pytest.raises(ValueError, match="unknown template 'shop/nothing'"):
        TemplateChoice(APP_SPLITS, "site", "wiki", "shop/nothing")
    with pytest.raises(ValueError, match="unknown `group` 'browser'"):
        DESKTOP_SPLITS.held_out_templates("browser")
    with pytest.raises(ValueError, match="must not be negative"):
        TemplateChoice(DESKTOP_SPLITS, "application", "spreadsheet").instance(-1, "train")
