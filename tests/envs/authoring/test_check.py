"""``check`` passes a correct environment and names the fault of any other."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gymnasium
import pytest
from turnwise.envs import TurnEnv, UnknownEnvironment
from turnwise.envs.authoring.check import Report, Verdict, check
from turnwise.envs.authoring.checks import CHECKS, oracle_succeeds
from turnwise.envs.authoring.subject import Skipped, Subject
from turnwise.envs.base import Info, Obs
from turnwise.envs.runner.call_thread import abandoned_threads
from turnwise.envs.spaces import FreeText, PngSpace
from turnwise.envs.worlds.computer.screenshots import black
from turnwise.envs.worlds.tiny.text import TextSiteEnv, Visit
from turnwise.tests.envs.faulty import FAULTY, HANG


def failed(report: Report) -> dict[str, str]:
    return {finding.check: finding.detail for finding in report.findings if finding.verdict is Verdict.FAILED}


class Drifting(TextSiteEnv):
    """Shows the current time."""

    calls = 0

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        Drifting.calls += 1
        observation, *rest = super().step(action)
        return (f"{observation!s} {Drifting.calls}", *rest)  # type: ignore[return-value]


class Moody(Drifting):
    """Declares itself not deterministic, by the attribute instead of the registration."""

    deterministic = False


class Silent(TextSiteEnv):
    """Returns no state key."""

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        *rest, info = super().step(action)
        del info["state_key"]
        return (*rest, info)  # type: ignore[return-value]


class Splitless(TextSiteEnv):
    """Draws the same instances for both splits."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        return super().reset(seed=seed, options={"split": "train"})


class Pooled(Splitless):
    """Has a set of seeds per split."""

    def tasks(self, split: str) -> list[int]:
        return list(range(10)) if split == "train" else list(range(10, 20))


class Constant(Splitless):
    """Has one instance."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        return super().reset(seed=0, options=options)


class Overlapping(Splitless):
    """Has pools that share seeds, whose instances are the same in both splits."""

    def tasks(self, split: str) -> list[int]:
        return list(range(10)) if split == "train" else list(range(5, 15))


class Invalid(Splitless):
    """Lists no actions, and a sample of its action space is never valid."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = FreeText(words=("nothing",))

    def valid_actions(self) -> list[tuple[str, float]]:
        raise NotImplementedError


class Parity(Splitless):
    """Begins equally in both splits; the last answer differs."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        self.test = (options or {}).get("split") == "test"
        return super().reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        observation, _, terminated, truncated, info = super().step(action)
        return observation, float(self.test), terminated, truncated, info


class Plain(gymnasium.Env[str, str]):
    """Not written for turnwise: has no splits."""

    def __init__(self) -> None:
        self.action_space = FreeText(words=("go",))
        self.observation_space = FreeText(100, words=("on",))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return " ".join(["on"] * int(self.np_random.integers(1, 30))), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "on", 0.0, True, False, {}


class Sticky(TextSiteEnv):
    """Keeps the visited places across a reset."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        turns = getattr(self, "_turns", 0)
        self._turns = 0
        observation, info = super().reset(seed=seed, options=options)
        return f"{observation!s} {'visited' * min(turns, 1)}", info

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        self._turns += 1
        return super().step(action)


class Wordy(TextSiteEnv):
    """Shows a word that is not in its vocabulary."""

    def vocabulary(self) -> list[str]:
        return [word for word in super().vocabulary() if word != "home"]


class Wrong(TextSiteEnv):
    """Has an oracle that raises."""

    def oracle(self) -> str:
        return "answer 10"


class Unfinished(TextSiteEnv):
    """Has an oracle that lacks the last action."""

    def oracle(self) -> str:
        action = super().oracle()
        if action.startswith(("answer", "done")):
            raise NotImplementedError("there are no further actions")
        return action


class Unweighted(TextSiteEnv):
    """Lists its valid actions without weights."""

    def valid_actions(self) -> list[tuple[str, float]]:
        return [action for action, _ in super().valid_actions()]  # type: ignore[misc]


