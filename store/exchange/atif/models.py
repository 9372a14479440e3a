"""Strict models of the Agent Trajectory Interchange Format (ATIF), version 1.8, which its RFC 0001 of Harbor defines.

Unknown fields are refused at every level. The rules between fields are those of the published models.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator

from ..images import ImageType

VERSION: Literal["ATIF-v1.8"] = "ATIF-v1.8"
Version = Literal[
    "ATIF-v1.0", "ATIF-v1.1", "ATIF-v1.2", "ATIF-v1.3", "ATIF-v1.4", "ATIF-v1.5", "ATIF-v1.6", "ATIF-v1.7", "ATIF-v1.8"
]
AudioType = Literal[
    "audio/wav", "audio/mpeg", "audio/mp4", "audio/aac", "audio/ogg", "audio/flac", "audio/webm", "audio/aiff"
]
Extra = dict[str, JsonValue] | None
Count = Annotated[int, Field(ge=0)]


def _iso(text: str) -> str:
    datetime.fromisoformat(text)
    return text


Timestamp = Annotated[str, AfterValidator(_iso)]
"""A time as ISO 8601 writes it."""


class AtifModel(BaseModel):
    """Base of the models: no other fields, and no conversion between types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ImageSource(AtifModel):
    """An image in a file."""

    media_type: ImageType
    path: str


class AudioSource(AtifModel):
    """A recording in a file."""

    media_type: AudioType
    path: str
    duration_sec: Annotated[float, Field(ge=0)] | None = None


class ContentPart(AtifModel):
    """One part of a content with more than text."""

    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: ImageSource | AudioSource | None = None

    @model_validator(mode="after")
    def _fits_its_type(self) -> "ContentPart":
        sources: dict[str, type] = {"text": type(None), "image": ImageSource, "audio": AudioSource}
        needed = sources[self.type]
        if (self.text is not None) != (self.type == "text") or not isinstance(self.source, needed):
            raise ValueError(f"a part of type `{self.type}` has a `text` if it is text, else a `source` of its type")
        return self


class SubagentTrajectoryRef(AtifModel):
    """A reference to the trajectory of a delegated task."""

    trajectory_id: str | None = None
    session_id: str | None = None
    trajectory_path: str | None = None
    extra: Extra = None

    @model_validator(mode="after")
    def _can_be_resolved(self) -> "SubagentTrajectoryRef":
        if self.trajectory_id is None and self.trajectory_path is None:
            raise ValueError("a subagent reference needs `trajectory_id` or `trajectory_path`")
        return self


class ToolCall(AtifModel):
    """One call of a tool."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, JsonValue]
    extra: Extra = None


class ObservationResult(AtifModel):
    """One result of an action."""

    source_call_id: str | None = None
    content: str | list[ContentPart] | None = None
    subagent_trajectory_ref: list[SubagentTrajectoryRef] | None = None
    extra: Extra = None


class Observation(AtifModel):
    """The response of the environment to an action."""

    results: list[ObservationResult]


class Metrics(AtifModel):
    """Tokens and cost of one step."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: Extra = None


class AtifStep(AtifModel):
    """One message of the system or the user, or one turn of the agent with the response to it."""

    step_id: Annotated[int, Field(ge=1)]
    timestamp: Timestamp | None = None
    source: Literal["system", "user", "agent"]
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    message: str | list[ContentPart]
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: Count | None = None
    extra: Extra = None

    @model_validator(mode="after")
    def _has_the_fields_of_its_source(self) -> "AtifStep":
        foreign: tuple[str, ...] = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
        if self.source == "agent":
            foreign = ("metrics", "reasoning_content") if self.llm_call_count == 0 else ()
        if found := [name for name in foreign if getattr(self, name) is not None]:
            calls = " without a model call" if self.source == "agent" else ""
            raise ValueError(f"step {self.step_id} of source `{self.source}`{calls} cannot have `{found[0]}`")
        return self

    @model_validator(mode="after")
    def _results_refer_to_its_calls(self) -> "AtifStep":
        calls = {call.tool_call_id for call in self.tool_calls or ()}
        for result in self.observation.results if self.observation else ():
            if result.source_call_id is not None and result.source_call_id not in calls:
                raise ValueError(f"step {self.step_id}: `source_call_id` {result.source_call_id!r} is not a call of it")
        return self


class FinalMetrics(AtifModel):
    """Totals of a trajectory."""

    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: Count | None = None
    extra: Extra = None


class AtifAgent(AtifModel):
    """The program that played."""

    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    extra: Extra = None


class Document(AtifModel):
    """One trajectory."""

    schema_version: Version = VERSION
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: AtifAgent
    steps: Annotated[list[AtifStep], Field(min_length=1)]
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: Extra = None
    subagent_trajectories: list["Document"] | None = None

    @model_validator(mode="after")
    def _steps_are_numbered_from_1(self) -> "Document":
        for number, step in enumerate(self.steps, 1):
            if step.step_id != number:
                raise ValueError(f"`step_id` of step {number} is {step.step_id}; the steps count up from 1")
        return self

    @model_validator(mode="after")
    def _subagents_have_distinct_ids(self) -> "Document":
        ids = [one.trajectory_id for one in self.subagent_trajectories or ()]
        if None in ids or len(set(ids)) < len(ids):
            raise ValueError("every entry of `subagent_trajectories` needs a `trajectory_id` that no other one has")
        return self
