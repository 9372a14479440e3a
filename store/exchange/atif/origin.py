"""The values in the ``extra`` fields of an ATIF document, so that an import restores the episode."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, JsonValue, ValidationError

from ....errors import reason
from ....records import Group, Horizon, Limit, Purpose, Source, Status, Step, Task, Trajectory
from ...errors import ExchangeError

KEY = "turnwise"
"""Key of ``extra`` that holds these values, in the document and in each turn of the agent."""
M = TypeVar("M", bound="OriginModel")
HashText = Annotated[str, Field(pattern=r"^([0-9a-f]{2})*$", max_length=64)]


class OriginModel(BaseModel):
    """Base of the models: no other fields."""

    model_config = ConfigDict(extra="forbid")


class TaskOrigin(OriginModel):
    """The task of an episode."""

    env_id: str
    env_version: str
    seed: int
    split: str
    options: dict[str, JsonValue]


class TurnOrigin(OriginModel):
    """The fields of a step that ATIF has no place for."""

    reward: FiniteFloat
    reward_parts: dict[str, FiniteFloat] = {}
    terminated: bool = False
    truncated: bool = False
    failed: bool = False
    action_valid: bool = True
    state_key: str = ""
    agent: str = ""
    cut_by: Limit | None = None
    observation_hash: HashText = ""
    model_ms: FiniteFloat = 0.0
    env_ms: FiniteFloat = 0.0
    created_at: datetime | None = None
    screenshot: str = ""
    """Path of the file in the folder of the document; likewise ``final_screenshot`` of the episode."""

    @classmethod
    def of(cls, step: Step) -> "TurnOrigin":
        """Return the values of a step."""
        return cls(**{name: getattr(step, name) for name in cls.model_fields})


class EpisodeOrigin(OriginModel):
    """The fields of a trajectory and of its group that ATIF has no place for."""

    uid: UUID
    task: TaskOrigin
    purpose: Purpose
    prompt_prefix: str
    max_turns: int
    max_tokens_per_turn: int
    max_tokens_per_episode: int
    max_context: int
    run: str
    id: str
    group: str
    member: int
    attempt: int
    status: Status
    source: Source
    policy: str
    reward: FiniteFloat
    success: bool | None
    error: str
    stop_reason: str
    reached: Limit | None = None
    deterministic: bool
    final_observation_hash: HashText
    final_screenshot: str = ""
    extras: dict[str, JsonValue]

    @classmethod
    def of(cls, group: Group, trajectory: Trajectory) -> "EpisodeOrigin":
        """Return the values of a trajectory and its group."""
        task = {name: getattr(group.task, name) for name in TaskOrigin.model_fields}
        horizon = {name: getattr(group.horizon, name) for name in Horizon.__slots__}
        own = {name: getattr(trajectory, name) for name in cls.model_fields if name in Trajectory.__slots__}
        named = {"purpose": group.purpose, "prompt_prefix": group.prompt_prefix}
        return cls(task=TaskOrigin(**_plain(task)), **horizon, **named, **_plain(own))

    def head(self) -> tuple[Group, Trajectory]:
        """Return the group and the trajectory without its steps; the id of the task is empty."""
        task = Task(id="", **{name: getattr(self.task, name) for name in TaskOrigin.model_fields})
        horizon = Horizon(**{name: getattr(self, name) for name in Horizon.__slots__})
        group = Group(self.group, self.run, task, horizon, 1, self.purpose, self.prompt_prefix)
        own = {name: getattr(self, name) for name in type(self).model_fields if name in Trajectory.__slots__}
        return group, Trajectory(**own)


def extra_of(origin: OriginModel) -> dict[str, JsonValue]:
    """Return the value of an ``extra`` field that holds ``origin``."""
    return {KEY: origin.model_dump(mode="json")}


def turn_origin(extra: Mapping[str, Any] | None) -> TurnOrigin | None:
    """Return the values in ``extra`` of a turn; None if another program wrote it. Raises ExchangeError."""
    return _parsed(TurnOrigin, extra)


def episode_origin(extra: Mapping[str, Any] | None) -> EpisodeOrigin | None:
    """Return the values in ``extra`` of a document; None if another program wrote it. Raises ExchangeError."""
    return _parsed(EpisodeOrigin, extra)


def _parsed(kind: type[M], extra: Mapping[str, Any] | None) -> M | None:
    if not extra or KEY not in extra:
        return None
    try:
        return kind.model_validate(extra[KEY])
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, ("extra", KEY, *first["loc"])))
        raise ExchangeError(f"`{place}`: {reason(first)}") from error


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}
