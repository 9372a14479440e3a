"""Whether a command can start: all of its checks, in the order of their cost."""

from ...errors import TurnwiseError
from . import environments, machine, store  # noqa: F401 - each registers its checks
from . import model as _model  # noqa: F401
from .refusal import CHECKS, Refusal, Refused, Stage, Subject


def check(subject: Subject, stage: Stage = Stage.BEFORE) -> list[Refusal]:
    """Return every reason why a command cannot start, those first that were cheap to find; none if it can.

    Blocks: environments are made and closed again, and the files of a model are read.
    """
    found: dict[str, Refusal] = {}
    for one in sorted(CHECKS, key=lambda check: check.cost):
        if one.stage is not stage or subject.command not in one.commands:
            continue
        try:
            for refusal in one.find(subject) or ():
                found.setdefault(str(refusal), refusal)
        except Refused as error:
            found |= {str(refusal): refusal for refusal in error.refusals}
        except TurnwiseError as error:
            found.setdefault(str(error), Refusal(one.key, str(error)))
    return list(found.values())
