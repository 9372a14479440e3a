"""The end of an episode: each failure has its status, each horizon truncates, and a lost write ends the run."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from turnwise import __version__
from turnwise.agents.engine.client import PolicyClient
from turnwise.agents.engine.request import Completion, Sampling
from turnwise.agents.errors import EngineFailed, HorizonReached, ImagesUnsupported
from turnwise.agents.players.openai import ChatPlayer, chat_server
from turnwise.agents.players.policy import PolicyPlayer
from turnwise.agents.rollout.player import PolicyContext
from turnwise.agents.rollout.worker import WorkerSpec
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tokens.conversation import Conversation
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.envs.runner.env_thread import EnvThread
from turnwise.envs.tasks import make_task
from turnwise.errors import TurnwiseError
from turnwise.records import Horizon, Limit, Purpose, Source, Status, Trajectory
from turnwise.store.content.rows import STEP
from turnwise.store.errors import StoreConflict, StoreFull
from turnwise.store.operations import Write
from turnwise.store.queries import load_trajectory
from turnwise.store.schema import step
from turnwise.tests.agents.players import (
    HORIZON,
    QUICK,
    Respond,
    Stage,
    always,
    group,
    on_stage,
    oracle,
    site,
    wait_for_abandoned_threads,
)
from turnwise.tests.agents.worlds import CLOCK, PICTURE
from turnwise.tests.envs.faulty import FAULTY, HANG


def ended(tmp_path: Path, fault: str, respond: Respond | None = None) -> list[Trajectory]:
    """Return the attempts of a member that plays ``go`` once and then causes the fault: one if the action hangs."""

    async def scenario(stage: Stage) -> list[Trajectory]:
        def script(owner: EnvThread, _: Trajectory) -> Respond:
            actions = iter(["go", "fault"])

            async def next_action(_: str) -> str:
                return next(actions)

            return respond or next_action

        of = group(make_task(FAULTY, 0, "train", {"fault": fault}))
        (outcome,) = await stage.play(script, of)
        attempts = [load_trajectory(stage.database, name) for name in ["g-0", "g-0.1"]]
        last = attempts[-1]
        assert (outcome.trajectory, outcome.status, outcome.error) == (last.id, last.status, last.error)
        assert outcome.turns == len([one for one in last.steps if not one.failed])
        assert all(player.closed for player in stage.players)
        return attempts

    HANG.clear()
    try:
        attempts: list[Trajectory] = on_stage(tmp_path, scenario)
        return attempts
    finally:
        HANG.set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "status", "message"),
    [
        ("raise", Status.ENV_ERROR, "LookupError: the page is gone"),
        ("exit", Status.ENV_ERROR, "SystemExit: 3"),
        ("nan", Status.ENV_ERROR, "reward is nan"),
        ("reported", Status.ENV_ERROR, "the environment reports: browser crashed"),
        ("hang", Status.ENV_ERROR, "step did not return within 1 s"),
    ],
)
def test_a_fault_in_a_step_is_a_status_and_keeps_the_earlier_turns(
    tmp_path: Path, fault: str, status: Status, message: str
) -> None:
    for one in ended(tmp_path, fault):
        assert one.status is status
        assert message in one.error
        assert [(step.action, step.failed) for step in one.steps] == [("go", False), ("fault", True)]
        assert len(one.messages) == 4, "the messages of the turn that caused the fault are kept"
        assert one.reward == 0.0
    wait_for_abandoned_threads()


def test_a_failed_engine_is_a_status(tmp_path: Path) -> None:
    async def fail(_: str) -> str:
        raise EngineFailed("engine 0 died")

    for one in ended(tmp_path, "", fail):
        assert (one.status, one.error, one.steps) == (Status.ENGINE_ERROR, "engine 0 died", ())


@pytest.mark.slow
def test_a_policy_that_never_answers_is_a_status(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        async def wait(_: str) -> str:
            return await asyncio.get_running_loop().create_future()

        (outcome,) = await stage.play(lambda *_: wait, group(site()), replace(QUICK, turn_s=0.05))
        assert (outcome.status, outcome.error) == (Status.POLICY_ERROR, "no answer within 0.05 s")

    on_stage(tmp_path, scenario)


class Silent:
    """An engine that accepts requests and never answers."""

    @property
    def submit(self) -> "Silent":
        return self

    @property
    def poll(self) -> "Silent":
        return self

    def options(self, **_: Any) -> "Silent":
        return self

    def remote(self, *_: Any) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()


@pytest.mark.slow
def test_the_error_names_a_silent_engine_and_its_state(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(20)]
    chat = load_renderer(new_model(tmp_path / "model", words, hidden=16, layers=1, heads=2))

    async def scenario(stage: Stage) -> None:
        client = PolicyClient([Silent()], Sampling(stop=()))

        class PerAttempt:
            async def act(self, observation: str, images: Any) -> Any:
                return await PolicyPlayer(PolicyContext(client, Conversation(chat), HORIZON, "s", 0.2)).act(
                    observation, images
                )

            def close(self) -> None:
                client.release("s")

        stage.player = PerAttempt()
        (outcome,) = await stage.play(lambda *_: always(""), group(site()), replace(QUICK, turn_s=0.2))
        assert outcome.status is Status.ENGINE_ERROR
        assert outcome.error.startswith("no answer from engine 0 within 0.2 s; it has not answered yet, with 0 other")
        await client.close()

    on_stage(tmp_path, scenario)


def test_the_limit_on_turns_truncates(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        (outcome,) = await stage.play(lambda *_: always("back"), group(site(), horizon=Horizon(2, 8, 64, 512)))
        assert (outcome.status, outcome.turns, outcome.error) == (Status.TRUNCATED, 2, "2 turns played")
        stored = load_trajectory(stage.database, "g-0")
        assert (stored.status, len(stored.steps)) == (Status.TRUNCATED, 2)
        assert not stored.steps[-1].truncated

    on_stage(tmp_path, scenario)


@pytest.mark.parametrize("how", ["failed", "dropped"])
def test_a_lost_turn_ends_the_run_and_not_the_episode_as_completed(tmp_path: Path, how: str) -> None:
    """The last turn is lost here: after the loss of an earlier turn, the next turn would have no parent."""

    async def scenario(stage: Stage) -> None:
        send = stage.send

        async def losing(writes: list[Write[Any]]) -> list[Any]:
            def lost(one: Write[Any]) -> bool:
                return one.operation == "append" and any(row[STEP.index("terminated")] for row in one.record.rows.steps)

            answers = iter(await send([one for one in writes if not lost(one)]))
            answer = StoreFull("no room on the disk") if how == "failed" else None
            return [answer if lost(one) else next(answers) for one in writes]

        stage.send = losing
        with pytest.raises(StoreFull if how == "failed" else StoreConflict) as raised:
            await stage.play(oracle, group(site()))
        assert isinstance(raised.value, TurnwiseError)
        assert load_trajectory(stage.database, "g-0").status is Status.RUNNING
        assert all(player.closed for player in stage.players)

    on_stage(tmp_path, scenario)


class Counting:
    """Replaces the engine: samples ``max_tokens`` tokens, but at most ``at_most``."""

    def __init__(self, at_most: int) -> None:
        self.at_most = at_most
        self.sampling: list[Sampling | None] = []
        self.requests: list[tuple[int, int]] = []
        self.released: list[str] = []

    async def generate(
        self,
        session: str,
        prompt: list[int],
        max_tokens: int,
        timeout_s: float,
        sampling: Sampling | None = None,
        *_: object,
    ) -> Completion:
        self.requests.append((len(prompt), max_tokens))
        self.sampling.append(sampling)
        tokens = [3] * min(max_tokens, self.at_most)
        return Completion(tokens, [-0.5] * len(tokens), [0] * len(tokens), "length")

    def release(self, session: str) -> None:
        self.released.append(session)


Begin = Callable[[Horizon, int], tuple[PolicyPlayer, Counting]]


@pytest.fixture(scope="module")
def begin(tmp_path_factory: pytest.TempPathFactory) -> Begin:
    words = [f"w{number}" for number in range(20)]
    chat = load_renderer(new_model(tmp_path_factory.mktemp("model"), words, hidden=16, layers=1, heads=2))

    def create(horizon: Horizon, at_most: int) -> tuple[PolicyPlayer, Counting]:
        client: Any = Counting(at_most)
        return PolicyPlayer(PolicyContext(client, Conversation(chat), horizon, "s", 1.0)), client

    return create


def test_the_purpose_of_a_group_decides_the_sampling_of_its_turns(begin: Begin) -> None:
    spec = WorkerSpec(None, None, "", 0.7, 0.0, QUICK, {}, PolicyPlayer, 0)
    assert spec.sampling(Purpose.TRAIN, [3]) == Sampling((3,), 0.7)
    greedy = spec.sampling(Purpose.EVAL, [3])
    assert greedy == Sampling((3,), 0.0)
    player, client = begin(HORIZON, 2)
    context = PolicyContext(player._client, player._conversation, HORIZON, "s", 1.0, greedy)
    asyncio.run(PolicyPlayer(context).act("w1", []))
    assert client.sampling == [greedy]


def test_the_limit_on_tokens_per_turn_bounds_a_turn(begin: Begin) -> None:
    player, client = begin(Horizon(9, 4, 100, 100), 50)
    answer = asyncio.run(player.act("w1 w2", ()))
    assert (answer.tokens, answer.cut_by) == (4, Limit.TOKENS_PER_TURN)
    assert client.requests[0][1] == 4
    prompt, completion = answer.messages
    sampled = (list(completion.tokens), list(completion.mask), completion.source)
    assert sampled == ([3] * 4, [1] * 4, Source.POLICY)
    assert not any(prompt.mask)
    player.close()
    assert client.released == ["s"]


def test_the_limit_on_tokens_per_episode_ends_the_episode(begin: Begin) -> None:
    async def scenario() -> None:
        player, client = begin(Horizon(9, 4, 7, 100), 50)
        assert (await player.act("w1", ())).tokens == 4
        last = await player.act("w1", ())
        assert (last.tokens, last.cut_by) == (3, Limit.TOKENS_PER_EPISODE)
        with pytest.raises(
            HorizonReached, match=r"7 tokens sampled, `horizon\.max_tokens_per_episode` is 7"
        ) as reached:
            await player.act("w1", ())
        assert reached.value.limit is Limit.TOKENS_PER_EPISODE
        assert [limit for _, limit in client.requests] == [4, 3]

    asyncio.run(scenario())


def test_prompt_and_completion_fit_into_the_context(begin: Begin) -> None:
    async def scenario() -> None:
        player, client = begin(Horizon(9, 8, 100, 20), 50)
        for _ in range(2):
            await player.act("w1 w2 w3", ())
        with pytest.raises(
            HorizonReached, match=r"with its last observation of 4, `horizon\.max_context` is 20"
        ) as error:
            await player.act("w1 w2 w3", ())
        assert error.value.limit is Limit.CONTEXT
        first, last = client.requests
        assert first[1] == 8
        assert sum(last) == 20
        assert last[1] < 8

    asyncio.run(scenario())


def test_a_first_observation_that_does_not_fit_is_named(begin: Begin) -> None:
    player, client = begin(Horizon(9, 8, 100, 7), 50)
    with pytest.raises(HorizonReached, match=r"the first observation has 7 tokens, `horizon.max_context` is 7"):
        asyncio.run(player.act("w1 w2 w3 w4 w5 w6 w7", ()))
    assert client.requests == []


def test_a_text_policy_rejects_images(begin: Begin, tmp_path: Path) -> None:
    player, client = begin(HORIZON, 1)
    with pytest.raises(ImagesUnsupported, match="contains 1 image, and this policy reads text only"):
        asyncio.run(player.act("", (b"png",)))
    assert not client.requests
    served = ChatPlayer(chat_server("http://localhost:1/v1", 1.0, 1.0), "")
    with pytest.raises(ImagesUnsupported):
        asyncio.run(served.act("", (b"png",)))


def test_an_environment_with_images_ends_the_run_of_a_text_policy(begin: Begin, tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        token_player, _ = begin(HORIZON, 1)

        class TextPlayer:
            async def act(self, observation: str, images: Any) -> Any:
                return await token_player.act(observation, images)

            def close(self) -> None:
                token_player.close()

        stage.player = TextPlayer()
        with pytest.raises(ImagesUnsupported, match="loop/Picture-v0: the observation contains 1 image"):
            await stage.play(lambda *_: always("go"), group(make_task(PICTURE, 0, "train", {})))
        stored = load_trajectory(stage.database, "g-0")
        assert (stored.status, stored.steps) == (Status.POLICY_ERROR, ())
        assert "reads text only" in stored.error

    on_stage(tmp_path, scenario)


def test_created_at_is_the_time_of_the_step_not_of_its_commit(tmp_path: Path) -> None:
    """The writer commits several steps together, after the next turn has begun."""
    turns: list[datetime] = []

    async def respond(_: str) -> str:
        turns.append(datetime.now(UTC))
        return "go"

    async def scenario(stage: Stage) -> list[datetime]:
        await stage.play(lambda *_: respond, group(make_task(CLOCK, 0, "train", {})))
        turns.append(datetime.now(UTC))
        with stage.database.read() as conn:
            return list(conn.execute(select(step.c.created_at).order_by(step.c.idx)).scalars())

    played = on_stage(tmp_path, scenario)
    assert len(played) == 3
    for started, created_at, next_started in zip(turns, played, turns[1:], strict=False):
        assert started < created_at < next_started


def test_the_extras_of_an_episode_are_stored(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> Trajectory:
        await stage.play(lambda *_: always("go"), group(make_task(CLOCK, 0, "train", {})))
        return load_trajectory(stage.database, "g-0")

    assert on_stage(tmp_path, scenario).extras == {
        "made_of": "brass",
        "struck": [3],
        "targets": {"2": [[4.0, 2.0]]},
        "env_package": f"turnwise {__version__}",
    }
