"""The policy sees the expert's observations: a matching action advances, another is patched or ends the episode."""

from pathlib import Path
from typing import Any

import pytest
from turnwise.envs.authoring.check import Verdict, check
from turnwise.envs.errors import EnvironmentFailed
from turnwise.envs.registry import make
from turnwise.envs.worlds.semi_online.env import STOPPED, SemiOnlineEnv
from turnwise.tests.envs.worlds.semi_online.experts import FIRST, experts_file

ID = "turnwise/SemiOnline-v0"


def begun(folder: Path, **options: Any) -> SemiOnlineEnv:
    env = make(ID, path=experts_file(folder), **options)
    assert isinstance(env, SemiOnlineEnv)
    assert env.reset(seed=0, options={"split": "train"})[0] == "open inbox"
    return env


def test_the_experts_actions_are_a_success_without_patches(tmp_path: Path) -> None:
    env = begun(tmp_path)
    seen = [env.step(env.oracle()) for _ in FIRST.actions]
    assert [one[0] for one in seen] == ["inbox page", "answer it", "right"]
    assert [one[1] for one in seen] == [1.0, 1.0, 1.0]
    assert [one[2] for one in seen] == [False, False, True]
    assert [one[4]["patch"] for one in seen] == [None, None, None]
    assert seen[-1][4]["success"] is True
    assert seen[-1][4]["extras"] == {"expert": "first", "wrong_turns": []}


@pytest.mark.parametrize(
    ("action", "reward", "valid"),
    [
        ("click  inbox", 1.0, True),
        ("Click inbox", 1.0, True),
        ("look first</think>click inbox", 1.0, True),
        ("click news", 0.1 + 0.9 * 0.5, True),
        ("done", 0.1 + 0.9 * 0.1, True),
        ("fly home", 0.0, False),
        ("", 0.0, False),
    ],
)
def test_the_reward_adds_format_and_accuracy(tmp_path: Path, action: str, reward: float, valid: bool) -> None:
    _, paid, _, _, info = begun(tmp_path).step(action)
    assert paid == pytest.approx(reward)
    assert sum(info["reward_parts"].values()) == pytest.approx(reward)
    assert info["action_valid"] is valid


def test_another_action_is_patched_as_often_as_allowed(tmp_path: Path) -> None:
    env = begun(tmp_path, max_patches=1)
    observation, _, ended, _, info = env.step("click news")
    assert (observation, ended, info["patch"]) == ("inbox page", False, "click inbox")
    observation, _, ended, _, info = env.step("answer 24")
    assert (observation, ended, info["success"]) == (STOPPED, True, False)
    assert "patch" not in info
    assert info["extras"]["wrong_turns"] == [0, 1]
    assert env.step("done")[:3] == (STOPPED, 0.0, True)


@pytest.mark.parametrize(
    ("patch", "text"), [("thought_free", "answer 23"), ("with_thought", "<think>it is 23</think>answer 23")]
)
def test_a_patch_has_the_experts_thought_only_if_asked(tmp_path: Path, patch: str, text: str) -> None:
    env = begun(tmp_path, patch=patch)
    env.step("click inbox")
    assert env.step("answer 24")[4]["patch"] == text


def test_without_patches_the_first_other_action_ends_the_episode(tmp_path: Path) -> None:
    observation, _, ended, _, info = begun(tmp_path, patch="none").step("click news")
    assert (observation, ended, info["success"]) == (STOPPED, True, False)


def test_a_patched_last_turn_is_no_success(tmp_path: Path) -> None:
    env = begun(tmp_path)
    env.step(env.oracle())
    env.step(env.oracle())
    observation, _, ended, _, info = env.step("click inbox")
    assert (observation, ended, info["success"], info["patch"]) == ("right", True, False, "done")


def test_a_restored_episode_continues(tmp_path: Path) -> None:
    env = begun(tmp_path, max_patches=1)
    env.step("click news")
    state = env.snapshot()
    env.step(env.oracle())
    other = begun(tmp_path, max_patches=1)
    other.restore(state)
    assert other.step("answer 24")[2]


def test_the_splits_share_no_expert(tmp_path: Path) -> None:
    env = begun(tmp_path)
    assert (list(env.tasks("train")), list(env.tasks("test"))) == ([0], [0])
    assert env.reset(seed=1_000_003, options={"split": "test"})[0] == "a"
    only = make(ID, path=experts_file(tmp_path / "only", FIRST))
    with pytest.raises(EnvironmentFailed, match="no expert of the split `test`"):
        only.reset(seed=0, options={"split": "test"})


def test_the_contract_of_environments_holds(tmp_path: Path) -> None:
    other = FIRST.model_copy(update={"id": "other", "observations": ("open news", "news page", "answer it", "right")})
    held_out = other.model_copy(update={"id": "held-out", "split": "test"})
    report = check(ID, {"path": experts_file(tmp_path, FIRST, other, held_out)})
    assert [one for one in report.findings if one.verdict is Verdict.FAILED] == []


def test_the_environment_speaks_with_the_words_of_its_experts(tmp_path: Path) -> None:
    env = begun(tmp_path)
    assert env.instructions() == "Use the site."
    assert [action for action, _ in env.valid_actions()] == ["answer 23", "click inbox", "done"]
    assert {"inbox", "23", "done"} <= set(env.vocabulary())
    mixed = experts_file(tmp_path / "mixed", FIRST, FIRST.model_copy(update={"instructions": "Other."}))
    with pytest.raises(EnvironmentFailed, match="2 different instructions"):
        make(ID, path=mixed).instructions()


def half(expert: str, action: str, types: object) -> str:
    """Accept an action that contains the expert's."""
    return "exact" if expert in action else "parsed"


def test_a_matcher_of_a_package_is_used(tmp_path: Path) -> None:
    env = begun(tmp_path, matcher=f"{__name__}:half")
    _, paid, _, _, info = env.step("please click inbox now")
    assert (paid, info["patch"]) == (1.0, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": ""}, "`path` is missing"),
        ({"path": "nowhere.jsonl"}, "semi_online.experts --run RUN FILE"),
        ({"patch": "often"}, "choose from none, thought_free, with_thought"),
        ({"max_patches": -1}, "choose 0 or more"),
        ({"matcher": "exact"}, "write `words`"),
        ({"matcher": "json:nothing"}, "cannot be imported"),
    ],
)
def test_a_wrong_option_is_refused_with_its_remedy(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(EnvironmentFailed, match=message):
        make(ID, **{"path": experts_file(tmp_path), **options})


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "holds no episode"), ("{", "line 1"), ('{"id": "a", "observations": ["x"], "actions": ["y"]}', "line 1")],
)
def test_a_file_that_is_not_of_experts_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "experts.jsonl"
    path.write_text(text)
    with pytest.raises(EnvironmentFailed, match=message):
        make(ID, path=str(path))
