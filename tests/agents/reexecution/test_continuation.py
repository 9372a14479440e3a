"""A policy continues the episode of another player: the turns before are context, and are never trained on."""

from dataclasses import replace
from pathlib import Path

import pytest
from turnwise.agents.reexecution.continuation import BranchRefused, continue_from
from turnwise.agents.reexecution.reexecute import reexecute
from turnwise.agents.reexecution.stored import Stored, load
from turnwise.agents.rollout.assignment import Assignment
from turnwise.agents.rollout.group_runner import GroupRunner
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tokens.renderer import Renderer
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.envs.worlds.tiny.text import VOCABULARY
from turnwise.records import Outcome, Source, Status
from turnwise.store.queries import load_trajectory
from turnwise.store.writing.client import StoreClient
from turnwise.tests.agents.players import QUICK, Stage, group, on_stage, oracle, site
from turnwise.tests.agents.sampled_groups import Sampler, sampled_by
from turnwise.trainer.learner.samples import samples

AT = 1


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    return load_renderer(new_model(tmp_path_factory.mktemp("model"), VOCABULARY, hidden=16, layers=1, heads=2))


async def continued(stage: Stage, chat: Renderer, stored: Stored, sampler: Sampler) -> Outcome:
    """Play the stored episode on from step ``AT``, as the only member of the group ``b``."""
    of = group(stored.group.task, name="b")
    await stage.store().open_group(of)
    runner = GroupRunner(StoreClient(stage.send), sampled_by(sampler, chat), QUICK, {})
    try:
        (outcome,) = await runner.play(Assignment.whole(of, starts=[continue_from(stored, AT)]))
    finally:
        await runner.close()
    return outcome


def test_the_policy_reads_the_turns_before_the_branch_and_is_trained_on_its_own(tmp_path: Path, chat: Renderer) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.play(oracle, group(site()))
        stored, sampler = load(stage.database, "g-0"), Sampler(chat.stop_tokens[0])
        outcome = await continued(stage, chat, stored, sampler)
        assert outcome.status is Status.TRUNCATED
        branch = load_trajectory(stage.database, "b-0")
        first = stored.trajectory.steps[0]
        assert chat.encoder.decode(sampler.requests["b-0"][0][0]).startswith(f"{first.observation} {first.action} ")
        assert [one.source for one in branch.messages[:2]][1] is Source.PEER
        assert [one.message for one in branch.steps[:2]] == [1, 3]
        assert branch.reward == pytest.approx(sum(one.reward for one in branch.steps))
        assert sum(int(one.mask.sum()) for one in samples(branch)) == sampler.sampled_tokens
        assert all(int(turn) != 0 for one in samples(branch) for turn in one.turns[one.sources >= 0])
        report = await reexecute(stage.database, "b-0")
        assert report.matches, report.message

    on_stage(tmp_path, scenario)


def test_a_prefix_that_is_not_reproduced_is_a_failed_episode(tmp_path: Path, chat: Renderer) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.play(oracle, group(site()))
        stored = load(stage.database, "g-0")
        steps = [replace(stored.trajectory.steps[0], reward=7.0), *stored.trajectory.steps[1:]]
        altered = replace(stored, trajectory=replace(stored.trajectory, steps=steps))
        outcome = await continued(stage, chat, altered, Sampler(chat.stop_tokens[0]))
        assert outcome.status is Status.ENV_ERROR
        assert "its prefix is not reproduced; step 0 differs: reward was 7.0" in outcome.error
        assert load_trajectory(stage.database, "b-0").error == outcome.error
        running = replace(stored, trajectory=replace(stored.trajectory, status=Status.RUNNING))
        with pytest.raises(BranchRefused, match="it is still running"):
            continue_from(running, AT)

    on_stage(tmp_path, scenario)
