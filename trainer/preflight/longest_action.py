"""The longest action that an environment is known to accept, in tokens, against the limit on a turn."""

import time
from collections.abc import Collection
from contextlib import suppress
from random import Random
from typing import NamedTuple

from ...agents.tokens.renderer import Renderer
from ...envs.base import TurnEnv, checked_actions, checked_oracle
from ...envs.runner.env_thread import EnvThread
from ...envs.runner.thoughts import without_thoughts
from .refusal import Refusal, Subject

MAX_PLAY_S = 2.0
"""Seconds after which an episode that is played to see its actions ends."""


class KnownActions(NamedTuple):
    """The actions that an environment names."""

    valid: set[str]
    """Those of ``valid_actions``."""
    of_oracle: set[str]


async def too_short_turn(subject: Subject, env_id: str, thread: EnvThread, renderer: Renderer) -> Refusal | None:
    """Return the refusal of a limit on a turn that cuts a valid action; None if it cuts none.

    ``subject.note`` receives an action of the oracle that the limit cuts: shorter ones may do the same. An environment
    without a sandbox plays one episode with these actions; of any other one only the first state is read.

    Args:
        thread: an environment that was reset.

    Raises:
        EnvError: the environment failed.
    """
    config = subject.config
    turns, limit = config.horizon.longest_turns(), config.horizon.max_tokens_per_turn
    thoughts = config.rollout.max_thought_tokens
    known = await thread.run(
        "longest valid action", lambda env: known_actions(env, turns), config.rollout.step_timeout_s
    )
    spent = f", {thoughts} of them for the thought (`rollout.max_thought_tokens`)" if thoughts else ""
    shown = f"and `horizon.max_tokens_per_turn` is {limit}{spent}"
    size, action = _longest(known.of_oracle - known.valid, renderer)
    if size > limit - thoughts:
        subject.note(
            f"{env_id}: the longest action of the oracle has {size} tokens ({action[:80]!r}), {shown}, so "
            "the policy can write shorter ones only"
        )
    size, action = _longest(known.valid, renderer)
    if size <= limit - thoughts:
        return None
    return Refusal(
        "horizon.max_tokens_per_turn",
        f"{env_id}: the longest valid action has {size} tokens ({action[:80]!r}), {shown}: the environment would read "
        "a part of it",
        f"set `horizon.max_tokens_per_turn` to at least {size + 1 + thoughts}",
    )


def _longest(actions: Collection[str], renderer: Renderer) -> tuple[int, str]:
    """Return the longest action with its tokens, without the one that ends the turn; 0 tokens if there is none."""
    sizes = ((len(renderer.encode_completion(action)) - 1, action) for action in sorted(actions))
    return max(sizes, default=(0, ""), key=lambda one: one[0])


def known_actions(env: TurnEnv, turns: int) -> KnownActions:
    """Return the valid actions and those of the oracle in the first ``turns`` states of the running episode; in the
    first one only of an environment with a sandbox, whose turns are slow."""
    rng, found = Random(0), KnownActions(set(), set())  # noqa: S311 - reproducible, not secret
    end = time.monotonic() + MAX_PLAY_S
    for turn in range(turns):
        valid = list[str]()
        with suppress(NotImplementedError):
            valid = [action for action, _ in checked_actions(env)]
        found.valid.update(valid)
        chosen = rng.choice(valid) if valid else ""
        with suppress(NotImplementedError):
            chosen = checked_oracle(env)
            found.of_oracle.add(chosen)
        if not chosen or env.sandboxed or turn + 1 == turns or time.monotonic() > end:
            break
        _, _, terminated, truncated, _ = env.step(without_thoughts(chosen))
        if terminated or truncated:
            break
    return found
