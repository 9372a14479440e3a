"""Whether a command can start: all of its checks, in the order of their cost."""

from collections.abc import Callable
from pathlib import Path

from ...errors import TurnwiseError
from ...store.database import Database
from ..config.schema import RunConfig
from . import environments, machine, store  # noqa: F401 - each registers its checks
from . import model as _model  # noqa: F401
from .refusal import CHECKS, Command, Refusal, Refused, Stage, Subject


def check(
    config: RunConfig,
    command: Command,
    *,
    stage: Stage = Stage.BEFORE,
    database: Database | None = None,
    model: Path | None = None,
    policy: str = "",
    note: Callable[[str], None] = lambda text: None,
) -> list[Refusal]:
    """Return every reason why ``command`` cannot start, those first that were cheap to find; none if it can.

    Blocks: environments are made and closed again, and the files of a model are read. ``Subject`` describes the other
    arguments.
    """
    subject = Subject(config, command, database, model, policy, note)
    found: dict[str, Refusal] = {}
    for one in sorted(CHECKS, key=lambda check: check.cost):
        if one.stage is not stage or command not in one.commands:
            continue
        try:
            for refusal in one.find(subject) or ():
                found.setdefault(str(refusal), refusal)
        except Refused as error:
            found |= {str(refusal): refusal for refusal in error.refusals}
        except TurnwiseError as error:
            found.setdefault(str(error), Refusal(one.key, str(error)))
    return list(found.values())