class Unguided(TextSiteEnv):
    """Has no oracle; counts its resets."""

    oracle = TurnEnv.oracle
    resets = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        Unguided.resets += 1
        return super().reset(seed=seed, options=options)


class Forgetful(TextSiteEnv):
    """Forgets the page in a restore."""

    def restore(self, snapshot: tuple[Visit, bool]) -> None:
        super().restore((replace(snapshot[0], page="home"), snapshot[1]))


class Endless(TextSiteEnv):
    """Never ends an episode."""

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        _, _, _, _, info = super().step("back")
        return "still here", 0.0, False, False, {**info, "success": None}


class Rows(TurnEnv):
    """Has 3 rows for training and 100 for tests, and no other seed."""

    action_space = observation_space = FreeText()
    data = {"train": ["1 + 2", "3 + 4", "5 + 6"], "test": [f"{n} + {n}" for n in range(100)]}  # noqa: RUF012
    resets: list[tuple[str, int]] = []  # noqa: RUF012

    def tasks(self, split: str) -> list[int]:
        return list(range(len(self.data[split])))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        super().reset(seed=seed)
        split = (options or {}).get("split", "train")
        assert isinstance(seed, int)
        Rows.resets.append((split, seed))
        self.row = self.data[split][seed]
        return self.row, {"state_key": "asked"}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        right = action.strip() == str(sum(map(int, self.row.split(" + "))))
        return "", float(right), True, False, {"action_valid": True, "state_key": "", "success": right}

    def oracle(self) -> str:
        return str(sum(map(int, self.row.split(" + "))))


class Single(Rows):
    """Has one row for training."""

    data = {"train": ["1 + 2"], "test": ["2 + 2"]}  # noqa: RUF012


class Twice(Rows):
    """Lists a row twice."""

    def tasks(self, split: str) -> list[int]:
        return [*super().tasks(split), 0]


class Growing(Rows):
    """Shows a larger picture than its space declares."""

    observation_space = gymnasium.spaces.Dict(text=FreeText(), image=PngSpace(8, 8))  # type: ignore[assignment]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        text, info = super().reset(seed=seed, options=options)
        return {"text": str(text), "image": black(8, 8)}, info

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        text, *others = super().step(action)
        return {"text": str(text), "image": black(16, 8)}, *others  # type: ignore[return-value]


class Restless(Rows):
    """Lists its tasks in another order at every call."""

    calls = 0

    def tasks(self, split: str) -> list[int]:
        Restless.calls += 1
        seeds = super().tasks(split)
        first = Restless.calls % len(seeds)
        return [*seeds[first:], *seeds[:first]]


KINDS: tuple[type[gymnasium.Env[Any, Any]], ...] = (
    *(Drifting, Moody, Silent, Splitless, Constant, Overlapping, Invalid, Pooled, Parity, Plain),
    *(Sticky, Wordy, Wrong, Unfinished, Unweighted, Unguided, Forgetful, Endless),
    *(Rows, Single, Twice, Restless, Growing),
)
BAD = {kind.__name__: kind for kind in KINDS}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    HANG.clear()
    for name, kind in BAD.items():
        gymnasium.register(f"bad/{name}-v0", entry_point=kind)  # type: ignore[arg-type]
    yield
    for name in BAD:
        gymnasium.registry.pop(f"bad/{name}-v0")
    HANG.set()


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the check that starts an interpreter, which takes a second; ``test_isolation`` runs it."""
    kept = {name: each for name, each in CHECKS.items() if name != "another process"}
    monkeypatch.setattr("turnwise.envs.authoring.check.CHECKS", kept)


@pytest.fixture
def splits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out all checks but that of the splits."""
    monkeypatch.setattr("turnwise.envs.authoring.check.CHECKS", {"splits": CHECKS["splits"]})


