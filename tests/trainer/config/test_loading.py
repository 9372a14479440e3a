"""Load a configuration from files, presets and overrides; errors name the key and suggest a correction."""

import json
import math
import tomllib
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from turnwise.errors import suggestion
from turnwise.trainer.algorithms.algorithm_set import SLOTS
from turnwise.trainer.algorithms.registry import component_names
from turnwise.trainer.config.errors import ConfigError, fields_at
from turnwise.trainer.config.loading import PRESETS, load_config, override, parse_config, preset_names
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.config.sections import LoraConfig

MINIMAL = {"name": "t", "environments": [{"id": "turnwise/TextSite-v0"}]}
QUICKSTART = Path(__file__).parents[3] / "examples" / "quickstart.toml"


def message(raw: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(raw)
    return str(caught.value)


@pytest.mark.parametrize(
    ("extra", "named", "near"),
    [
        ({"lerner": {}}, "`lerner`", "'learner'"),
        ({"learner": {"learning_rte": 1.0}}, "`learner.learning_rte`", "'learning_rate'"),
        ({"environments": [{"id": "e", "wieght": 2}]}, "`environments.0.wieght`", "'weight'"),
        ({"loss": {"name": "decoupled_ppo", "clip_ratio_lwo": 0.1}}, "`loss.clip_ratio_lwo`", "'clip_ratio_low'"),
        ({"loss": {"is_cpa": 0.1}}, "`loss.is_cpa`", "'is_cap'"),
        ({"advantage": {"name": "turn_retrun"}}, "`advantage.name`", "'turn_return'"),
        ({"group_filters": [{"name": "zero_varaince"}]}, "`group_filters.0.name`", "'zero_variance'"),
        ({"group_filters": [{"name": "zero_variance", "min_range": 1}]}, "`group_filters.0.min_range`", "'min_reward"),
        ({"group_filters": [{}]}, "`group_filters.0.name`", "known: zero_variance"),
        ({"engine": {"max_num_seq": 3}}, "`engine.max_num_seq`", "'max_num_seqs'"),
        ({"engine": {"gpu_memory_utilisation": 0.8}}, "`engine.gpu_memory_utilisation`", "'gpu_memory_utilization'"),
        ({"model": {"new": {"hiden": 3}}}, "`model.new.hiden`", "'hidden'"),
        ({"learner": {"lora": {"rnk": 8}}}, "`learner.lora.rnk`", "'rank'"),
        ({"preset": "tniy"}, "`preset`", "'tiny'"),
    ],
)
def test_a_misspelled_key_is_rejected_with_the_nearest_name(extra: dict[str, Any], named: str, near: str) -> None:
    text = message(MINIMAL | extra)
    assert named in text
    assert near in text


@pytest.mark.parametrize(
    ("assignment", "homes"),
    [
        ("steps=3", "`sft_warmup.steps`"),
        ("hidden=3", "`model.new.hidden`"),
        ("weight=3", "`environments.0.weight`"),
        ("max_turns=3", "`horizon.max_turns`"),
        ("rollout.interval=3", "`evaluation.interval` or `checkpoint.interval`"),
        ("rollout.name=3", None),
    ],
)
def test_a_key_in_the_wrong_section_is_rejected_with_the_right_section(assignment: str, homes: str | None) -> None:
    with pytest.raises(ConfigError, match=f"`{assignment[:-2]}`: unknown key") as caught:
        load_config(QUICKSTART, [assignment])
    if homes is None:
        assert " or " not in str(caught.value)
    else:
        assert f"(did you mean {homes}?)" in str(caught.value)


def sections_with(path: str) -> list[str]:
    return fields_at(RunConfig, tuple(path.split(".")[:-1]))


def test_one_error_names_all_wrong_keys() -> None:
    text = message(MINIMAL | {"lerner": {}, "learner": {"learning_rate": -1}, "loss": {"name": "ppoo"}})
    assert all(key in text for key in ("`lerner`", "`learner.learning_rate`", "`loss.name`"))


def test_a_value_out_of_range_names_its_key() -> None:
    assert "`learner.learning_rate`" in message(MINIMAL | {"learner": {"learning_rate": -1}})
    assert "`horizon.max_context`" in message(MINIMAL | {"horizon": {"max_context": 1}})


@pytest.mark.parametrize(
    "assignment",
    [
        *("learner.learning_rate=inf", "learner.learning_rate=nan", "learner.betas=[0.9, 1.0]"),
        *("learner.weight_decay=-0.1", "learner.weight_decay=inf", "rollout.temperature=inf", "max_seconds=inf"),
        *("environments.0.weight=inf", "advantage.gamma=5", "advantage.gamma=-1", "advantage.gamma=nan"),
        *("loss.is_cap=inf", "loss.clip_ratio_high=inf"),
    ],
)
def test_a_number_without_meaning_is_rejected(assignment: str) -> None:
    with pytest.raises(ConfigError, match=f"`{assignment.partition('=')[0]}"):
        load_config(QUICKSTART, [assignment])


def test_a_table_in_place_of_a_list_is_explained() -> None:
    assert "[[group_filters]]" in message(MINIMAL | {"group_filters": {"name": "zero_variance"}})
    assert "`loss.name`" in message(MINIMAL | {"loss": {"name": "none_such"}})
    assert message(MINIMAL | {"loss": 3}).endswith('`loss`: expected a table such as { name = "…" }')


def test_sampling_options_that_change_the_distribution_do_not_exist() -> None:
    assert "`rollout.top_p`" in message(MINIMAL | {"rollout": {"top_p": 0.9}})


def test_overrides_take_toml_values_and_dotted_paths(tmp_path: Path) -> None:
    config = load_config(QUICKSTART, ["seed=7", "learner.betas=[0.8, 0.9]", "environments.0.weight=2", "name=other"])
    assert (config.seed, config.learner.betas, config.environments[0].weight, config.name) == (
        7,
        (0.8, 0.9),
        2,
        "other",
    )
    stored = load_config(QUICKSTART).resolved()
    override(stored, "learner.lora.rank=16")  # `runs fork` overrides a stored configuration, where it is null
    assert parse_config(stored).learner.lora == LoraConfig(rank=16)
    with pytest.raises(ConfigError, match="expected key=value"):
        load_config(QUICKSTART, ["seed"])
    with pytest.raises(ConfigError, match=r"absent\.toml` does not exist"):
        load_config(tmp_path / "absent.toml")
    (tmp_path / "bad.toml").write_text("a = = 1")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_config(tmp_path / "bad.toml")


def test_the_resolved_configuration_round_trips() -> None:
    config = load_config(QUICKSTART)
    again = parse_config(json.loads(json.dumps(config.resolved())))
    assert again == config
    assert again.digest() == config.digest()
    assert load_config(QUICKSTART, ["seed=1"]).digest() != config.digest()


@pytest.mark.parametrize("example", sorted(QUICKSTART.parent.glob("*.toml")), ids=lambda path: path.stem)
def test_the_learning_rate_of_an_example_decays_along_its_limit(example: Path) -> None:
    config = load_config(example)
    if config.max_steps is not None:
        assert config.lr_progress(config.max_steps // 2, 1.0) == 0.5
    else:
        assert config.max_seconds is not None
        assert config.lr_progress(90, 0.5 * config.max_seconds) == 0.5


def test_keys_of_the_run_override_its_preset() -> None:
    tiny = parse_config(MINIMAL | {"preset": "tiny", "rollout": {"groups_per_batch": 3}})
    assert (tiny.rollout.groups_per_batch, tiny.rollout.max_concurrent_groups) == (3, 16)
    assert tiny.learner.num_minibatches == 3
    assert parse_config(MINIMAL | {"preset": "tiny", "learner": {"num_minibatches": 1}}).learner.num_minibatches == 1


def test_options_of_a_component_in_a_preset_are_not_passed_to_another_component() -> None:
    chosen = {"name": "turn_return", "gamma": 0.9}
    grpo = parse_config(MINIMAL | {"preset": "grpo"})
    other = parse_config(MINIMAL | {"preset": "grpo", "advantage": chosen})
    assert grpo.advantage.model_dump() == {"name": "grpo", "normalize_std": True}
    assert other.advantage.model_dump() == chosen


def test_a_list_replaces_the_list_of_the_preset() -> None:
    kept = parse_config(MINIMAL | {"preset": "grpo", "group_filters": [{"name": "zero_variance"}]})
    assert (len(kept.group_filters), parse_config(MINIMAL | {"preset": "grpo"}).group_filters) == (1, [])


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_loads_and_begins_with_a_description(preset: str) -> None:
    text = (PRESETS / f"{preset}.toml").read_text()
    assert text.startswith("# ")
    assert tomllib.loads(text)
    config = parse_config(MINIMAL | {"preset": preset})
    assert parse_config(config.resolved()) == config


def test_the_nearest_name_is_found_without_importing_a_component() -> None:
    assert suggestion("grop", component_names(next(one for one in SLOTS if one.slot == "advantage")))


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("learner.learning_rate=true", "true"),
        ("max_steps=true", "true"),
        ("rollout.max_staleness=false", "false"),
        ('seed="1_000"', '"1_000"'),
        ('horizon.max_turns="6.0"', '"6.0"'),
        ("environments.0.weight=true", "true"),
        ("loss.clip_ratio_low=true", "true"),
        ("sandboxes.max_per_node=true", "true"),
    ],
)
def test_a_truth_value_or_a_text_is_no_number(assignment: str, value: str) -> None:
    raw: dict[str, Any] = {"name": "r", "environments": [{"id": "a/B-v0", "options": {"open": True, "level": "2"}}]}
    parse_config(raw)
    override(raw, assignment)
    with pytest.raises(ConfigError) as raised:
        parse_config(raw)
    assert str(raised.value) == f"`{assignment.partition('=')[0]}`: a number is needed, not {value}"


@pytest.mark.parametrize(
    "value",
    [
        date(2024, 1, 1),
        time(1, 2),
        {"in": [datetime(2024, 1, 1, tzinfo=UTC)]},
        math.nan,
        [math.inf],
        (1, 2),
        {1: "a"},
        {"a"},
        b"a",
        Decimal(1),
        10**5000,
        Path("a"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_option_that_the_store_cannot_hold_as_it_is_is_refused_with_its_key(value: object) -> None:
    environment = {"id": "a/B-v0", "options": {"right": [1, None, 2**70, {"a": 0.1}], "day": value}}
    with pytest.raises(ConfigError, match=r"`options\.day` of the environment `a/B-v0` is .* cannot hold as it is"):
        parse_config(MINIMAL | {"environments": [environment]})
