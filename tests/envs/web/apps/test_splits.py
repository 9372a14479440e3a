"""Splits: held-out tasks are never trained on."""

import pytest
from turnwise.envs.web.apps.splits import BY, Instance, held_out_templates, instance, templates_of
from turnwise.envs.web.apps.tasks.catalog import SITES, TEMPLATES


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


def test_by_template_every_site_is_on_both_sides() -> None:
    train, test = templates_of("template", "train"), templates_of("template", "test")
    assert not set(train) & set(test)
    assert set(train) | set(test) == set(TEMPLATES)
    for site in SITES:
        assert 2 <= len(held_out_templates(site)) <= 4
        assert set(held_out_templates(site)) <= set(test)


@pytest.mark.parametrize("site", SITES)
def test_by_site_one_site_is_held_out(site: str) -> None:
    assert {TEMPLATES[name].site for name in templates_of("site", "test", site)} == {site}
    assert {TEMPLATES[name].site for name in templates_of("site", "train", site)} == set(SITES) - {site}


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown `by` 'color'"):
        templates_of("color", "train")
    with pytest.raises(ValueError, match="unknown site"):
        held_out_templates("bank")
    with pytest.raises(ValueError, match="must not be negative"):
        instance("site", "train", -1)
