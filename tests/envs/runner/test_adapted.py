"""The outermost override of an environment counts, and its registered limit on turns holds."""

import asyncio
import pickle
from typing import Any

import gymnasium
import pytest
from turnwise.envs import make
from turnwise.envs.authoring.check import check
from turnwise.envs.authoring.checks import gymnasium_checker, wrappers_declared
from turnwise.envs.authoring.subject import Subject
from turnwise.envs.base import Adapted, Obs, TurnEnv, checked_oracle
from turnwise.envs.errors import EnvironmentBroken, EnvironmentFailed
from turnwise.envs.runner.env_thread import EnvThread
from turnwise.envs.runner.step_result import from_step
from turnwise.tests.envs.runner.wrapped import (
    BRACKET,
    LIMITED,
    LIMITED_PLAIN,
    LIMITED_REPEAT,
    LIMITED_STATELESS,
    SHOUTING,
    UNRENDERED,
    Bracket,
    Count,
    Overrides,
    Plain,
    Repeat,
    Saved,
    Shout,
    Stateless,
)


@pytest.mark.parametrize("outer", [lambda env: env, Repeat, Plain, gymnasium.wrappers.OrderEnforcing])
def test_the_override_of_a_wrapper_counts(outer: Any) -> None:
    env = Adapted(outer(Overrides(Count())))
    assert env.instructions() == "outer"
    assert env.oracle() == "stop"
    assert env.valid_actions() == [("stop", 1.0)]
    assert env.vocabulary() == ["outer"]
    assert env.tasks("train") == [7]
    assert env.screenshot() == "outer"
    assert env.normalize("x") == "outer x"
    assert (env.sandboxed, env.keeps_sandbox, env.thread_bound, env.deterministic) == (True, True, False, False)
    with pytest.raises(LookupError, match="outer"):
        env.check_trainable()


def test_a_wrapper_that_overrides_snapshots_is_restorable() -> None:
    env = Adapted(Overrides(Count()))
    assert env.restorable
    assert env.snapshot() == (0, [], "outer")
    env.restore((3, [], "kept"))
    assert env.inner.restored == "kept"  # type: ignore[attr-defined]
    assert not Adapted(Repeat(Overrides(Count()))).restorable


@pytest.mark.parametrize("forwards", [False, True])
def test_an_inner_override_counts_through_wrappers_that_change_neither_side(forwards: bool) -> None:
    env = Adapted(Plain(Repeat(Count())) if forwards else Repeat(Count()))
    assert (env.instructions(), env.oracle(), env.tasks("test")) == ("inner", "go", [1, 2])
    assert env.valid_actions() == [("go", 1.0), ("stop", 1.0)]
    assert env.normalize("x") == "inner x"
    env.check_trainable()
    assert env.core.trainable_checked == 1  # type: ignore[attr-defined]


