"""Re-execution reports every altered part of a trajectory, and ignores differences that ``normalize`` removes."""

import asyncio
import gc
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import text
from turnwise import __version__
from turnwise.agents.reexecution.reexecute import Report, _other_digests, _other_image, reexecute
from turnwise.console.options import open_store
from turnwise.envs import Png
from turnwise.envs.runner.env_thread import EnvThread
from turnwise.envs.tasks import make_task
from turnwise.records import Status, Trajectory
from turnwise.store.queries import load_trajectory
from turnwise.tests.agents.players import Respond, Stage, always, group, on_stage, oracle, site
from turnwise.tests.agents.worlds import CLOCK, PICTURE
from turnwise.tests.console.worlds import BROKEN
from turnwise.tests.store.content.sealing import reseal


def open_files(folder: Path) -> list[str]:
    """Return the paths under ``folder`` that this process has open."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [str(path) for link in links if folder in (path := link.readlink()).parents]


def replay(store_url: str, trajectory: str) -> Report:
    """Re-execute a trajectory as `turnwise trajectories replay` does."""
    with open_store(store_url) as database:
        return asyncio.run(reexecute(database, trajectory))


def played(tmp_path: Path, world: str, *alterations: str) -> Report:
    """Play one episode, alter it in the database, with digests to match, and re-execute it."""
    task = site() if world == "site" else make_task({"clock": CLOCK, "picture": PICTURE}[world], 3, "train", {})

    async def scenario(stage: Stage) -> str:
        script = oracle if world == "site" else lambda *_: always("go")
        (outcome,) = await stage.play(script, group(task))
        assert outcome.status is Status.COMPLETED
        assert outcome.success
        with stage.database.engine.begin() as conn:
            for alteration in alterations:
                assert conn.execute(text(alteration)).rowcount == 1
        if alterations:
            reseal(stage.database)
        return stage.database.url

    return replay(on_stage(tmp_path, scenario), "g-0")


@pytest.mark.parametrize("world", ["site", "clock"])
def test_a_stored_episode_replays(tmp_path: Path, world: str) -> None:
    report = played(tmp_path, world)
    assert report.matches, report.message


def test_thoughts_stay_in_the_trajectory_and_are_removed_again(tmp_path: Path) -> None:
    def thinking(owner: EnvThread, trajectory: Trajectory) -> Respond:
        answer = oracle(owner, trajectory)

        async def respond(observation: str) -> str:
            return f"<think>\nwhy not\n</think>\n\n{await answer(observation)}"

        return respond

    async def scenario(stage: Stage) -> tuple[str, Sequence[str]]:
        (outcome,) = await stage.play(thinking, group(site()))
        assert outcome.success
        return stage.database.url, [step.action for step in load_trajectory(stage.database, "g-0").steps]

    url, actions = on_stage(tmp_path, scenario)
    assert all(action.startswith("<think>\nwhy not\n</think>\n\n") for action in actions)
    assert replay(url, "g-0").matches


def test_replay_closes_the_store(tmp_path: Path) -> None:
    """The garbage collector is disabled, because it would close the files of an engine that nothing closed."""
    gc.disable()
    try:
        assert played(tmp_path, "picture").matches
        assert open_files(tmp_path) == []
    finally:
        gc.enable()


def test_the_message_counts_a_single_step_in_the_singular(tmp_path: Path) -> None:
    assert played(tmp_path, "picture").message == "its one step matches"


SWAP = "UPDATE step SET observation = (SELECT observation FROM step WHERE idx = 1) WHERE idx = 0"
LAST = "UPDATE trajectory SET final_observation = (SELECT observation FROM step WHERE idx = 0)"


@pytest.mark.parametrize("world", ["site", "clock"])
@pytest.mark.parametrize(
    ("alteration", "message"),
    [
        (SWAP, "step 0 differs: hash of the stored text"),
        (LAST, "the end differs: hash of the stored last text"),
        ("UPDATE step SET observation_hash = x'00' WHERE idx = 1", "step 1 differs: observation hash"),
        ("UPDATE step SET reward = reward + 0.5 WHERE idx = 0", "step 0 differs: reward"),
        ("UPDATE step SET terminated = 1 WHERE idx = 0", "step 0 differs: end"),
        ("UPDATE trajectory SET reward = reward + 0.001", "the end differs: total reward"),
        ("UPDATE trajectory SET success = 0", "the end differs: success was False, now True"),
        ("UPDATE trajectory SET status = 'truncated'", "the end differs: status was 'truncated', now 'completed'"),
        ("UPDATE trajectory SET final_observation_hash = x'00'", "the end differs: last observation's hash"),
    ],
)
def test_an_alteration_is_reported_by_name(tmp_path: Path, world: str, alteration: str, message: str) -> None:
    report = played(tmp_path, world, alteration)
    assert not report.matches
    assert report.message.startswith(message)


OTHER_PACKAGE = "UPDATE trajectory SET extras = json_set(extras, '$.env_package', 'turnwise 0.0.9')"
OTHER_VERSION = "UPDATE task SET env_version = '7'"


@pytest.mark.parametrize(
    ("alteration", "upgrade"),
    [
        (OTHER_PACKAGE, f"played with turnwise 0.0.9, replayed with turnwise {__version__}"),
        (OTHER_VERSION, f"played with {CLOCK} version 7, replayed with {CLOCK} version 0"),
    ],
)
@pytest.mark.parametrize(
    ("also", "verdict"),
    [
        ("", "all 3 steps match"),
        ("UPDATE step SET reward = 9 WHERE idx = 1", "step 1 differs: reward was 9.0, now 0.1"),
    ],
)
def test_an_upgrade_of_the_environment_is_reported(
    tmp_path: Path, alteration: str, upgrade: str, also: str, verdict: str
) -> None:
    report = played(tmp_path, "clock", *filter(None, (alteration, also)))
    assert report.message == f"{verdict} ({upgrade})"
    assert report.upgrade == upgrade
    assert report.matches == (not also)


@pytest.mark.parametrize(("world", "colors"), [("clock", [0, 1, 2, 3]), ("picture", [0, 0]), ("site", [])])
def test_the_screenshots_of_a_re_execution_are_passed_on(tmp_path: Path, world: str, colors: list[int]) -> None:
    kept: list[tuple[str, int, int]] = []

    def keep(trajectory: str, turns: int, image: bytes) -> None:
        kept.append((trajectory, turns, int(Png(image).pixels().max())))

    played(tmp_path, world)
    with open_store(f"sqlite:///{tmp_path}/turnwise.db") as database:
        assert asyncio.run(reexecute(database, "g-0", keep=keep)).matches
    assert kept == [("g-0", turns, color) for turns, color in enumerate(colors)]


GONE = "UPDATE task SET env_id = 'gone/Env-v0'"


@pytest.mark.parametrize(
    ("package", "message"),
    [
        (
            "gone_package 0.1.0",
            "environment `gone/Env-v0` is not registered: install the package that played it, `gone_package==0.1.0`",
        ),
        (f"turnwise {__version__}", "gone/Env-v0 make: no environment 'gone/Env-v0'"),
    ],
)
def test_the_package_of_a_missing_environment_is_named(tmp_path: Path, package: str, message: str) -> None:
    other = f"UPDATE trajectory SET extras = json_set(extras, '$.env_package', '{package}')"  # noqa: S608
    report = played(tmp_path, "site", GONE, other)
    assert report.missing.startswith(message)
    assert report.message == report.missing


def test_another_sandbox_image_is_an_upgrade() -> None:
    then = {"sandbox": {"image": "turnwise/code", "digest": "sha256:aa"}}
    now = {"sandbox": {"image": "turnwise/code", "digest": "sha256:bb"}}
    assert _other_image(then, now) == (
        "played in the sandbox image turnwise/code (sha256:aa), replayed in turnwise/code (sha256:bb)"
    )
    assert _other_digests(then, now) == ("sha256:aa", "sha256:bb")
    assert _other_image(then, then) == _other_image({}, now) == _other_image({"sandbox": "brass"}, now) == ""


def test_the_first_difference_is_shown_as_a_diff_of_the_normalized_texts(tmp_path: Path) -> None:
    report = played(tmp_path, "clock", SWAP)
    assert report.divergence == 0
    assert report.diff.splitlines()[-2:] == ["-turn 1 pid", "+turn 0 pid"]


def test_a_different_reward_has_no_diff(tmp_path: Path) -> None:
    report = played(tmp_path, "clock", "UPDATE step SET reward = 9 WHERE idx = 1")
    assert (report.divergence, report.diff) == (1, "")


def test_a_different_image_is_named(tmp_path: Path) -> None:
    report = played(tmp_path, "picture", "UPDATE step SET observation_hash = x'00' WHERE idx = 0")
    assert (report.divergence, report.diff) == (0, "the texts are equal: the images differ")


def test_missing_summary_columns_of_a_failed_episode_are_not_a_difference(tmp_path: Path) -> None:
    report = played(tmp_path, "clock", "UPDATE trajectory SET status = 'env_error', reward = 0, success = NULL")
    assert report.matches, report.message
    assert report.message == "all 3 steps match"


def test_the_action_on_which_the_environment_failed_is_not_executed(tmp_path: Path) -> None:
    task = make_task(BROKEN, 3, "train", {"fault": "raise"})

    async def scenario(stage: Stage) -> str:
        (outcome,) = await stage.play(lambda *_: always("go"), group(task))
        assert outcome.status is Status.ENV_ERROR
        return stage.database.url

    report = replay(on_stage(tmp_path, scenario), "g-0.1")
    assert report.matches
    assert report.message == (
        "all 2 steps match; on the action of step 2 the environment failed (env_error): it is not executed"
    )


def test_a_trajectory_without_its_observations_is_named_as_pruned(tmp_path: Path) -> None:
    report = played(
        tmp_path,
        "picture",
        "UPDATE step SET observation = NULL",
        "UPDATE trajectory SET pruned_at = '2026-01-01 00:00:00.000000'",
    )
    assert not report.matches
    assert report.message.startswith("retention removed content of trajectory g-0")
