"""A component that raises, or whose answer has the wrong type, is named in the error."""

from random import Random
from typing import Any, ClassVar

import pytest
from turnwise.errors import TurnwiseError
from turnwise.records import ScoredGroup, Task
from turnwise.tests.trainer.scored_groups import scored_group
from turnwise.trainer.algorithms.algorithm_set import AlgorithmSet
from turnwise.trainer.algorithms.group_sizes.base import GroupSize
from turnwise.trainer.algorithms.replay.base import ReplayBuffer
from turnwise.trainer.algorithms.task_samplers.mopps import MoPPS
from turnwise.trainer.config.loading import parse_config

TASK = Task("t", "e", "0", 0, "train")


class Answers(GroupSize):
    answer: Any

    def size(self, task: Task, group_size: int) -> int:
        return self.answer

    def additional(self, scored: ScoredGroup) -> int:
        return self.answer


class Raises(ReplayBuffer):
    def mix(self, *arguments: Any) -> list[ScoredGroup]:
        raise KeyError("boom")

    def observe(self, scored: ScoredGroup) -> None:
        raise KeyError("boom")


@pytest.mark.parametrize("answer", [1, 2.0, None])
def test_a_size_is_a_whole_number_of_at_least_2(answer: object) -> None:
    with pytest.raises(TurnwiseError, match=r"`size` of the group_size component `.*Answers` returned .* at least 2"):
        Answers(answer=answer).checked_size(TASK, 4)


@pytest.mark.parametrize("answer", [-1, 2.0])
def test_a_second_stage_is_a_whole_number(answer: object) -> None:
    with pytest.raises(TurnwiseError, match="`additional` of the group_size component"):
        Answers(answer=answer).checked_additional(scored_group([[0.0], [1.0]]))


def test_a_state_of_another_format_is_refused() -> None:
    sampler = MoPPS()
    sampler.observe(scored_group([[0.0], [1.0]]))
    state = sampler.state_dict()
    with pytest.raises(TurnwiseError, match=r"^the task_sampler component `mopps` cannot .* `counts`, .*another name$"):
        MoPPS().load_state_dict({**state, "counts": {}})
    with pytest.raises(TurnwiseError, match=r"the group_size component .*Answers` cannot restore its state.*`latest`"):
        Answers(answer=2).load_state_dict({"latest": {}})
    again = MoPPS()
    again.load_state_dict(state)
    assert again.state_dict() == state


@pytest.mark.parametrize("name", ["_lastest", "answer"])
def test_a_wrong_name_in_remembered_is_refused_when_the_class_is_made(name: str) -> None:
    with pytest.raises(TypeError, match=rf"Forgetful`: `remembered` names `{name}`, which is no private attribute"):

        class Forgetful(Answers):
            _latest: int = 0
            remembered: ClassVar[tuple[str, ...]] = ("_latest", name)


def test_a_method_that_raises_is_named() -> None:
    reader: Any = None
    with pytest.raises(TurnwiseError, match=r"`mix` of the replay_buffer component `.*Raises` raised KeyError: 'boom'"):
        Raises().batch([scored_group([[0.0], [1.0]])], reader, 0, Random(0))
    config = parse_config({"name": "t", "environments": [{"id": "e"}]}).model_copy(update={"replay_buffer": Raises()})
    with pytest.raises(TurnwiseError, match="`observe` of the replay_buffer component"):
        AlgorithmSet.of(config).observe(0, scored_group([[0.0], [1.0]]))