class Forwarding(gymnasium.Env[Obs, str]):
    """Forwards what it lacks to a world, which it has from its first reset on."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, dict[str, Any]]:
        super().reset(seed=seed)
        self.world = Count()
        return self.world.reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        return self.world.step(action)


class Remote(Forwarding):
    """Has a method for every name, which calls a server."""

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any) -> Any:
            raise RuntimeError(f"the server has no {name}")

        return call


@pytest.mark.parametrize("forwarding", [Forwarding, Remote])
def test_what_an_environment_forwards_is_no_method_of_it(forwarding: type[Forwarding]) -> None:
    env = Adapted(forwarding())
    assert (env.runner, env.sandboxed, env.restorable, env.instructions()) == ("gym", False, False, "")
    env.reset(seed=0)
    assert env.step("go")[0] == "turn 1"
    for method in (env.oracle, env.valid_actions):
        with pytest.raises(NotImplementedError, match=rf"{forwarding.__name__} has no {method.__name__}"):
            method()


def other_actions(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    return gymnasium.wrappers.TransformAction(env, str.lower, gymnasium.spaces.Text(9))


@pytest.mark.parametrize("changing", [Shout, other_actions, lambda env: Plain(Shout(env))])
def test_methods_about_actions_do_not_bypass_a_wrapper_that_changes_actions(changing: Any) -> None:
    env = Adapted(changing(Count()))
    for method in (env.oracle, env.valid_actions, env.vocabulary):
        with pytest.raises(
            NotImplementedError, match=rf"changes actions .*has no {method.__name__}\(\): define it there"
        ):
            method()
    assert (env.instructions(), env.normalize("x"), env.tasks("test")) == ("inner", "inner x", [1, 2])


def test_methods_about_observations_do_not_bypass_a_wrapper_that_changes_observations() -> None:
    env = Adapted(Bracket(Count()))
    with pytest.raises(NotImplementedError, match=r"Bracket changes .* has no vocabulary\(\)"):
        env.vocabulary()
    assert env.normalize("[ x ]") == "[ x ]"
    assert (env.oracle(), env.instructions()) == ("go", "inner")


def test_the_check_finds_a_wrapper_that_changes_actions_without_a_declaration() -> None:
    report = check(SHOUTING)
    found = {each.check: each for each in report.findings if each.verdict == "failed"}
    assert "changes actions" in found["wrappers"].detail
    assert "'go'" in found["wrappers"].detail


@pytest.mark.parametrize(
    ("env_id", "hidden"),
    [
        (
            BRACKET,
            "`vocabulary` (no new tiny model), `normalize` (hashes of whole observations), `snapshot` (no branched",
        ),
        (LIMITED_STATELESS, "`oracle` (no evaluation of the oracle), `vocabulary` (no new tiny model), `normalize` ("),
        (LIMITED_PLAIN, ""),
    ],
)
def test_the_check_names_what_the_wrappers_hide(env_id: str, hidden: str) -> None:
    """Not ``valid_actions`` of ``LIMITED_STATELESS``, which its wrapper defines."""
    found = asyncio.run(wrappers_declared(Subject(env_id, {}, 30.0)))
    assert ("its wrappers hide" in found) == bool(hidden)
    assert hidden in found


def test_the_check_names_the_cost_of_hidden_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Stateless, "valid_actions")
    found = asyncio.run(wrappers_declared(Subject(LIMITED_STATELESS, {}, 30.0)))
    assert "`valid_actions` (no random policy and no format warm-up)" in found


def turns_of(env: TurnEnv) -> tuple[int, bool, bool]:
    env.reset(seed=0)
    for turn in range(1, 20):
        _, _, terminated, truncated, _ = env.step("go")
        if terminated or truncated:
            return turn, terminated, truncated
    raise AssertionError("it did not end")


@pytest.mark.parametrize(
    ("env_id", "turns"),
    [(LIMITED, 4), (LIMITED_PLAIN, 4), (LIMITED_REPEAT, 2)],
)
def test_the_registered_limit_truncates(env_id: str, turns: int) -> None:
    env = make(env_id)
    assert turns_of(env) == (turns, False, True)
    assert turns_of(env) == (turns, False, True), "a reset begins to count again"
    assert turns_of(gymnasium.make(env_id)) == (turns, False, True)  # type: ignore[arg-type]


def test_an_option_replaces_the_registered_limit() -> None:
    assert turns_of(make(LIMITED, max_episode_steps=7)) == (7, False, True)
    assert turns_of(make(LIMITED, max_episode_steps=10)) == (10, True, False), "it ended by itself"
    assert turns_of(make(LIMITED, max_episode_steps=-1)) == (10, True, False)
    for wrong in (0, -2, 2.5, "4", True):
        with pytest.raises(EnvironmentFailed, match=r"`max_episode_steps` is .* whole number above 0"):
            make(LIMITED, max_episode_steps=wrong)


def test_the_limit_is_part_of_a_snapshot() -> None:
    async def main() -> None:
        owner, other = EnvThread(LIMITED), EnvThread(LIMITED)
        await owner.make(30)
        await other.make(30)
        assert owner.restorable
        await owner.reset(0, "train", 30)
        for _ in range(3):
            assert not (await owner.step("go", 30)).truncated
        snapshot = await owner.snapshot(30)
        await other.restore(snapshot, 30)
        for each in (owner, other):
            assert (await each.step("go", 30)).truncated
            await each.close(30)

    asyncio.run(main())


def limited(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    return gymnasium.wrappers.TimeLimit(env, 4)


CHAINS = {
    "limit": lambda env: limited(env),
    "order": lambda env: gymnasium.wrappers.OrderEnforcing(limited(env)),
    "checker": lambda env: limited(gymnasium.wrappers.OrderEnforcing(gymnasium.wrappers.PassiveEnvChecker(env))),
    "action": lambda env: Stateless(limited(env)),
    "observation": lambda env: gymnasium.wrappers.OrderEnforcing(Saved(limited(env))),
    "limits": lambda env: limited(Stateless(gymnasium.wrappers.TimeLimit(env, 9))),
}


@pytest.mark.parametrize("chain", [*CHAINS, LIMITED_STATELESS])
def test_a_restored_episode_keeps_the_limits_of_its_wrappers(chain: str) -> None:
    def made() -> TurnEnv:
        return Adapted(CHAINS[chain](Count())) if chain in CHAINS else make(chain)

    env, fresh, ended = made(), made(), made()
    assert env.restorable
    env.reset(seed=0)
    steps = [env.step("go") for _ in range(2)]
    assert not any(truncated for *_, truncated, _ in steps)
    snapshot = pickle.dumps(env.snapshot())
    expected = [env.step("go"), env.step("go")]
    assert [truncated for *_, truncated, _ in expected] == [False, True]
    turns_of(ended)
    for one in (env, fresh, ended):
        for _ in range(2):
            one.restore(pickle.loads(snapshot))  # noqa: S301 - of this test
            assert [one.step("go"), one.step("go")] == expected
        assert turns_of(one) == (4, False, True), "a reset begins to count again"


class OwnLimit(gymnasium.wrappers.TimeLimit[Obs, str]):
    """Counts in an attribute that no snapshot has."""


@pytest.mark.parametrize(
    "chain", [Repeat, Shout, lambda env: Stateless(Repeat(env)), lambda env: Repeat(Stateless(env))]
)
@pytest.mark.parametrize("outer", [lambda env: env, gymnasium.wrappers.OrderEnforcing])
def test_a_wrapper_that_may_hold_state_is_not_restorable(chain: Any, outer: Any) -> None:
    env = Adapted(outer(chain(limited(Count()))))
    assert not env.restorable
    for call in (env.snapshot, lambda: env.restore((0, [], 0))):
        with pytest.raises(NotImplementedError, match="no snapshots"):
            call()
    assert not Adapted(OwnLimit(Count(), 4)).restorable


def test_an_environment_with_a_limit_keeps_its_contract() -> None:
    report = check(LIMITED)
    failed = {each.check for each in report.findings if each.verdict == "failed"}
    assert failed == {"oracle"}
    assert "the episode was truncated after 4 turns" in next(
        one.detail for one in report.findings if one.check == "oracle"
    )


class Spaceless(TurnEnv):
    """Only what must be written."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return "begin", {}

    def step(self, action: str) -> Any:
        return "go on", 0.0, False, False, {}

    def oracle(self) -> str:
        return "go"


