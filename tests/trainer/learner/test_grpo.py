"""Compare the learner with plain GRPO and its decoupled PPO loss, written out here: equal with default components.

The comparison runs in float64 (transformers keeps its norms in float32), with rewards that float32 represents exactly:
AdamW's first steps are nearly the sign of the gradient, which amplifies rounding errors. The tolerance is less than a
hundredth of the change that the updates make.
"""

import copy
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM
from turnwise.agents.tiny_model import new_model
from turnwise.records import (
    NO_VERSION,
    Group,
    Horizon,
    Message,
    PolicyVersion,
    Role,
    Source,
    Status,
    Step,
    Task,
    Trajectory,
)
from turnwise.tests.trainer.scored_groups import scored
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.sections import LearnerConfig
from turnwise.trainer.learner.backends.local import Learner, NonFiniteLoss
from turnwise.trainer.learner.batch import assemble
from turnwise.trainer.learner.optimizer import MetricReducer
from turnwise.trainer.learner.packing import pack_minibatch, split_minibatches

NAN = float("nan")
WORDS = [f"w{i}" for i in range(20)]
LEARNER = LearnerConfig(learning_rate=3e-4, min_learning_rate=3e-4, lr_warmup_steps=0, max_tokens_per_micro_batch=64)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_model(tmp_path_factory.mktemp("m") / "model", WORDS, hidden=32, heads=2, seed=3)


def trajectory(group: str, member: int, rng: Random, policy: torch.nn.Module, status: Status = Status.COMPLETED):
    """Return random turns with the log-probabilities of ``policy``: an on-policy trajectory."""
    ids: list[int] = []
    messages: list[Message] = []
    steps: list[Step] = []
    for turn in range(rng.randint(1, 3)):
        observation = [rng.randrange(20) for _ in range(rng.randint(2, 6))]
        action = [rng.randrange(20) for _ in range(rng.randint(1, 3))]
        with torch.no_grad():
            logits = policy(torch.tensor([ids + observation + action])).logits[0].log_softmax(-1)
        start = len(ids) + len(observation)
        logprobs = [float(logits[start + i - 1, token].float()) for i, token in enumerate(action)]
        index = len(messages)
        messages.append(
            Message(
                index,
                index - 1 if index else None,
                Role.USER,
                Source.POLICY,
                observation,
                [0] * len(observation),
                [NAN] * len(observation),
                [NO_VERSION] * len(observation),
            )
        )
        messages.append(
            Message(
                index + 1, index, Role.ASSISTANT, Source.POLICY, action, [1] * len(action), logprobs, [0] * len(action)
            )
        )
        ids += observation + action
        reward = rng.choice([0.0, 0.25, 1.0, -0.5])
        steps.append(Step(turn, "", "", "", reward, {}, False, False, True, "", index + 1, 0.0, 0.0))
    return Trajectory(f"{group}-{member}", "r", group, member, 0, status, steps=steps, messages=messages)


def batch(seed: int, policy: torch.nn.Module) -> list[Group]:
    rng = Random(seed)
    task, horizon = Task("t", "e", "0", 0, "train"), Horizon(8, 8, 64, 64)
    return [
        Group(f"g{g}", "r", task, horizon, 4, trajectories=[trajectory(f"g{g}", m, rng, policy) for m in range(4)])
        for g in range(3)
    ]


def plain_grpo(model: torch.nn.Module, optimizer: torch.optim.Optimizer, groups: list[Group]) -> None:
    """Apply one update: the decoupled PPO loss per token, the group's mean return as baseline, one sequence per pass.

    Per token ``w max(-A r, -A clip(r, 0.8, 1.2))`` with ``r`` = current / proximal and ``w`` = min(proximal / behavior,
    2); the proximal policy is the current one before the step. The mean over all tokens is the loss.
    """
    terms = []
    for group in groups:
        returns = [sum(step.reward for step in one.steps) for one in group.trajectories]
        for one, total in zip(group.trajectories, returns, strict=True):
            advantage = total - sum(returns) / len(returns)
            ids = [token for message in one.messages for token in message.tokens]
            mask = [bit for message in one.messages for bit in message.mask]
            old = [value for message in one.messages for value in message.logprobs]
            logp = model(torch.tensor([ids])).logits[0].log_softmax(-1)
            for i in range(1, len(ids)):
                if mask[i]:
                    current = logp[i - 1, ids[i]]
                    proximal = current.detach()
                    ratio, weight = (current - proximal).exp(), (proximal - old[i]).exp().clamp(max=2.0)
                    terms.append(weight * torch.max(-advantage * ratio, -advantage * ratio.clamp(0.8, 1.2)))
    loss = torch.stack(terms).sum() / len(terms)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def assembled(groups: list[Group], update: int = 0, **chosen: Any):
    config = parse_config({"name": "t", "environments": [{"id": "e"}], **chosen})
    history = {0: PolicyVersion("r", 0, None, update)}
    return config, assemble(
        [scored(one) for one in groups],
        history,
        update,
        0,
        advantage=config.advantage,
        filters=config.sample_filters,
        loss=config.loss,
        streams=[Random(0) for _ in config.sample_filters],
    )


