"""A turn may hold several sampled messages, on any path of the tree: each sampled token is trained on once."""

from dataclasses import dataclass, field
from itertools import count

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from turnwise.records import Message, ScoredGroup, Status, Trajectory
from turnwise.tests.trainer.learner.test_batch import assembled, group, observed, sampled, step, trajectory
from turnwise.trainer.algorithms.advantages.base import GroupAdvantage
from turnwise.trainer.algorithms.groups import Credit, sampled_tokens, turn_of_messages
from turnwise.trainer.learner.samples import samples


@dataclass
class Episode:
    """An episode whose tokens all have different ids."""

    messages: list[Message] = field(default_factory=list)
    turns: list[list[int]] = field(default_factory=list)
    """The sampled token ids of each turn, in their order."""
    _ids: count = field(default_factory=lambda: count(1))

    def observe(self, size: int, root: bool) -> None:
        index = len(self.messages)
        parent = None if root or not index else index - 1
        self.messages.append(observed(index, parent, *(next(self._ids) for _ in range(size))))

    def sample(self, size: int) -> None:
        index = len(self.messages)
        tokens = [next(self._ids) for _ in range(size)]
        self.messages.append(sampled(index, index - 1, 3, *tokens))
        self.turns[-1] += tokens

    def trajectory(self, last_messages: list[int]) -> Trajectory:
        steps = [step(turn, message, float(turn)) for turn, message in enumerate(last_messages)]
        return Trajectory("a", "r", "g", 0, 0, Status.COMPLETED, steps=steps, messages=self.messages)


SAMPLED = st.tuples(st.integers(1, 3), st.booleans(), st.integers(1, 4))
"""Size of an observation, whether it begins a new root, and size of the sampled message after it."""


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(SAMPLED, min_size=1, max_size=4), min_size=1, max_size=5),
    st.lists(SAMPLED, max_size=2),
)
def test_every_sampled_token_of_a_turn_is_trained_on_once_with_the_credit_of_the_turn(
    turns: list[list[tuple[int, bool, int]]], unfinished: list[tuple[int, bool, int]]
) -> None:
    """``unfinished`` is a turn that a limit ended before its action."""
    episode, last = Episode(), list[int]()
    for turn in turns:
        episode.turns.append([])
        for seen, root, size in turn:
            episode.observe(seen, root)
            episode.sample(size)
        last.append(len(episode.messages) - 1)
    episode.turns.append([])
    for seen, root, size in unfinished:
        episode.observe(seen, root)
        episode.sample(size)
    one = episode.trajectory(last)
    wanted = episode.turns[:-1]
    assert sampled_tokens(one) == [len(tokens) for tokens in wanted]

    class Numbered(GroupAdvantage):
        """One number per token: 100 times the turn plus the number of the token in its turn."""

        def of_group(self, scored: ScoredGroup) -> Credit:
            return [
                [
                    100 * (turn + 1) + np.arange(size, dtype=np.float32)
                    for turn, size in enumerate(sampled_tokens(member))
                ]
                for member in scored.group.trajectories
            ]

    class PerTurn(GroupAdvantage):
        """The number of the turn."""

        def of_group(self, scored: ScoredGroup) -> Credit:
            return [[float(turn + 1) for turn in range(len(turns))] for turns in scored.rewards]

    for advantage in (Numbered(), PerTurn()):
        batch = assembled([group(one, trajectory("b", 1.0, versions=(3,)))], advantage=advantage)
        trained = [
            (int(token), float(value))
            for sample in batch.samples
            if sample.sample.trajectory == "a"
            for token, value, weight in zip(sample.sample.tokens, sample.advantages, sample.weights, strict=True)
            if weight
        ]
        per_token = isinstance(advantage, Numbered)
        assert sorted(trained) == [
            (token, 100.0 * (turn + 1) + place if per_token else turn + 1.0)
            for turn, tokens in enumerate(wanted)
            for place, token in enumerate(tokens)
        ]


def test_the_messages_of_a_turn_that_its_parent_shares_are_context() -> None:
    """Each turn has a thought and an action; the child branches after the first turn."""
    messages = [observed(0, None, 1)]
    for index in (1, 3, 5, 7):
        messages += [sampled(index, index - 1, 0, 10 + index), observed(index + 1, index, 1)]
    child = Trajectory(
        "c", "r", "g", 2, 0, steps=[step(0, 3), step(1, 7)], messages=messages, branched_from="a", branched_at=1
    )
    assert turn_of_messages(child) == {index: int(index > 3) for index in range(8)}
    (one,) = samples(child)
    assert one.tokens[one.mask > 0].tolist() == [15, 17]
    assert one.turns[one.mask > 0].tolist() == [1, 1]
    assert one.positions[one.mask > 0].tolist() == [0, 1]
