"""Which content of old trajectories a store keeps."""

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ...errors import reason
from ..errors import StoreError

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:iB|B)?", re.IGNORECASE)


def parse_size(given: object) -> object:
    """Return the bytes of a size such as ``1GiB``, ``500 MB`` or ``2g``; every unit is a power of 1024.

    Raises:
        ValueError: ``given`` is text, and not a size.
    """
    if not isinstance(given, str):
        return given
    found = _SIZE.fullmatch(given.strip())
    if found is None:
        raise ValueError(f"`{given}` is not a size; write a number and a unit, such as `500MiB` or `1GiB`")
    size = float(found[1]) * _UNITS[found[2].upper()]
    if size >= 2**63:
        raise ValueError(f"`{given:.40}` is more than any disk holds; write a size such as `500MiB` or `1GiB`")
    return int(size)


Size = Annotated[int, BeforeValidator(parse_size), Field(ge=2**20)]
"""Bytes, at least 1 MiB; also text such as ``1GiB``."""


class RetentionPolicy(BaseModel):
    """The content that a store keeps of the trajectories of training runs.

    Content is observations, images, tokens and the detail that re-training needs. A pruned trajectory keeps its head,
    its actions and its rewards. Whatever the policy, these stay whole: groups in the queue, running trajectories,
    groups that an update since the newest checkpoint consumed, experts, and every run that does not train. A replay
    buffer selects from groups that are whole.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    keep_versions: int | None = Field(None, ge=1)
    """Keep the content of trajectories that the newest ``keep_versions`` versions sampled, and of those that their
    updates trained on. None: no trajectory is pruned by its age."""
    keep_successes: bool = True
    """Keep the content of successful trajectories, until ``max_size`` leaves no room for it."""
    screenshot_interval: int = Field(0, ge=0)
    """Of a pruned trajectory, keep the screenshots of turns 0, k, 2k, and so on; 0 keeps none."""
    max_size: Size | None = None
    """Bytes that the database and its files may take. Above it the oldest trajectories are pruned: first the failed
    ones, then the successful ones; then the turns of pruned ones are deleted, which leaves their heads."""
    grace_s: float = Field(3600.0, ge=0, le=10**9, allow_inf_nan=False)
    """Seconds for which new content stays although no row refers to it: a writer may be about to refer to it."""

    @property
    def prunes(self) -> bool:
        """Whether the policy removes content of trajectories."""
        return self.keep_versions is not None or self.max_size is not None


class BadPolicy(StoreError):
    """A retention policy has an invalid value."""


def read_policy(**values: object) -> RetentionPolicy:
    """Return the policy with these values, which are options of ``turnwise db gc``. Raises BadPolicy."""
    try:
        return RetentionPolicy.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][0]).replace("_", "-")
        raise BadPolicy(f"`--{option}` {first['input']}: {reason(first)}") from None
