"""The keys of a configuration that differ from the defaults: a component's options from those of that component."""

from turnwise.trainer.config.defaults import config_keys
from turnwise.trainer.config.loading import parse_config


def changed(**keys: object) -> dict[str, tuple[object, object]]:
    config = parse_config({"name": "r", "environments": [{"id": "a/A-v0"}], **keys}).resolved()
    return {one.key: (one.value, one.default) for one in config_keys(config) if one.is_changed}


def test_a_run_with_the_defaults_changes_nothing() -> None:
    assert changed() == {}


def test_the_options_of_a_component_are_compared_with_its_own_defaults() -> None:
    assert changed(advantage={"name": "turn_return", "gamma": 0.8}, seed=3) == {
        "advantage.name": ("turn_return", "grpo"),
        "advantage.gamma": (0.8, 1.0),
        "seed": (3, 0),
    }


def test_a_configuration_that_cannot_be_read_has_no_defaults() -> None:
    assert [(one.key, one.default, one.is_changed) for one in config_keys({"odd": {"a": 1}})] == [("odd.a", None, True)]
