"""The types of the preflight: a refusal, the subject that it refuses, and the register of the checks."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum, auto
from pathlib import Path
from typing import NamedTuple

from ...errors import TurnwiseError
from ...store.database import Database
from ..config.schema import RunConfig


class Command(StrEnum):
    """What is to start."""

    TRAIN = "train"
    """A new run."""
    RESUME = "resume"
    FORK = "fork"
    """A new run that begins with the weights of another one."""
    EVAL = "eval"
    BRANCH = "branch"
    PLAN = "plan"
    DOCTOR = "doctor"


RUNS = (Command.TRAIN, Command.RESUME, Command.FORK)
"""The commands that start a training run."""


class Stage(Enum):
    """The moment of a check."""

    BEFORE = auto()
    """Before anything starts."""
    WEIGHTS = auto()
    """Ray is up, if the run uses it, and the weights that a run begins with are known."""
    ACTORS = auto()
    """The run's actors start, and its environments lease sandboxes from them."""


class Cost(IntEnum):
    """The most expensive thing that a check does; ``check`` goes from the first to the last."""

    CONFIGURATION = auto()
    MACHINE = auto()
    """Query the packages, the GPUs, the memory, Docker or Ray."""
    STORE = auto()
    ENVIRONMENTS = auto()
    """Make environments, for seconds."""
    MODEL = auto()
    """Import transformers, and read the files of a model without its weights."""
    WEIGHTS = auto()
    """Read all weights."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason why something cannot start."""

    key: str
    """The configuration key or the option to change."""
    reason: str
    remedy: str = ""
    """The change to make, a clause or a sentence; empty if ``reason`` is the message of an error that names it."""

    def __str__(self) -> str:
        if not self.remedy:
            return self.reason
        return f"{self.reason}{'. ' if self.remedy[0].isupper() else ': '}{self.remedy}"


class Refused(TurnwiseError):
    """Something cannot start; the message has one line per refusal."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        self.refusals = tuple(refusals)
        texts = list(map(str, refusals))
        super().__init__(texts[0] if len(texts) == 1 else "\n- ".join([f"{len(texts)} reasons:", *texts]))


@dataclass(frozen=True, slots=True)
class Subject:
    """Something that is to start."""

    config: RunConfig
    command: Command
    database: Database | None = None
    """The store; None if it does not exist yet, or is not used."""
    model: Path | None = None
    """The folder of the model, where the configuration does not name it: a checkpoint, or that of an evaluation."""
    policy: str = ""
    """The policy of an evaluation without a model: ``random``, ``oracle`` or the URL of a server."""
    run: str = ""
    """The name of the run that resumes."""
    note: Callable[[str], None] = lambda text: None
    """Receives what does not prevent the start, such as what could not be checked."""


Find = Callable[[Subject], Iterable[Refusal] | None]


class Check(NamedTuple):
    """A registered check."""

    cost: Cost
    find: Find
    key: str
    stage: Stage
    commands: frozenset[Command]


CHECKS: list[Check] = []
"""The checks of all imported topics."""


def refuses(key: str, cost: Cost, *commands: Command, stage: Stage = Stage.BEFORE) -> Callable[[Find], Find]:
    """Register a function that yields the refusals of a subject, or raises a ``TurnwiseError``, which is one too.

    Args:
        key: the configuration key or option to change if the function raises.
        commands: the commands that call it.
    """

    def register(find: Find) -> Find:
        CHECKS.append(Check(cost, find, key, stage, frozenset(commands)))
        return find

    return register


def refuse(refusals: Sequence[Refusal]) -> None:
    """Raise ``Refused`` if there is a refusal."""
    if refusals:
        raise Refused(refusals)