@pytest.mark.parametrize("outer", [lambda env: env, Plain])
def test_an_environment_without_spaces_has_a_limit_and_wrappers(outer: Any) -> None:
    env = Adapted(outer(Spaceless()), max_turns=1)
    env.reset(seed=0)
    assert env.oracle() == "go"
    assert env.action_space.contains("any text")
    assert env.step("go")[3]


@pytest.mark.parametrize(
    ("name", "value"), [("normalize", True), ("instructions", "Stop."), ("tasks", [1]), ("oracle", 0)]
)
def test_an_attribute_with_the_name_of_a_method_is_named(name: str, value: Any) -> None:
    for env in (Count(), Plain(Count())):
        setattr(env, name, value)
        arguments = {"normalize": ["x"], "tasks": ["train"]}.get(name, [])
        with pytest.raises(EnvironmentBroken) as raised:
            getattr(Adapted(env), name)(*arguments)
        kind = type(value).__name__
        assert f"`{name}` of {type(env).__name__} is a {kind}; turnwise calls the method" in str(raised.value)


def test_an_environment_that_cannot_be_rendered_here_passes_the_checker_of_gymnasium() -> None:
    """Gymnasium would make it in each render mode: ``human`` needs pygame, and opens a window."""

    async def checked() -> str:
        return await gymnasium_checker(Subject(UNRENDERED, {}, 30.0))

    assert asyncio.run(checked()).startswith("passed")


def test_an_oracle_that_returns_nothing_is_named() -> None:
    env = Count()
    env.oracle = lambda: None  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(EnvironmentBroken, match=r"oracle\(\) of Count returned None"):
        checked_oracle(Adapted(env))


def test_a_text_is_no_reward() -> None:
    env = Count()
    env.step = lambda action: ("on", "1.0", False, False, {})  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(EnvironmentBroken, match="reward is str, not a number"):
        from_step(Adapted(env), Adapted(env).step("go"))
