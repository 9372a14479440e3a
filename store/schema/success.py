"""Success as a condition on the rows of ``trajectory``: ``records.is_success`` and ``rates``, in SQL."""

from sqlalchemy import Boolean, ColumnElement, and_, case, null, true, type_coerce

from ...records import COUNTED_STATUSES, SCORED_STATUSES, SUCCESS_RETURN, Status
from .episodes import trajectory


def succeeded(min_return: float = SUCCESS_RETURN) -> ColumnElement[bool]:
    """Return ``is_success`` of a trajectory and the reward of its environment."""
    return and_(
        trajectory.c.status.in_(sorted(status.value for status in SCORED_STATUSES)),
        case(
            (trajectory.c.success.is_not(None), trajectory.c.success == true()),
            else_=and_(trajectory.c.status == Status.COMPLETED.value, trajectory.c.reward >= min_return),
        ),
    )


SUCCEEDED = succeeded()
"""``succeeded`` with the usual return."""
RESULT = type_coerce(
    case((trajectory.c.status.in_(sorted(status.value for status in COUNTED_STATUSES)), SUCCEEDED), else_=null()),
    Boolean,
)
"""Whether a trajectory succeeded or failed; NULL if no rate counts it."""
