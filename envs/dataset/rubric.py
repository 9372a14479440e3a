"""A rubric: named reward functions, each with its weight.

The parameters of a reward function are filled by name: ``action`` (the last answer of the agent), ``conversation``
(the messages of the episode), ``row``, ``self`` (the environment), and any other name from the columns of the row.
"""

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from inspect import Parameter
from typing import Any, TypeAlias

import numpy as np

from ...errors import shown, suggestion
from ...sandbox.errors import SandboxError
from ..errors import EnvironmentBroken, ScoringTimeout, wrap_error
from .coroutines import results_of
from .rows import Row

RewardFunction: TypeAlias = Callable[..., float | Awaitable[float]]
Message: TypeAlias = dict[str, Any]
"""``{"role": "user" | "assistant", "content": …}``: an observation, or an answer of the agent."""
_NUMBERS = (int, float, np.integer, np.floating, np.bool_)


class Unscored(float):
    """The value of a reward function for an episode that it could not score; the share of such episodes is a metric."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of an episode, as reward functions see it."""

    environment: Any
    action: str
    row: Row
    conversation: list[Message]
    where: str
    """The row, for errors: ``row 3 of `train```."""

    def given(self) -> dict[str, Any]:
        """Return the values that are not columns, by the name of the parameter."""
        return {
            "self": self.environment,
            "action": self.action,
            "row": self.row,
            "conversation": [dict(message) for message in self.conversation],
        }


class Rubric:
    """The reward functions of an environment by name, in their order."""

    def __init__(self, weights: Mapping[RewardFunction, float], owner: str) -> None:
        """Check the functions and their weights.

        Raises:
            EnvironmentBroken: there is no function, one is unnamed, or a weight is not a number other than 0.
        """
        self.weights: dict[str, float] = {}
        self._functions: dict[str, RewardFunction] = {}
        where = f"`{owner}.rubric`"
        if not isinstance(weights, Mapping) or not weights:
            raise EnvironmentBroken(f"{where} must map reward functions to weights, as in `{{correct: 1.0}}`")
        for function, weight in weights.items():
            name = _name(function, where)
            if name in self.weights:
                raise EnvironmentBroken(f"{where} has two functions `{name}`: rename one")
            if (
                isinstance(weight, bool)
                or not isinstance(weight, int | float)
                or not math.isfinite(weight)
                or not weight
            ):
                raise EnvironmentBroken(f"{where}: the weight of `{name}` is {weight!r}; it must be a number, not 0")
            self.weights[name], self._functions[name] = float(weight), function

    def check_columns(self, ending: Ending) -> None:
        """Check that a row has the columns that the functions take. Raises EnvironmentBroken: it lacks one."""
        for name, function in self._functions.items():
            _arguments(name, function, ending)

    def values(
        self, ending: Ending, scoring: Callable[..., AbstractContextManager[None]], timeout_s: float
    ) -> dict[str, float]:
        """Return the value of each function, without its weight. Asynchronous functions run at the same time.

        ``scoring`` is ``TurnEnv.scoring``: the functions have ``timeout_s``, each asynchronous one for itself.

        Raises:
            EnvironmentFailed: a function raised.
            EnvironmentBroken: a function did not return a finite number.
            SandboxError: a function raised it.
            ScoringTimeout: an asynchronous function did not return within ``timeout_s``.
        """
        found: dict[str, Any] = {}
        with scoring():
            for name, function in self._functions.items():
                try:
                    found[name] = function(**_arguments(name, function, ending))
                except (SandboxError, EnvironmentBroken):
                    raise
                except (Exception, SystemExit) as error:
                    raise _raised(name, ending, error) from error
        waiting = [name for name, value in found.items() if inspect.isawaitable(value)]
        if waiting:
            named = f"the reward function {' or '.join(f'`{name}`' for name in waiting)} ({ending.where})"
            with scoring(math.inf):  # they have their timeouts
                results = results_of([found[name] for name in waiting], timeout_s, named, ScoringTimeout)
            found |= dict(zip(waiting, results, strict=True))
        return {name: _number(name, value, ending) for name, value in found.items()}


def _name(function: Any, where: str) -> str:
    if not callable(function):
        raise EnvironmentBroken(f"{where}: {function!r:.60} is not a function")
    name = str(getattr(function, "__name__", type(function).__name__))
    if isinstance(function, partial) or name == "<lambda>":
        raise EnvironmentBroken(f"{where}: a lambda or a `partial` has no name for `reward_parts`: define a function")
    return name


def _arguments(name: str, function: RewardFunction, ending: Ending) -> dict[str, Any]:
    """Return the arguments of a function by name. Raises EnvironmentBroken: a name means nothing, or two values."""
    given, columns, arguments = ending.given(), ending.row, dict[str, Any]()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is Parameter.VAR_KEYWORD:
            arguments |= {column: value for column, value in columns.items() if column not in given}
        elif parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL):
            raise EnvironmentBroken(f"the reward function `{name}`: its parameters are filled by name, not by position")
        elif parameter.name in given and parameter.name in columns:
            instead = "" if parameter.name == "row" else ", or take `row`"
            raise EnvironmentBroken(
                f"the reward function `{name}` takes `{parameter.name}`, which is not a column, but {ending.where} has "
                f"a column of this name: rename the column{instead}"
            )
        elif parameter.name in given:
            arguments[parameter.name] = given[parameter.name]
        elif parameter.name in columns:
            arguments[parameter.name] = columns[parameter.name]
        elif parameter.default is Parameter.empty:
            raise EnvironmentBroken(
                f"the reward function `{name}` takes `{parameter.name}`, which is neither `action`, `row` nor "
                f"`conversation`, and {ending.where} has no such column{suggestion(parameter.name, list(columns))}"
            )
    return arguments


def _number(name: str, value: Any, ending: Ending) -> float:
    if isinstance(value, SandboxError):
        raise value
    if isinstance(value, BaseException):
        raise _raised(name, ending, value) from value
    number = math.nan
    with suppress(OverflowError):
        number = float(value) if isinstance(value, _NUMBERS) else number
    if not math.isfinite(number):
        raise EnvironmentBroken(
            f"the reward function `{name}` returned {shown(value)} for {ending.where}; it must return a finite number"
        )
    return value if isinstance(value, Unscored) else number


def _raised(name: str, ending: Ending, error: BaseException) -> Exception:
    return wrap_error(f"the reward function `{name}` ({ending.where})", error)
