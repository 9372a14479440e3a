"""Whether a command can start: all of its checks, in the order of their cost."""

from ...errors import TurnwiseError
from . import environments, machine, store  # noqa: F401 - each registers its checks
from . import model as _model  # noqa: F401
from .refusal import CHECKS, Cost, Refusal, Refused, Stage, Subject


def check(subject: Subject, stage: Stage = Stage.BEFORE, *, refused: bool = False) -> list[Refusal]:
    """Return every reason why a command cannot start, those first that were cheap to find; none if it can.

    Nothing that takes seconds follows a cheap reason, such as one for which the command is ``refused`` already.

    Blocks: environments are made and closed again, and the files of a model are read.
    """
    found: dict[str, Refusal] = {}
    is_cheap = refused
    for one in sorted(CHECKS, key=lambda check: check.cost):
        if one.stage is not stage or subject.command not in one.commands:
            continue
        if is_cheap and one.cost >= Cost.ENVIRONMENTS:
            break
        try:
            for refusal in one.find(subject) or ():
                found.setdefault(str(refusal), refusal)
        except Refused as error:
            found |= {str(refusal): refusal for refusal in error.refusals}
        except TurnwiseError as error:
            found.setdefault(str(error), Refusal(one.key, str(error)))
        is_cheap |= bool(found) and one.cost < Cost.ENVIRONMENTS
    return list(found.values())
