"""``turnwise envs play``: a person plays an environment, one line per turn.

Pure in its input and output: it reads an iterator of lines and writes through a callable. ``:actions`` lists the valid
actions, ``:hint`` shows the oracle's action, ``:help`` describes the actions, ``:quit`` ends; other lines are actions.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from ...base.process.children import copies_end
from ...errors import TurnwiseError
from ..base import Obs, TurnEnv, checked_actions, checked_oracle
from ..errors import EnvironmentBroken, wrap_error
from ..runner.observations import instructions, parts, png
from ..runner.step_result import from_reset, from_step
from ..runner.thoughts import without_thoughts
from ..spaces import Png

HELP = (
    ":actions lists valid actions, :hint shows the oracle's action, :help describes the actions, :quit ends; other "
    "lines are actions. The episode is not stored"
)


def _guttered(text: str) -> str:
    """Return the text with a gutter before each further line, so that none can pose as a line of ``play``."""
    return text.replace("\n", "\n| ")


def _shown(env: TurnEnv, observation: Obs, keep: Callable[[Png], str]) -> str:
    """Return the observation as text."""
    text, image = parts(observation)
    text = _guttered(text)
    if image is None:
        with _wrapping("screenshot"):
            image = env.screenshot()
    picture = None if image is None else png(image)
    where = "" if picture is None else f"[screenshot, {picture.width} x {picture.height}: {keep(picture)}]"
    return "\n".join(part for part in (text, where) if part)


@contextmanager
def _wrapping(call: str) -> Iterator[None]:
    """Wrap the exceptions of an environment as ``EnvThread`` does; errors of turnwise pass unchanged."""
    try:
        with copies_end():
            yield
    except TurnwiseError:
        raise
    except (Exception, SystemExit) as error:
        raise wrap_error(call, error) from error


def _aside(env: TurnEnv, command: str) -> str:
    try:
        if command == ":hint":
            return _guttered(checked_oracle(env))
        if command == ":actions":
            return _actions(env)
    except (NotImplementedError, EnvironmentBroken, LookupError, TypeError, ValueError) as error:
        deliberate = isinstance(error, NotImplementedError | EnvironmentBroken) or type(error) is LookupError
        return _guttered(str(error if deliberate else wrap_error(command, error)))
    unknown = "" if command == ":help" else f"unknown command `{command}`"
    described = _guttered(instructions(env))
    if not described:
        with suppress(NotImplementedError):
            described = f"valid actions now:\n{_actions(env)}"
    return "\n".join(part for part in (unknown, HELP, described) if part)


def _actions(env: TurnEnv) -> str:
    """Return the valid actions, one per line."""
    return "\n".join(f"  {_guttered(action)}" for action, _ in checked_actions(env))


def _parts(parts: Mapping[str, float]) -> str:
    """Return the parts of a reward after a colon; empty without one."""
    shown = ", ".join(f"{_guttered(name)} {value:+.2f}" for name, value in parts.items())
    return f": {shown}" if shown else ""


def play(
    env: TurnEnv,
    lines: Iterator[str],
    write: Callable[[str], None],
    keep: Callable[[Png], str],
    *,
    seed: int = 0,
    split: str = "train",
    max_turns: int = 100,
    echo: bool = False,
) -> None:
    """Play one episode with the actions of ``lines`` until either ends.

    Args:
        echo: whether to write each line that is read, for a transcript of lines that no terminal shows.
        keep: stores a picture for the player and returns its path.

    Raises:
        EnvironmentFailed: the environment raised.
        EnvironmentBroken: an observation has a type that is not allowed.
    """
    with _wrapping("reset"):
        answer = env.reset(seed=seed, options={"split": split})
        from_reset(env, answer)
        prompt = instructions(env)
    write(HELP)
    if prompt:
        write(_guttered(prompt))
    write(_shown(env, answer[0], keep))
    turns, total, verdict = 0, 0.0, "left"
    for line in lines:
        command = line.strip()
        if echo:
            write(f"> {command}")
        if command == ":quit":
            break
        if command.startswith(":"):
            with _wrapping(command):
                aside = _aside(env, command)
            write(aside)
            continue
        with _wrapping("step"):
            outcome = env.step(without_thoughts(command))
            checked = from_step(env, outcome)
        turns, total = turns + 1, total + checked.reward
        write(f"{_shown(env, outcome[0], keep)}   ({checked.reward:+.2f}{_parts(checked.reward_parts)})")
        if checked.terminated or checked.truncated or turns >= max_turns:
            verdict = {True: "success", False: "failure", None: "ended"}[checked.success]
            break
    write(f"{verdict} after {turns} turns, reward {total:.2f}")
