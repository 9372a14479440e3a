"""Format warm-up of a new model: supervised on what a policy does that picks among the valid actions at random.

It teaches the syntax of actions and which words belong together, nothing of the task: the oracle is never asked. The
target of each action token is the random policy's exact next-token distribution, not the one action it happened to
take; observations are predicted too, with a small weight. Batches are small, because many steps matter more than long
ones.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from random import Random
from time import monotonic
from typing import Any

import torch
from torch import Tensor

from ...agents.tokens.conversation import Chat
from ...envs.base import TurnEnv
from ...envs.runner.observations import split
from ...records import Horizon
from ..config.sections import EnvironmentConfig, SftWarmupConfig
from ..learner import packed_attention as attention
from .random_episodes import rehearse

TELL_EVERY = 15.0
"""Seconds between two words on how far the warm-up is."""


@dataclass(slots=True)
class Transcript:
    """Token ids, and for each action token the distribution it was drawn from; elsewhere None."""

    ids: list[int]
    targets: list[dict[int, float] | None]


def next_token(actions: Sequence[tuple[Sequence[int], float]], prefix: Sequence[int]) -> dict[int, float]:
    """The distribution over the token after ``prefix``, when whole actions are drawn by weight."""
    mass: dict[int, float] = {}
    depth = len(prefix)
    for ids, weight in actions:
        if len(ids) > depth and list(ids[:depth]) == list(prefix):
            mass[ids[depth]] = mass.get(ids[depth], 0.0) + weight
    total = sum(mass.values())
    return {token: weight / total for token, weight in mass.items()}


def transcript(
    env: TurnEnv,
    chat: Chat,
    ids_of: Callable[[str], list[int]],
    seed: int,
    turns: int,
    rng: Random,
    beat: Callable[[], None],
) -> Transcript:
    """One episode of the random policy; ``beat`` is called before each call of the environment."""
    beat()
    observation, _ = env.reset(seed=seed, options={"split": "train"})
    conversation = chat.begin(env.instructions())
    out = Transcript([], [])
    for _ in range(turns):
        message = conversation.observe(split(observation)[0])
        out.ids += message.tokens
        out.targets += [None] * len(message.tokens)
        listed = env.valid_actions()
        actions = [(ids_of(text), weight) for text, weight in listed]
        chosen = rng.choices(range(len(listed)), [weight for _, weight in listed])[0]
        ids = actions[chosen][0]
        for depth, token in enumerate(ids):
            out.targets.append(next_token(actions, ids[:depth]))
            out.ids.append(token)
        conversation.act(ids, [0.0] * len(ids), [0] * len(ids))
        beat()
        observation, _, terminated, truncated, _ = env.step(listed[chosen][0])
        if terminated or truncated:
            break
    return out


def transcripts(
    environments: Sequence[EnvironmentConfig],
    chat: Chat,
    horizon: Horizon,
    rng: Random,
    deadline: float = 30.0,
    tell: Callable[[str], None] = lambda text: None,
) -> Generator[Transcript]:
    """Endless random episodes of the mixture, training split only. See ``rehearse``."""
    ids_of = cache(chat.answer)

    def play(env: TurnEnv, seed: int, rng: Random, beat: Callable[[], None]) -> Transcript:
        return transcript(env, chat, ids_of, seed, horizon.max_turns, rng, beat)

    return rehearse(environments, play, rng, deadline, tell)


def drawn_again(source: Generator[Transcript], count: int, rng: Random) -> Iterator[Transcript]:
    """The first ``count``, then for ever one of those."""
    kept = []
    for one in islice(source, count):
        kept.append(one)
        yield one
    source.close()
    while True:
        yield rng.choice(kept)


def loss(model: Any, batch: Sequence[Transcript], observation_weight: float) -> Tensor:
    """Cross-entropy against the soft targets, plus the weighted next-token loss on observations; each a mean over its
    tokens.
    """
    lengths = [len(one.ids) for one in batch]
    device = next(model.parameters()).device
    ids = torch.tensor([token for one in batch for token in one.ids], device=device)
    positions = torch.cat([torch.arange(length, device=device) for length in lengths])
    with attention.packed(lengths):
        logp = (
            model(input_ids=ids[None], position_ids=positions[None], use_cache=False).logits[0].float().log_softmax(-1)
        )
    targets = [target for one in batch for target in one.targets]
    first = positions == 0
    action_rows = [(row - 1, target) for row, target in enumerate(targets) if target is not None]
    at = torch.tensor([row for row, target in action_rows for _ in target])
    tokens = torch.tensor([token for _, target in action_rows for token in target])
    mass = torch.tensor([share for _, target in action_rows for share in target.values()], device=device)
    action: Tensor = -(mass * logp[at, tokens]).sum() / max(len(action_rows), 1)
    observed = torch.tensor([row for row, target in enumerate(targets) if target is None and not first[row]])
    if not observation_weight or not len(observed):
        return action
    seen: Tensor = logp[observed - 1, ids[observed]].mean()
    return action - observation_weight * seen


def warm_up(
    model: Any,
    chat: Chat,
    environments: Sequence[EnvironmentConfig],
    horizon: Horizon,
    config: SftWarmupConfig,
    seed: int,
    deadline: float = 30.0,
    tell: Callable[[str], None] = lambda text: None,
    stopped: Callable[[], bool] = lambda: False,
) -> float:
    """Train ``model`` in place; returns the last loss. The learning rate falls linearly to 0.

    ``deadline`` is for one call of an environment, in seconds; ``tell`` hears how far it is, and of those that are
    left out. Once ``stopped`` returns true, no further step begins.

    Raises:
        NothingToRehearse: no environment can be played.
    """
    rng = Random(seed)  # noqa: S311 - reproducible, not secret
    played = transcripts(environments, chat, horizon, rng, deadline, tell)
    source: Iterator[Transcript] = played
    if config.episodes:
        source = drawn_again(played, config.episodes, Random(seed))  # noqa: S311
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
    last, told = float("nan"), monotonic()
    for step in range(config.steps):
        if stopped():
            break
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * (1 - step / config.steps)
        value = loss(model, list(islice(source, config.batch_size)), config.observation_weight)
        optimizer.zero_grad(set_to_none=True)
        value.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        last = float(value.detach())
        if (now := monotonic()) - told > TELL_EVERY:
            told = now
            tell(f"format warm-up: {step + 1} of {config.steps} steps")
    return last
