"""The client's choice of an engine, and the part that it charges with a late answer."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from turnwise.agents.engine import client as client_module
from turnwise.agents.engine.client import PolicyClient
from turnwise.agents.engine.request import UNSENT, Completion, Request, Sampling, failed_completion
from turnwise.agents.errors import EngineFailed, PolicyFailed
from turnwise.agents.tokens.renderer import ImageSpan

ENGINES, CLIENTS = 8, 64


class Counting:
    """The handle of an engine that counts requests and answers none."""

    def __init__(self) -> None:
        self.submit = self.poll = self
        self.requests = 0

    def options(self, **_: Any) -> "Counting":
        return self

    def remote(self, client: str, *arguments: Any) -> asyncio.Future[Any]:
        self.requests += len(arguments[0]) if len(arguments) > 1 else 0
        return asyncio.get_running_loop().create_future()


def test_clients_with_one_session_each_use_different_engines() -> None:
    engines = [Counting() for _ in range(ENGINES)]

    async def scenario() -> None:
        clients = [PolicyClient(engines, Sampling(stop=())) for _ in range(CLIENTS)]
        playing = [asyncio.create_task(one.generate("s", [1], 1, 60)) for one in clients]
        async with asyncio.timeout(5):
            while sum(one.requests for one in engines) < CLIENTS:
                await asyncio.sleep(0.01)
        for task in playing:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
        await asyncio.gather(*(one.close() for one in clients))

    asyncio.run(scenario())
    assert sum(one.requests > 0 for one in engines) > ENGINES / 2


class Responding:
    """The handle of an engine that completes no answer, and responds to the first ``responses`` polls."""

    def __init__(self, version: int | None = 3, responses: int = 1_000_000) -> None:
        self.submit = self
        self.poll = self
        self.version = version
        self.responses = responses

    def options(self, **_: Any) -> "Responding":
        return self

    def remote(self, client: str, *arguments: Any) -> Any:
        if len(arguments) == 1:
            return self.respond(*arguments)
        return None

    async def respond(self, timeout_s: float) -> tuple[str, int | None, list[Any]]:
        self.responses -= 1
        if self.responses < 0:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(timeout_s)
        return "incarnation", self.version, []


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize(
    ("engine", "blamed", "state"),
    [
        (Responding, PolicyFailed, "serves version 3"),
        (partial(Responding, version=None), EngineFailed, "has no weights yet"),
        (partial(Responding, responses=2), EngineFailed, "serves version 3"),
        (Counting, EngineFailed, "has not answered yet"),
    ],
)
def test_a_late_answer_is_the_policys_if_the_engine_responds(
    engine: Callable[[], Any], blamed: type[Exception], state: str, cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "POLL_TIMEOUT_S", 0.02)
    monkeypatch.setattr(client_module, "MAX_SILENCE_S", 0.2)

    async def scenario() -> BaseException | None:
        client = PolicyClient([engine()], Sampling(stop=()))
        playing = asyncio.create_task(client.generate("s", [1], 1, 60.0 if cancelled else 0.5))
        if cancelled:
            await asyncio.sleep(0.5)
            playing.cancel()
        await asyncio.wait([playing])
        await client.close()
        if not cancelled:
            return playing.exception()
        try:
            await playing
        except asyncio.CancelledError as error:
            return error.__cause__
        return None

    error = asyncio.run(scenario())
    if cancelled and blamed is PolicyFailed:
        assert error is None
    else:
        assert type(error) is blamed
        assert state in str(error)


class Keeping:
    """The handle of an engine that keeps the images of ``requests``, and answers each at once."""

    def __init__(self) -> None:
        self.submit = self.poll = self
        self.kept = set[str]()
        self.sent: list[list[str]] = []
        self.completions: list[tuple[int, Completion]] = []

    def options(self, **_: Any) -> "Keeping":
        return self

    def remote(self, client: str, *arguments: Any) -> Any:
        if len(arguments) == 1:
            return self.respond()
        for number, request in arguments[0]:
            self.completions.append((number, self.answer(request)))
        return None

    def answer(self, request: Request) -> Completion:
        self.sent.append(sorted(request.contents))
        self.kept.update(request.contents)
        has_all = all(span.blob in self.kept for span in request.images)
        return Completion([1], [0.0], [0], "stop") if has_all else failed_completion(UNSENT)

    async def respond(self) -> tuple[str, int | None, list[Any]]:
        await asyncio.sleep(0.01)
        done, self.completions = self.completions, []
        return "incarnation", 0, done


def test_an_image_is_sent_once_and_again_if_the_engine_dropped_it() -> None:
    engine, contents = Keeping(), {"a": b"1", "b": b"2", "unused": b"3"}
    first, both = [ImageSpan("a", 0, 1)], [ImageSpan("a", 0, 1), ImageSpan("b", 1, 1)]

    async def scenario() -> None:
        client = PolicyClient([engine], Sampling(stop=()))
        for spans in (first, both):
            await client.generate("s", [1], 1, 60, None, spans, contents)
        engine.kept.remove("a")
        answer = await client.generate("s", [1], 1, 60, None, both, contents)
        assert answer.tokens == [1]
        with pytest.raises(KeyError):
            await client.generate("s", [1], 1, 60, None, first, {})
        await client.close()

    asyncio.run(scenario())
    assert engine.sent == [["a"], ["b"], [], ["a", "b"]]