@pytest.mark.alone
def test_the_site_passes_without_a_warning() -> None:
    report = check("turnwise/TextSite-v0")
    assert failed(report) == {}
    assert report.ok
    assert [finding.verdict for finding in report.findings] == [Verdict.PASSED] * 20
    assert report.findings[2].detail == "passed"
    assert report.step_ms is not None
    assert report.step_ms.p50 <= report.step_ms.p95 < 5
    assert any(line.startswith("step latency ") for line in report.lines())
    assert report.lines()[-1] == "20 passed"


@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("Drifting", "step determinism"),
        ("Forgetful", "restore"),
        ("Silent", "info"),
        ("Splitless", "splits"),
        ("Overlapping", "splits"),
        ("Sticky", "reset after failure"),
        ("Wordy", "vocabulary"),
        ("Wrong", "oracle"),
        ("Twice", "tasks"),
        ("Restless", "tasks"),
        ("Growing", "episodes"),
    ],
)
def test_each_fault_is_found_by_its_check(in_this_process: None, name: str, by: str) -> None:
    report = check(f"bad/{name}-v0")
    assert not report.ok
    assert by in failed(report)


def test_splits_may_differ_in_seeds_or_later_turns_and_only_a_turn_env_has_them(splits_alone: None) -> None:
    found = {
        name: next(one for one in check(env_id).findings if one.check == "splits")
        for name, env_id in (
            ("pooled", "bad/Pooled-v0"),
            ("parity", "bad/Parity-v0"),
            ("plain", "bad/Plain-v0"),
            ("constant", "bad/Constant-v0"),
            ("invalid", "bad/Invalid-v0"),
        )
    }
    assert found["pooled"].verdict is found["parity"].verdict is Verdict.PASSED
    assert (found["plain"].verdict, found["plain"].detail) == (
        Verdict.SKIPPED,
        "not a `TurnEnv`: training and held-out tasks may differ by their seeds only",
    )
    assert (found["invalid"].verdict, found["invalid"].detail) == (
        Verdict.SKIPPED,
        "no random action is valid: the episodes do not show the instances",
    )
    assert (found["constant"].verdict, found["constant"].detail) == (
        Verdict.SKIPPED,
        "the episodes of all seeds are equal",
    )


def test_an_environment_of_rows_is_reset_with_its_rows_only(in_this_process: None) -> None:
    Rows.resets.clear()
    report = check("bad/Rows-v0")
    assert failed(report) == {}
    details = {one.check: one.detail for one in report.findings}
    assert details["tasks"] == "3 seeds of `train`, 100 seeds of `test`; a check plays at most 5 of a split"
    assert details["episodes"].startswith("8 episodes")
    assert details["oracle"] == "5 of 5 in 1.0 turns"
    assert set(Rows.resets) == {("train", seed) for seed in range(3)} | {("test", seed) for seed in range(5)}


def test_an_environment_of_one_row_passes(in_this_process: None) -> None:
    report = check("bad/Single-v0")
    assert failed(report) == {}


def test_an_oracle_that_does_not_end_the_episode_is_no_missing_oracle(in_this_process: None) -> None:
    detail = failed(check("bad/Unfinished-v0"))["oracle"]
    assert detail.startswith("the oracle does not end the episode of test seed 0, after ")


def test_determinism_is_not_checked_for_a_non_deterministic_environment(in_this_process: None) -> None:
    assert "gymnasium" in failed(check("bad/Drifting-v0"))
    found = failed(check("bad/Moody-v0"))
    assert not {"gymnasium", "seed determinism", "step determinism"} & {*found}


def test_each_check_is_reported_at_its_start_and_end() -> None:
    seen: list[str] = []
    report = check(
        "bad/Sticky-v0", on_start=seen.append, on_result=lambda finding: seen.append(f"{finding.check} ended")
    )
    checks = [finding.check for finding in report.findings]
    assert seen == [event for name in checks for event in (name, f"{name} ended")]


def test_the_last_line_names_what_failed() -> None:
    lines = check("bad/Silent-v0").lines()
    assert lines[-1].endswith(" 1 failed: info")
    broken = check(FAULTY, {"fault": "raise", "where": "reset"})
    assert broken.lines()[-1] == "0 passed, 19 skipped, 1 failed: reset"


