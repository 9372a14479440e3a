"""A completion with missing ids, log-probabilities or versions fails its turn; nothing is encoded again."""

import asyncio

import pytest
from turnwise.agents.engine.client import _Replica
from turnwise.agents.engine.request import Completion
from turnwise.agents.errors import EngineFailed


@pytest.mark.parametrize(
    ("completion", "reason"),
    [
        (Completion([], [], [], "the prompt is too long"), "engine 0 returned no tokens: the prompt is too long"),
        (Completion([], [-0.5], [0], "stop"), "engine 0 returned no tokens: stop"),
        (Completion([5, 6], [-0.5], [0, 0], "stop"), "returned 2 token ids, 1 log-probabilities and 2 versions"),
        (Completion([5, 6], [-0.5, -0.5], [0], "stop"), "returned 2 token ids, 2 log-probabilities and 1 versions"),
    ],
)
def test_a_completion_with_missing_values_is_a_failure_of_the_engine(completion: Completion, reason: str) -> None:
    async def scenario(finished: Completion) -> Completion:
        replica = _Replica(None, 0, "client")
        future = replica.open[7] = asyncio.get_running_loop().create_future()
        replica._finish(7, finished)
        return await future

    whole = Completion([5, 6], [-0.5, -0.5], [0, 0], "stop")
    assert asyncio.run(scenario(whole)) == whole
    with pytest.raises(EngineFailed, match=reason):
        asyncio.run(scenario(completion))
