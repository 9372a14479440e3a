"""``turnwise/TinyWeb-v0``: pages in few words, in a real browser."""

import pytest
from turnwise.envs.worlds.tiny.web import FIELD_ROLES, HELD_OUT, TRAINED, VOCABULARY, LoginEnv, TinyWebEnv
from turnwise.envs.worlds.web.apps.env import WebAppsEnv
from turnwise.envs.worlds.web.apps.tasks import APP_SPLITS
from turnwise.envs.worlds.web.browser_session import BrowserSession

SEEDS = range(20)


@pytest.fixture(scope="module")
def env(browser: BrowserSession) -> TinyWebEnv:
    made = TinyWebEnv()
    made._browser = browser
    return made


@pytest.fixture(scope="module")
def login(browser: BrowserSession) -> LoginEnv:
    made = LoginEnv()
    made.browser = browser
    return made


def closed(seen: object) -> None:
    assert set(str(seen).split()) <= set(VOCABULARY)


def test_held_out_tasks_are_not_trained_on() -> None:
    assert not set(TRAINED) & set(HELD_OUT)
    with pytest.raises(ValueError, match="choose from instance"):
        TinyWebEnv(by="template-")


def test_unknown_words_are_numbered_in_order_of_appearance(env: TinyWebEnv) -> None:
    for seed in SEEDS:
        seen, _ = env.reset(seed=seed)
        closed(seen)
        numbered = [word for word in str(seen).split() if word.startswith("w") and word[1:].isdigit()]
        first = list(dict.fromkeys(numbered))
        assert first == [f"w{number}" for number in range(1, len(first) + 1)]


def test_the_oracle_succeeds_in_every_trained_task(env: TinyWebEnv) -> None:
    played = set()
    for seed in SEEDS:
        env.reset(seed=seed)
        played.add(env.episode.goal.split()[0])
        over, reward = False, 0.0
        for _ in range(4):
            seen, reward, over, _, _ = env.step(env.oracle())
            closed(seen)
            if over:
                break
        assert (reward, over) == (1.0, True), (seed, env.episode.goal)
    assert played == {"Click", "Select", "Enter"}


def test_a_failure_and_an_invalid_action_have_a_cost(env: TinyWebEnv) -> None:
    seed = next(seed for seed in SEEDS if '"x"' not in env.reset(seed=seed)[0] and "Select" in env.episode.goal)
    env.reset(seed=seed)
    for bad in ("fill", "click other", "click", "fill w99 textbox", "fill w1 other"):
        _, reward, over, _, info = env.step(bad)
        assert (reward, over, info["action_valid"]) == (-0.05, False, False), bad
    seen, reward, over, _, info = env.step([text for text, _ in env.valid_actions() if text.startswith("click")][-1])
    assert (seen, reward, over, info["success"]) == ("wrong", -0.3, True, False)
    assert env.step("click other")[:3] == ("ended", 0.0, True)
    closed("ended")


@pytest.mark.parametrize("by", APP_SPLITS.by)
def test_every_split_can_be_played(env: TinyWebEnv, login: LoginEnv, by: str) -> None:
    made = TinyWebEnv(by=by)
    made._browser, made._envs["site"] = env._browser, login
    for seed in range(2):
        seen, _ = made.reset(seed=seed, options={"split": "test"})
        closed(seen)
        assert made.valid_actions()
        closed(made.step(made.valid_actions()[0][0])[0])
        closed(made.reset(seed=seed, options={"split": "train"})[0])


def test_a_login_succeeds_once_the_page_confirms_it(login: LoginEnv) -> None:
    for seed in range(2):
        login.reset(seed=seed)
        name, password = login.goal.split('"')[1::2]
        fields = [node["id"] for node in login.nodes if node["role"] == "textbox"][-2:]
        for field in [node["id"] for node in login.nodes if node["role"] in FIELD_ROLES]:
            assert login.step(f"fill({field}, 'Log out')")[1:3] == (0.0, False)
        assert login.step(f"fill({fields[0]}, {name!r})")[1:3] == (0.0, False)
        assert login.step(f"fill({fields[1]}, {password!r})")[1:3] == (0.0, False)
        (button,) = [node["id"] for node in login.nodes if (node["role"], node["name"]) == ("button", "Log in")]
        assert login.step(f"click({button})")[1:3] == (1.0, True)
    assert isinstance(login, WebAppsEnv)
