"""The check of wrappers: those that change actions, and the methods of the environment inside that they hide."""

from typing import Any

from ..base import ABOUT_ACTIONS, Adapted, TurnEnv, checked_actions, overrides
from ..errors import EnvError
from .subject import CheckFailed, Subject

COSTS = {
    "oracle": "no evaluation of the oracle",
    "valid_actions": "no random policy and no format warm-up",
    "vocabulary": "no new tiny model",
    "normalize": "hashes of whole observations",
    "snapshot": "no branched or suspended episode",
}
"""Methods that a wrapper may hide, each with the consequence."""


async def wrappers_declared(subject: Subject) -> str:
    """Check that no wrapper changes actions while the methods about actions are those of the environment inside it.

    Report the methods that a wrapper hides.
    """

    def work(env: TurnEnv) -> str:
        if not isinstance(env, Adapted) or env.core is env.inner:
            return "has no wrappers"
        inside = [name for name in sorted(ABOUT_ACTIONS) if _taken_from_inside(env, name)]
        core, received = env.core, list[str]()
        original = core.step

        def step(action: Any) -> Any:
            received.append(action)
            return original(action)

        core.step = step  # type: ignore[method-assign]
        try:
            env.reset(seed=0, options={"split": "train"})
            sent = checked_actions(env)[0][0] if "valid_actions" in inside else str(env.action_space.sample())
            env.step(sent)
        finally:
            core.step = original  # type: ignore[method-assign]
        if inside and received and received[0] != sent:
            raise CheckFailed(
                f"a wrapper changes actions (it passes {received[0]!r:.60} instead of {sent!r:.60}), and "
                f"{', '.join(f'`{name}`' for name in inside)} come from {type(core).__name__} inside it: define them "
                "in the wrapper, with the actions that the agent writes"
            )
        return "; ".join(["the methods about actions speak of the actions that the agent writes", *_hidden(env)])

    async with subject.made() as owner:
        try:
            return await owner.run("wrappers", work, subject.timeout_s)
        except EnvError as error:
            if isinstance(error.__cause__, CheckFailed):
                raise error.__cause__ from None
            raise


def _taken_from_inside(env: Adapted, name: str) -> bool:
    """Return whether a method is that of the environment inside the wrappers."""
    try:
        return env.provider(name) is env.core and overrides(env.core, name)
    except NotImplementedError:
        return False


def _hidden(env: Adapted) -> list[str]:
    """Return the methods of the environment that its wrappers hide, each with the consequence, as a clause of text."""
    found = [f"`{name}` ({cost})" for name, cost in COSTS.items() if _hides(env, name)]
    return [f"its wrappers hide {', '.join(found)}: define them in the outermost wrapper"] if found else []


def _hides(env: Adapted, name: str) -> bool:
    """Return whether the environment has a method, and a wrapper keeps it from being taken."""
    if not overrides(env.core, name):
        return False
    if name == "snapshot":
        return bool(getattr(env.core, "restorable", False)) and not env.restorable
    try:
        return env.provider(name) is None
    except NotImplementedError:
        return True
