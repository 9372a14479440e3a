"""Warm up the format of a new model: supervised training on random valid actions.

The model learns the syntax of actions and which words occur together, but nothing about solving tasks. Observations are
predicted too, with a small weight. Batches are small, because many small steps train better than few large ones.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random
from time import monotonic
from typing import Any

import torch
from torch import Tensor

from ...agents.tokens.conversation import Chat
from ...records import Horizon
from ..config.sections import EnvironmentConfig, SftWarmupConfig
from ..learner.model import packed_attention as attention
from .examples import SftExample, random_policy, resampled
from .random_episodes import random_episodes

REPORT_INTERVAL_S = 15.0
"""Seconds between two reports of progress."""


def warm_up(
    model: Any,
    chat: Chat,
    environments: Sequence[EnvironmentConfig],
    horizon: Horizon,
    config: SftWarmupConfig,
    seed: int,
    timeout_s: float = 30.0,
    report: Callable[[str], None] = lambda text: None,
    stopped: Callable[[], bool] = lambda: False,
) -> float:
    """Train ``model`` in place and return the last loss. The learning rate falls linearly to 0.

    Args:
        timeout_s: limit for one call of an environment.
        report: called with lines about progress and excluded environments.
        stopped: no further step begins once it returns True.

    Raises:
        NoPlayableEnvironment: no environment can be played.
    """
    rng = Random(seed)  # noqa: S311 - reproducible, not secret
    played = random_episodes(environments, random_policy(chat, horizon.max_turns), rng, timeout_s, report)
    source: Iterator[SftExample] = played
    if config.episodes:
        source = resampled(played, config.episodes, Random(seed))  # noqa: S311
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
    last_loss, last_report = float("nan"), monotonic()
    for step in range(config.steps):
        if stopped():
            break
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * (1 - step / config.steps)
        value = sft_loss(model, list(islice(source, config.batch_size)), config.observation_weight)
        optimizer.zero_grad(set_to_none=True)
        value.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        last_loss = float(value.detach())
        if (now := monotonic()) - last_report > REPORT_INTERVAL_S:
            last_report = now
            report(f"format warm-up: {step + 1} of {config.steps} steps")
    return last_loss


def sft_loss(model: Any, batch: Sequence[SftExample], observation_weight: float) -> Tensor:
    """Return the cross-entropy against the soft targets of actions plus the weighted next-token loss on observations.

    Each term is a mean over its tokens.
    """
    lengths = [len(one.ids) for one in batch]
    device = next(model.parameters()).device
    ids = torch.tensor([token for one in batch for token in one.ids], device=device)
    positions = torch.cat([torch.arange(length, device=device) for length in lengths])
    with attention.packed(lengths):
        logits = model(input_ids=ids[None], position_ids=positions[None], use_cache=False).logits[0]
        logp = logits.float().log_softmax(-1)
    targets = [target for one in batch for target in one.targets]
    first = positions == 0
    action_rows = [(row - 1, target) for row, target in enumerate(targets) if target is not None]
    rows = torch.tensor([row for row, target in action_rows for _ in target])
    tokens = torch.tensor([token for _, target in action_rows for token in target])
    mass = torch.tensor([share for _, target in action_rows for share in target.values()], device=device)
    action: Tensor = -(mass * logp[rows, tokens]).sum() / max(len(action_rows), 1)
    observed = torch.tensor([row for row, target in enumerate(targets) if target is None and not first[row]])
    if not observation_weight or not len(observed):
        return action
    observation: Tensor = logp[observed - 1, ids[observed]].mean()
    return action - observation_weight * observation
