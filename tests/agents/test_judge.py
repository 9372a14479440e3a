"""A judge in the rubric of a dataset environment, against a local HTTP server with a chat API."""

import json
from typing import Any

import pytest
from turnwise.agents.judge import Judge
from turnwise.envs import DatasetEnv, EnvironmentFailed
from turnwise.tests.agents.servers import Counter, serving

ROWS = [{"prompt": "Capital of Peru?", "answer": "Lima", "secret": "not for the judge"}]


def right(action: str, answer: str) -> bool:
    return answer in action


def answered(url: str, **options: Any) -> tuple[float, dict[str, Any]]:
    """Return the reward and the reward parts of an episode that a judge at ``url`` scores."""

    class Judged(DatasetEnv):
        rubric = {right: 1.0, Judge("polite", "Is it polite?", url=url, model="judge", **options): 0.5}  # noqa: RUF012

        def load(self, split: str) -> Any:
            return ROWS

    env = Judged()
    env.reset(seed=0)
    _, reward, _, _, info = env.step("Lima, please.")
    return reward, info["reward_parts"]


def test_a_judge_is_a_reward_function() -> None:
    counter = Counter('{"score": 0.5}')
    with serving(counter) as url:
        reward, parts = answered(url, columns=("answer",))
    assert (reward, parts) == (1.25, {"right": 1.0, "polite": 0.25})
    (body,) = counter.bodies
    system, user = body["messages"]
    assert (body["model"], body["temperature"]) == ("judge", 0)
    assert system["content"].startswith("Is it polite?\n")
    assert json.loads(user["content"]) == {
        "row": {"answer": "Lima"},
        "conversation": [
            {"role": "user", "content": "Capital of Peru?"},
            {"role": "assistant", "content": "Lima, please."},
        ],
    }


@pytest.mark.parametrize(
    ("answer", "options", "reason"),
    [
        ("very polite", {}, "the judge's answer is not JSON: 'very polite'"),
        ('{"score": 2}', {}, "the judge's score is not a number from 0 to 1"),
        ('{"score": 1}', {"columns": ("answers",)}, "no column `answers`"),
        ('{"score": 1}', {"api_key_env": "NO_SUCH_KEY"}, "`url` of the judge `polite`: the environment variable `NO_"),
    ],
)
def test_a_failure_of_the_judge_is_one_of_the_environment(answer: str, options: dict[str, Any], reason: str) -> None:
    with serving(Counter(answer)) as url, pytest.raises(EnvironmentFailed, match=r"reward function `polite`") as failed:
        answered(url, **options)
    assert reason in str(failed.value)


def test_a_judge_that_does_not_answer_in_time_is_a_failure() -> None:
    counter = Counter('{"score": 1}', together=2, patience_s=1.0)
    with serving(counter) as url, pytest.raises(EnvironmentFailed, match=r"no complete answer within 0.1 s"):
        answered(url, timeout_s=0.1)
