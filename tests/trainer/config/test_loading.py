"""The configuration says what is wrong with it, and names the nearest key."""

from pathlib import Path

import pytest
from turnwise.agents.rollout.episode import Deadlines
from turnwise.trainer.algorithms.algorithm_set import Extensions
from turnwise.trainer.algorithms.registry import SLOTS, build, fields_at
from turnwise.trainer.config.schema import (
    LISTS,
    MATHEMATICS,
    ConfigError,
    LearnerConfig,
    RolloutConfig,
    RunConfig,
    load_config,
    parse_config,
)

MINIMAL = {"name": "t", "environments": [{"id": "turnwise/TextSite-v0"}]}
QUICKSTART = Path(__file__).parents[3] / "examples" / "quickstart.toml"


def message(raw: dict) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(raw)
    return str(caught.value)


@pytest.mark.parametrize(
    ("extra", "named", "nearest"),
    [
        ({"lerner": {}}, "lerner", "'learner'"),
        ({"learner": {"learning_rte": 1.0}}, "learner.learning_rte", "'learning_rate'"),
        ({"environments": [{"id": "e", "wieght": 2}]}, "environments.0.wieght", "'weight'"),
        ({"loss": {"name": "decoupled", "clip_lwo": 0.1}}, "loss.clip_lwo", "'clip_low'"),
        ({"advantage": {"name": "group_maen"}}, "group_maen", "'group_mean'"),
        ({"group_filters": [{"name": "informativ"}]}, "informativ", "'informative'"),
        ({"model": {"new": {"hiden": 3}}}, "model.new.hiden", "'hidden'"),
    ],
)
def test_a_misspelt_key_names_the_nearest(extra: dict, named: str, nearest: str) -> None:
    said = message(MINIMAL | extra)
    assert named in said
    assert nearest in said


@pytest.mark.parametrize(
    ("assignment", "homes"),
    [
        ("updates=3", "'budget.updates'"),
        ("hidden=3", "'model.new.hidden'"),
        ("weight=3", "'environments.0.weight'"),
        ("turns=3", "'horizon.turns'"),
        ("rollout.every=3", "'evaluation.every' or 'checkpoint.every'"),
        ("rollout.name=3", None),
    ],
)
def test_a_key_in_the_wrong_section_names_the_right_one(assignment: str, homes: str | None) -> None:
    with pytest.raises(ConfigError, match=f"{assignment[:-2]}: unknown key") as caught:
        load_config(QUICKSTART, [assignment])
    if homes is None:
        assert " or " not in str(caught.value)
    else:
        assert f"(did you mean {homes}?)" in str(caught.value)


def test_a_value_out_of_range_names_its_key() -> None:
    assert "learner.learning_rate" in message(MINIMAL | {"learner": {"learning_rate": -1}})
    assert "horizon.context" in message(MINIMAL | {"horizon": {"context": 9999}})


def test_sampling_options_that_bend_the_distribution_do_not_exist() -> None:
    assert "top_p" in message(MINIMAL | {"rollout": {"top_p": 0.9}})


def test_overrides_take_toml_values_and_dotted_paths(tmp_path: Path) -> None:
    config = load_config(QUICKSTART, ["seed=7", "learner.betas=[0.8, 0.9]", "environments.0.weight=2", "name=other"])
    assert (config.seed, config.learner.betas, config.environments[0].weight, config.name) == (
        7,
        (0.8, 0.9),
        2,
        "other",
    )
    with pytest.raises(ConfigError, match="expected key=value"):
        load_config(QUICKSTART, ["seed"])
    with pytest.raises(ConfigError, match="cannot read"):
        load_config(tmp_path / "absent.toml")
    (tmp_path / "bad.toml").write_text("a = = 1")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_config(tmp_path / "bad.toml")


def test_the_resolved_configuration_reads_back_as_itself() -> None:
    config = load_config(QUICKSTART)
    again = parse_config(config.resolved())
    assert again == config
    assert again.digest() == config.digest()
    assert load_config(QUICKSTART, ["seed=1"]).digest() != config.digest()


OPERATIONAL = {
    "name": None,
    "budget": None,
    "evaluation": None,
    "checkpoint": None,
    "sandboxes": None,
    "ray_address": None,
    "tensorboard": None,
    "environments": {"concurrency"},
    "rollout": {
        "max_running",
        "workers",
        "engines",
        "reset_deadline",
        "step_deadline",
        "turn_deadline",
        "group_deadline",
    },
    "learner": {"tokens_per_pass", "threads", "device"},
    "engine": {
        "max_context",
        "max_sequences",
        "max_batch_tokens",
        "kv_cache_mib",
        "block_size",
        "threads",
        "gpus",
    },
}
"""The keys that a run may change and resume; None for a whole section."""


