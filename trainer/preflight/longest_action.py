"""The longest action that an environment is known to accept, in tokens, against the limit on a turn."""

import time
from contextlib import suppress
from random import Random

from ...agents.tokens.renderer import Renderer
from ...envs.base import TurnEnv, checked_actions
from ...envs.runner.env_thread import EnvThread
from ..config.schema import RunConfig
from .refusal import Refusal

MAX_PLAY_S = 2.0
"""Seconds after which an episode that is played to see its actions ends."""


async def too_short_turn(config: RunConfig, env_id: str, thread: EnvThread, renderer: Renderer) -> Refusal | None:
    """Return the refusal of a limit on a turn that cuts a known action; None if it cuts none.

    The actions are those of ``valid_actions`` and of the oracle. An environment without a sandbox plays one episode
    with them; of any other one only the first state is read.

    Args:
        thread: an environment that was reset.

    Raises:
        EnvError: the environment failed.
    """
    turns = config.horizon.longest_turns()
    actions = await thread.run(
        "longest valid action", lambda env: known_actions(env, turns), config.rollout.step_timeout_s
    )
    thoughts, limit = config.rollout.max_thought_tokens, config.horizon.max_tokens_per_turn
    sizes = {action: len(renderer.encode_completion(action)) for action in actions}
    longest = max(sizes, key=lambda action: sizes[action], default="")
    if not longest or sizes[longest] - 1 <= limit - thoughts:  # without the token that ends the turn
        return None
    spent = f", {thoughts} of them for the thought (`rollout.max_thought_tokens`)" if thoughts else ""
    return Refusal(
        "horizon.max_tokens_per_turn",
        f"{env_id}: the longest valid action has {sizes[longest] - 1} tokens ({longest[:80]!r}), and "
        f"`horizon.max_tokens_per_turn` is {limit}{spent}: the environment would read a part of it",
        f"set `horizon.max_tokens_per_turn` to at least {sizes[longest] + thoughts}",
    )


def known_actions(env: TurnEnv, turns: int) -> set[str]:
    """Return the valid actions and those of the oracle in the first ``turns`` states of the running episode; in the
    first one only of an environment with a sandbox, whose turns are slow."""
    rng, found, end = Random(0), set[str](), time.monotonic() + MAX_PLAY_S  # noqa: S311 - reproducible, not secret
    for turn in range(turns):
        valid = list[str]()
        with suppress(NotImplementedError):
            valid = [action for action, _ in checked_actions(env)]
        chosen = rng.choice(valid) if valid else ""
        with suppress(NotImplementedError):
            chosen = env.oracle()
        found.update([*valid, chosen] if chosen else valid)
        if not chosen or env.sandboxed or turn + 1 == turns or time.monotonic() > end:
            break
        _, _, terminated, truncated, _ = env.step(chosen)
        if terminated or truncated:
            break
    return found
