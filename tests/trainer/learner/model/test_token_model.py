"""The trainable copy of the reference policy: which tokens it scores, and its gradient step."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from turnwise.agents.tiny_model import new_model
from turnwise.errors import TurnwiseError
from turnwise.records import Trajectory
from turnwise.tests.trainer.learner.test_batch import observed, sampled, step
from turnwise.tests.trainer.learner.train_samples import VOCABULARY
from turnwise.tests.trainer.rollout.episodes import tree_group
from turnwise.trainer.algorithms.advantages.base import TokenLogprobs
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.algorithms.proximal.recompute import Recompute
from turnwise.trainer.config.sections import LearnerConfig
from turnwise.trainer.learner.backends.local import Learner

MEMBERS = tree_group("g", 0).group.trajectories


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_model(tmp_path_factory.mktemp("m") / "model", VOCABULARY, hidden=32, heads=2, seed=3)


def learner(model: Path, **changes: Any) -> Learner:
    made = Learner(model, LearnerConfig(max_tokens_per_micro_batch=24, **changes), DecoupledPPO(), Recompute(), 1.0)
    made.load_reference(model)
    return made


def counts(values: TokenLogprobs) -> list[list[int]]:
    return [[len(turn) for turn in turns] for turns in values]


def flat(values: TokenLogprobs) -> Tensor:
    return torch.cat([turn for turns in values for turn in turns])


def curved(values: TokenLogprobs) -> Tensor:
    """Return a function whose gradient differs from token to token."""
    return (flat(values) ** 2).mean() + flat(values)[3] * flat(values)[-1]


def test_it_needs_the_reference_policy(model: Path) -> None:
    bare = Learner(model, LearnerConfig(), DecoupledPPO(), Recompute(), 1.0)
    with pytest.raises(TurnwiseError, match="call `load_reference` first"):
        bare.token_model()


def test_each_sampled_token_is_scored_once_and_at_first_as_the_reference(model: Path) -> None:
    made = learner(model)
    copy = made.token_model()
    values = copy.logprobs(MEMBERS)
    assert counts(values) == [[1, 2, 3], [1, 2, 3], [0, 2, 3], [0, 0, 3]]
    assert torch.equal(flat(values), flat(copy.reference_logprobs(MEMBERS)))
    for member, turns in zip(MEMBERS, values, strict=True):
        tokens = [token for message in member.messages for token in message.tokens]
        with torch.no_grad():
            logits = _whole(made.model, tokens)
        start = 0
        for message in member.messages:
            turn = message.index // 2
            if message.index % 2 and len(turns[turn]):
                found = [float(logits[start + i - 1, token]) for i, token in enumerate(message.tokens)]
                assert turns[turn].tolist() == pytest.approx(found, abs=1e-5)
            start += len(message.tokens)


def test_the_tokens_of_a_turn_are_in_the_order_of_its_messages(model: Path) -> None:
    """Turn 0 has a thought in one context and its action in another; turn 1 continues the context of the thought."""
    messages = [observed(0, None, 3, 4), sampled(1, 0, 0, 5, 6), observed(2, None, 7), sampled(3, 2, 0, 8)]
    messages += [observed(4, 1, 9), sampled(5, 4, 0, 10)]
    one = Trajectory("a", "r", "g", 0, 0, steps=[step(0, 3), step(1, 5)], messages=messages)
    made = learner(model)
    thought_and_action, last = made.token_model().logprobs([one])[0]
    with torch.no_grad():
        first, second = _whole(made.model, [3, 4, 5, 6, 9, 10]), _whole(made.model, [7, 8])
    expected = [float(first[1, 5]), float(first[2, 6]), float(second[0, 8])]
    assert thought_and_action.tolist() == pytest.approx(expected, abs=1e-5)
    assert last.tolist() == pytest.approx([float(first[4, 10])], abs=1e-5)


def _whole(model: Any, tokens: list[int]) -> Tensor:
    """Return the log-probabilities of every next token of one sequence, (tokens, vocabulary)."""
    from turnwise.trainer.learner.model.packed_attention import packed

    with packed([len(tokens)]):
        logits: Tensor = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    return logits.log_softmax(-1)


@pytest.mark.parametrize("size", [1, 10_000])
def test_a_step_is_the_gradient_of_the_function_and_does_not_depend_on_the_split(model: Path, size: int) -> None:
    expected, made = learner(model).token_model(), learner(model).token_model()
    made._config = made._config.model_copy(update={"max_tokens_per_micro_batch": size})
    losses = [one.step(MEMBERS, curved, 1e-2) for one in (expected, made)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for name, value in expected.tensors().items():
        assert torch.allclose(value, made.tensors()[name], atol=1e-4), name


def test_the_gradient_is_that_of_one_pass(model: Path) -> None:
    made = learner(model, max_grad_norm=1e9)
    copy = made.token_model()
    packed = copy._pack(MEMBERS)
    logprobs = [made._scorer(one).logprobs for one in packed.micro_batches]
    curved(packed.by_turn(torch.cat(logprobs))).backward()
    gradients = _gradients(copy, lambda: copy.step(MEMBERS, curved, 0.0))
    for parameter, gradient in zip(made.model.parameters(), gradients, strict=True):
        assert torch.allclose(parameter.grad, gradient, atol=1e-6)


def _gradients(copy: Any, step: Callable[[], float]) -> list[Tensor]:
    """Return the gradients that the optimizer of ``copy`` receives in ``step``."""
    found: list[Tensor] = []
    handle = copy._optimizer.register_step_pre_hook(
        lambda *_: found.extend(one.grad.clone() for one in copy._model.parameters())
    )
    step()
    handle.remove()
    return found


def test_a_step_changes_neither_the_reference_nor_the_policy(model: Path) -> None:
    made = learner(model)
    copy = made.token_model()
    before = flat(copy.reference_logprobs(MEMBERS))
    weights = [one.detach().clone() for one in made.model.parameters()]
    copy.step(MEMBERS, curved, 1e-2)
    assert torch.equal(flat(copy.reference_logprobs(MEMBERS)), before)
    assert not torch.allclose(flat(copy.logprobs(MEMBERS)), before, atol=1e-3)
    assert all(torch.equal(a, b) for a, b in zip(weights, made.model.parameters(), strict=True))


def test_a_function_that_is_not_finite_changes_nothing(model: Path) -> None:
    copy = learner(model).token_model()
    before = flat(copy.logprobs(MEMBERS))
    with pytest.raises(TurnwiseError, match=r"lower `advantage\.learning_rate`"):
        copy.step(MEMBERS, lambda values: flat(values).sum() * float("nan"), 1e-2)
    assert torch.equal(flat(copy.logprobs(MEMBERS)), before)