@pytest.mark.parametrize("stale", [False, True])
def test_three_updates_equal_plain_grpo(model: Path, stale: bool) -> None:
    """Stale batches come from another policy, so that importance weights differ from 1 and some exceed the cap."""
    reference = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager").double()
    optimizer = torch.optim.AdamW(reference.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.0)
    slots, _ = assembled([])
    learner = Learner(model, LEARNER, slots.loss, slots.proximal, 1.0)
    learner.model.double()
    before = [one.detach().clone() for one in reference.parameters()]
    other, generator = copy.deepcopy(reference), torch.Generator().manual_seed(1)
    for parameter in other.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    for update in range(3):
        groups = batch(update, other if stale else reference)
        _, train_batch = assembled(groups, update)
        metrics = learner.update(train_batch.samples, 0.0, update, Random(0))
        assert (metrics["is_cap_fraction"] > 0.05) is stale
        plain_grpo(reference, optimizer, groups)
        for (name, ours), (_, theirs) in zip(
            learner.model.named_parameters(), reference.named_parameters(), strict=True
        ):
            assert torch.allclose(ours, theirs, atol=1e-6, rtol=0), (update, name, (ours - theirs).abs().max())
    moved = max(float((a - b).detach().abs().max()) for a, b in zip(before, reference.parameters(), strict=True))
    assert moved > 5e-4


def test_several_optimizer_steps_per_batch_use_the_policy_at_its_start_as_proximal(model: Path) -> None:
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    slots, train_batch = assembled(batch(1, policy))
    learner = Learner(model, LEARNER.model_copy(update={"num_minibatches": 3}), slots.loss, slots.proximal, 1.0)
    metrics = learner.update(train_batch.samples, 0.0, 0, Random(0))
    assert metrics["behavior_kl"] > 0
    assert metrics["tokens"] == sum(sum(one.sample.mask) for one in train_batch.samples)


def weights(learner: Learner) -> list[torch.Tensor]:
    return [one.detach().clone() for one in learner.model.parameters()]


def test_a_step_without_trained_tokens_changes_nothing(model: Path) -> None:
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    slots, train_batch = assembled(batch(1, policy))
    learner = Learner(model, LEARNER.model_copy(update={"max_kl": 1e-3}), slots.loss, slots.proximal, 1.0)
    before = weights(learner)
    filtered = [replace(one, weights=np.zeros_like(one.weights)) for one in train_batch.samples]
    metrics = learner.update(filtered, 0.0, 0, Random(0))
    assert (metrics["tokens"], metrics["step_scale"]) == (0.0, 1.0)
    assert all(torch.equal(a, b) for a, b in zip(before, weights(learner), strict=True))


def test_a_non_finite_step_is_named_and_not_applied(model: Path) -> None:
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    slots, train_batch = assembled(batch(1, policy))
    config = LEARNER.model_copy(update={"num_minibatches": 2})
    sizes = [int(one.sample.mask.sum()) for one in train_batch.samples]
    first, second = split_minibatches(sizes, range(len(sizes)), 2, Random(0))
    broken = list(train_batch.samples)
    for index in second:
        broken[index] = replace(broken[index], advantages=np.full_like(broken[index].advantages, np.nan))
    learner, reference = (Learner(model, config, slots.loss, slots.proximal, 1.0) for _ in range(2))
    with pytest.raises(NonFiniteLoss, match="in optimizer step 2 of 2 of the batch: the step is not applied") as raised:
        learner.update(broken, 0.0, 0, Random(0))
    assert str(raised.value).endswith("lower `learner.learning_rate` and run the same command again")
    for group in reference.optimizer.param_groups:
        group["lr"] = LEARNER.learning_rate
    reference._optimizer_step([train_batch.samples[index] for index in first], None, "", MetricReducer())
    assert any(not torch.equal(a, b) for a, b in zip(policy.parameters(), weights(learner), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(weights(reference), weights(learner), strict=True))


def test_a_step_beyond_the_kl_bound_is_shortened(model: Path) -> None:
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    slots, train_batch = assembled(batch(1, policy))
    kl = {}
    for limit in (0.0, 1e-3):
        config = LEARNER.model_copy(update={"learning_rate": 3e-2, "min_learning_rate": 3e-2, "max_kl": limit})
        learner = Learner(model, config, slots.loss, slots.proximal, 1.0)
        micro_batches = pack_minibatch(train_batch.samples, config.max_tokens_per_micro_batch).micro_batches
        before = [learner.compute_logprobs(one) for one in micro_batches]
        scale = learner.update(train_batch.samples, 0.0, 0, Random(0))["step_scale"]
        after = [learner.compute_logprobs(one) for one in micro_batches]
        log_ratios = torch.cat(after) - torch.cat(before)
        kl[limit] = float((log_ratios.exp() - 1 - log_ratios).mean())
        assert (scale < 1) is (limit > 0)
    assert kl[0.0] > 1e-2
    assert kl[1e-3] < 3e-3