def test_every_key_is_of_the_mathematics_or_operational() -> None:
    slots = (SLOTS.keys() | LISTS) - set(LISTS.values())
    whole = {name for name, keys in (MATHEMATICS | OPERATIONAL).items() if keys in (True, None)}
    parted = MATHEMATICS.keys() & OPERATIONAL.keys()
    assert whole | parted | slots == set(RunConfig.model_fields)
    for section in parted:
        keys = MATHEMATICS[section]
        keys = keys.get("__all__") if isinstance(keys, dict) else keys
        assert not keys & OPERATIONAL[section]
        assert keys | OPERATIONAL[section] == set(fields_at(RunConfig, (section,))), section


JUDGE = {"name": "judge", "url": "http://a/v1", "model": "m", "rubric": "r"}


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"},
        {"tensorboard": True},
        {"ray_address": "auto"},
        {"budget": {"updates": 1000, "seconds": 5}},
        {"evaluation": {"tasks": 3}},
        {"checkpoint": {"keep": 9}},
        {"rollout": {"workers": 3, "group_deadline": 9}},
        {"engine": {"kv_cache_mib": 999}},
        {"environments": [{"id": "turnwise/TextSite-v0", "concurrency": 3}]},
        {"learner": {"threads": 3}},
        {"reward_shapers": [JUDGE | {"url": "http://b/v1", "at_once": 3}]},
        {"horizon": {"name": "constant", "turns": 12}},
    ],
)
def test_a_resumed_run_may_change_how_it_runs(changes: dict) -> None:
    base = MINIMAL | {"reward_shapers": [JUDGE]}
    assert parse_config(base | changes).digest() == parse_config(base).digest()


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"model": {"new": {"hidden": 256}}},
        {"environments": [{"id": "turnwise/TextSite-v0", "options": {"family": "find"}}]},
        {"rollout": {"staleness": 0}},
        {"learner": {"learning_rate": 0.5}},
        {"engine": {"dtype": "bfloat16"}},
        {"warmup": {"steps": 1}},
        {"horizon": {"turns": 13}},
        {"advantage": {"name": "turn_return"}},
        {"group_filters": [{"name": "informative"}]},
        {"reward_shapers": []},
        {"reward_shapers": [JUDGE | {"rubric": "other"}]},
    ],
)
def test_a_change_of_the_mathematics_changes_the_digest(changes: dict) -> None:
    base = MINIMAL | {"reward_shapers": [JUDGE]}
    assert parse_config(base | changes).digest() != parse_config(base).digest()


def test_a_release_that_adds_keys_with_defaults_resumes_the_runs_of_the_one_before() -> None:
    class LaterLearner(LearnerConfig):
        momentum: float = 0.5

    class Later(RunConfig):
        learner: LaterLearner = LaterLearner()
        tracker: str = "none"

    raw = MINIMAL | {"learner": {"learning_rate": 0.5}}
    assert Later.model_validate(raw).digest() == parse_config(raw).digest()


@pytest.mark.parametrize(
    ("limits", "update", "seconds", "spent", "decay"),
    [
        ({}, 50, 9.0, 0.5, 0.5),
        ({"updates": 10}, 5, 1e9, 0.5, 0.5),
        ({"seconds": 100}, 10_000, 25.0, 0.25, 0.25),
        ({"updates": 10, "seconds": 100}, 2, 90.0, 0.9, 0.2),
        ({"updates": 10, "seconds": 100}, 2, 200.0, 1.0, 0.2),
    ],
)
def test_the_learning_rate_does_not_depend_on_the_clock_where_updates_are_given(
    limits: dict, update: int, seconds: float, spent: float, decay: float
) -> None:
    budget = parse_config(MINIMAL | {"budget": limits}).budget
    assert budget.spent(update, seconds) == pytest.approx(spent)
    assert budget.decay(update, seconds) == pytest.approx(decay)


def test_eval_waits_as_long_as_training_does() -> None:
    rollout, waits = RolloutConfig(), Deadlines()
    assert waits.reset == 60.0
    assert waits == Deadlines(
        rollout.reset_deadline, rollout.step_deadline, rollout.turn_deadline, rollout.group_deadline
    )


NEEDS = {"judge": {"url": "http://127.0.0.1:1/v1", "model": "m", "rubric": "r"}}
"""What has no default."""


def test_every_registered_extension_builds_with_its_defaults_and_keeps_its_state() -> None:
    for slot, names in SLOTS.items():
        for name in names:
            one = build(slot, {"name": name, **NEEDS.get(name, {})})
            one.load_state_dict(one.state_dict())
    slots = Extensions.of(load_config(QUICKSTART))
    slots.load_state_dict(slots.state_dict())


def test_an_extension_of_ones_own_comes_by_its_import_path() -> None:
    own = build("advantage", {"name": "turnwise.trainer.algorithms.advantages.grpo:TurnReturn", "gamma": 0.5})
    assert own.gamma == 0.5
    with pytest.raises(ConfigError, match="cannot be imported"):
        build("advantage", {"name": "no.such.module:Thing"})
