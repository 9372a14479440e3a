"""The valid actions of an environment, checked: a common mistake is a list of actions without weights."""

from ..base import TurnEnv


def checked_actions(env: TurnEnv) -> list[tuple[str, float]]:
    """Return ``env.valid_actions()``.

    Raises:
        TypeError: an item is not a pair of an action and its weight.
    """
    actions = env.valid_actions()
    wrong = next((one for one in actions if isinstance(one, str) or len(one) != 2), None)
    if wrong is not None:
        raise TypeError(
            '`valid_actions()` must return (action, weight) pairs, for example `[("say red", 1.0)]`; '
            f"it returned {wrong!r:.80}"
        )
    return actions