def test_an_environment_that_raises_fails() -> None:
    assert "LookupError: the page is gone" in failed(check(FAULTY, {"fault": "raise"}))["episodes"]


def test_the_same_failure_is_shown_once() -> None:
    report = check(FAULTY, {"fault": "raise"})
    details = failed(report)
    repeated = {finding.check: finding.same_as for finding in report.findings if finding.same_as}
    assert len(repeated) == len(details) - 1 > 0, "one line of code raises"
    assert not repeated.keys() & {*repeated.values()}
    lines = {finding.check: finding.ending() for finding in report.findings}
    assert all(lines[name].endswith(f"as `{first}`: the same cause") for name, first in repeated.items())
    assert not any(details[name] in lines[name] for name in repeated)


def test_episodes_that_never_end_are_named_and_the_longest_observation_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "turnwise.envs.authoring.check.CHECKS", {name: CHECKS[name] for name in ("reset", "episodes", "bounds")}
    )
    _, episodes, bounds = check("bad/Endless-v0").findings
    assert "10 episodes, 200 turns: NO EPISODE ENDED BY ITSELF" in episodes.detail
    assert "words in" in bounds.detail


def test_a_reset_that_fails_is_reported_once() -> None:
    report = check(FAULTY, {"fault": "raise", "where": "reset"})
    first, *rest = report.findings
    assert (first.check, first.verdict) == ("reset", Verdict.FAILED)
    assert "LookupError: the page is gone" in first.detail
    assert {(one.verdict, one.detail) for one in rest} == {
        (Verdict.SKIPPED, "not started: the environment cannot be reset")
    }


def test_a_sandbox_that_is_lost_decides_nothing() -> None:
    report = check(FAULTY, {"fault": "lost", "where": "reset"})
    assert not failed(report)
    assert report.summary().endswith("1 not decided: reset (set a longer `--timeout`)")


def test_no_episode_begins_without_an_oracle() -> None:
    asyncio.run(_asked_for_its_oracle())
    assert Unguided.resets == 0


async def _asked_for_its_oracle() -> None:
    with pytest.raises(Skipped, match="has no oracle"):
        await oracle_succeeds(Subject("bad/Unguided-v0", {}, 5))


@pytest.mark.slow
def test_an_environment_that_hangs_ends_by_its_timeouts() -> None:
    report = check(FAULTY, {"fault": "hang", "where": "reset"}, call_timeout_s=0.05)
    assert "did not return within 0.05 s" in failed(report)["reset"]
    assert {one.detail for one in report.findings[1:]} == {"not started: a call timed out"}
    report = check(FAULTY, {"fault": "hang", "where": "reset"}, call_timeout_s=1, check_timeout_s=0.05, timeout_s=0.12)
    assert not failed(report)
    assert not report.ok, "a check that did not finish is no success either"
    undecided = {one.check: one.detail for one in report.findings if one.verdict is Verdict.UNDECIDED}
    assert undecided["reset"] == "not finished within 0.05 s"
    assert undecided["oracle"] == "not started: all checks together exceeded 0.12 s"
    assert "not decided: reset, " in report.summary()
    HANG.set()
    assert abandoned_threads() >= 0


def test_an_unknown_id_is_refused() -> None:
    with pytest.raises(UnknownEnvironment, match="did you mean 'turnwise/TextSite-v0'"):
        check("turnwise/TextSyte-v0")


def test_optional_methods_are_optional() -> None:
    with pytest.raises(NotImplementedError, match="has no oracle"):
        TurnEnv().oracle()
    with pytest.raises(NotImplementedError, match="valid actions"):
        TurnEnv().valid_actions()
    assert TurnEnv().instructions() == ""


def test_actions_without_weights_are_named() -> None:
    details = failed(check("bad/Unweighted-v0")).values()
    assert details
    assert all("it must return (action, weight) pairs" in detail for detail in details), details
