"""The records that all parts of turnwise exchange: frozen, slotted dataclasses without behavior or dependencies.

This module defines the meaning of each field. ``envs`` and ``agents`` create the records, and ``store`` stores them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, TypeAlias, get_args
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

Column: TypeAlias = Sequence[Any] | NDArray[Any]
"""One value per token: a list where tokens are sampled, a numpy array where they come from the store."""

Split: TypeAlias = Literal["train", "test"]
Screenshots: TypeAlias = Literal["end", "all", "none"]
"""The observations without images of which a run keeps the environment's screenshot: that of the end, all, or none."""
SPLITS: tuple[Split, ...] = get_args(Split)
"""The splits of an environment's tasks. It draws disjoint instances for the two."""

NO_VERSION = -1
"""Policy version of a token that no policy of this run sampled."""


class Status(StrEnum):
    """The status of a trajectory. Only ``completed`` and ``truncated`` enter a baseline or a loss.

    A success rate counts these two, ``policy_error`` and ``timeout`` (``rates``): no other end is the policy's doing.
    """

    RUNNING = "running"
    COMPLETED = "completed"
    """The environment ended the episode."""
    TRUNCATED = "truncated"
    """A limit of the horizon (turns, tokens or context) was reached: neither a failure nor a termination."""
    ENV_ERROR = "env_error"
    """The environment raised, broke its contract, or its process died."""
    ENGINE_ERROR = "engine_error"
    """The engine or the server behind the policy failed, or returned no token ids."""
    POLICY_ERROR = "policy_error"
    """The policy returned no action, or none within the timeout of the turn or of the group."""
    TIMEOUT = "timeout"
    """A step exceeded its timeout or that of the group, in an environment that charges its policy with that
    (``TurnEnv.charges_steps``). In any other, such a step is an ``env_error``, as is a reset."""
    CANCELLED = "cancelled"
    """The run ended it: the run stopped or resumed, the group's timeout expired while neither the policy nor a step was
    waited for, or the rollout controller dropped the member."""


class EndedBy(StrEnum):
    """The part that ended a trajectory."""

    EPISODE = "episode"
    CONTROLLER = "controller"
    """The rollout controller, which no longer needed the member: not a failure."""
    DRIVER = "driver"
    """The driver of the run: the worker was lost, the group's timeout expired, or the run stopped or resumed."""


UNSCORED = "unscored"
"""Key in a trajectory's ``extras``: the reward functions that could not score it (``envs.dataset.rubric.Unscored``)."""
SCORED_STATUSES = frozenset({Status.COMPLETED, Status.TRUNCATED})
"""The statuses that have a reward. Every other final status is a failure, never a reward."""
COUNTED_STATUSES = frozenset({*SCORED_STATUSES, Status.POLICY_ERROR, Status.TIMEOUT})
"""The statuses of the episodes that a rate counts: their end depends on the policy. An outgrown context is
``truncated``."""
SUCCESS_RETURN = 0.5
"""The return from which a completed episode counts as a success if its environment gave no verdict."""


def is_success(verdict: bool | None, status: Status, total: float, min_return: float = SUCCESS_RETURN) -> bool:
    """Return whether an episode succeeded: the environment's verdict, or without one, whether a completed episode has
    a return of at least ``min_return``.

    An environment gives its verdict at the end. A truncated episode without a verdict has not succeeded, and a failed
    or running one has not, whatever the environment returned before.

    Args:
        verdict: ``Trajectory.success``.
        total: the return of the episode.
    """
    if status not in SCORED_STATUSES:
        return False
    return status is not Status.TRUNCATED and total >= min_return if verdict is None else verdict


class Limit(StrEnum):
    """A limit of the horizon, by its key in the configuration (``Horizon``)."""

    TURNS = "max_turns"
    TOKENS_PER_TURN = "max_tokens_per_turn"
    TOKENS_PER_EPISODE = "max_tokens_per_episode"
    CONTEXT = "max_context"


class GroupState(StrEnum):
    """The state of a group in the queue; ``store.operations.group_states`` defines the transitions."""

    OPEN = "open"
    SCORING = "scoring"
    """Every member has ended; reward shapers and group filters have not decided yet."""
    READY = "ready"
    FILTERED = "filtered"
    FAILED = "failed"
    LEASED = "leased"
    CONSUMED = "consumed"
    EXPIRED = "expired"


class Source(StrEnum):
    """The author of a message or a trajectory."""

    POLICY = "policy"
    EXPERT = "expert"
    PATCH = "patch"
    REPLAY = "replay"
    WORLD_MODEL = "world_model"
    PEER = "peer"
    ENV = "env"
    """An observation, with the template's tokens around it."""
    TEMPLATE = "template"
    """A whole context, rendered again by the chat template."""


class Role(StrEnum):
    """The role of a message in the chat template. An observation has the role ``user``."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Purpose(StrEnum):
    """The purpose of a group. Groups for evaluation are never trained on, except for demonstrations: episodes of an
    expert on tasks of the training split."""

    TRAIN = "train"
    EVAL = "eval"


@dataclass(frozen=True, slots=True)
class Task:
    """One problem: an environment and the arguments of this instance. ``id`` is the hash of the other fields
    (``envs.tasks``).
    """

    id: str
    env_id: str
    env_version: str
    seed: int
    split: str
    """One of ``SPLITS``."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """JSON values, passed to the environment's constructor."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """Four separate limits of an episode; the first one that is reached truncates it."""

    max_turns: int
    max_tokens_per_turn: int
    """Sampled tokens per turn."""
    max_tokens_per_episode: int
    """Sampled tokens per episode."""
    max_context: int
    """Tokens of the context: prompt and completion together."""


@dataclass(frozen=True, slots=True)
class Message:
    """One node of a trajectory's message tree: its role, and the tokens it *adds* to its parent's context.

    ``tokens``, ``mask``, ``logprobs`` and ``versions`` have one length. ``mask`` is 1 where the policy sampled the
    token; there, ``logprobs`` is the behavior log-probability and ``versions`` the policy version, both as the
    engine reported them. Elsewhere ``logprobs`` is NaN and ``versions`` is ``NO_VERSION``.
    """

    index: int
    parent: int | None
    role: Role
    source: Source
    tokens: Column
    """int32"""
    mask: Column
    """uint8"""
    logprobs: Column
    """float32"""
    versions: Column
    """int32"""
    images: Sequence[str] = ()
    """Blob hashes of the images this message shows."""
    agent: str = ""
    """The agent that reads or wrote the message, if the environment has several."""


@dataclass(frozen=True, slots=True)
class Step:
    """One turn: an observation, the action on it, and the reward."""

    index: int
    observation: str
    """The text of the observation; empty if it is an image alone."""
    observation_hash: str
    """Hash of the whole normalized observation (``envs.observations``)."""
    action: str
    reward: float
    reward_parts: Mapping[str, float]
    """The named addends of ``reward``; empty if the environment reports none."""
    terminated: bool
    truncated: bool
    action_valid: bool
    """True if the environment could parse and apply the action."""
    state_key: str
    """The environment's name of the state in which the action was taken; empty if it reports none."""
    message: int | None
    """Index of the last message of the turn, which holds the action's tokens; None for a policy without tokens. The
    messages since the one of the step before are of this turn too: the observation, and what else the policy sampled.
    If the environment replaced the action, the last message is the patch, and the action's message is the one before.
    """
    model_ms: float
    env_ms: float
    images: Sequence[str] = ()
    """Blob hashes of the images of the observation."""
    screenshot: str = ""
    """Blob hash of a screenshot that the run kept of an observation without images; no policy read it. Empty for none.
    """
    created_at: datetime | None = None
    """When the environment answered the action, by the clock of the host that played; None: when the row was built."""
    failed: bool = False
    """True if the environment failed on the action: the last step of an episode that ended as ``env_error`` or
    ``timeout``. It has the reward 0."""
    agent: str = ""
    """The agent that acted, if the environment has several."""
    cut_by: Limit | None = None
    """The limit on tokens that ended the answer before the policy did; None if the policy ended it."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode of one task by one member of a group; ``attempt`` counts retries of that member from 0."""

    id: str
    run: str
    group: str
    member: int
    attempt: int
    status: Status = Status.RUNNING
    source: Source = Source.POLICY
    policy: str = ""
    """``random``, ``oracle``, the name of a checkpoint, or empty for the policy of the run."""
    reward: float = 0.0
    success: bool | None = None
    """The environment's verdict, ``info["success"]``; None if it gives none."""
    error: str = ""
    """The reason of a failure."""
    final_observation_hash: str = ""
    deterministic: bool = True
    extras: Mapping[str, Any] = field(default_factory=dict)
    """JSON values from ``info["extras"]``, for example the image of the sandbox, or tampering that grading found. The
    episode loop adds ``env_package``: the package of the environment, with its version.
    """
    steps: Sequence[Step] = ()
    messages: Sequence[Message] = ()
    branched_from: str | None = None
    """The trajectory that this one is a branch of; None for a trajectory that began with a reset."""
    branched_at: int | None = None
    """The index of the first turn that is not its parent's. The turns before it are equal to those of the parent. If
    the parent is of the same group, their messages are equal too, and are trained on as the parent's."""
    stop_reason: str = ""
    """The reason for which the episode was truncated; empty if the environment ended it."""
    reached: Limit | None = None
    """The limit of the horizon that truncated the episode; None if the environment or the rollout controller ended it.
    """
    final_images: Sequence[str] = ()
    """Blob hashes of the images of the final observation."""
    final_screenshot: str = ""
    """Blob hash of a screenshot that the run kept of the end of the episode (``Step.screenshot``)."""
    uid: UUID | None = None
    """An id that no trajectory of another store has; None before the trajectory is stored."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one attempt of a group's member: a trajectory without its steps and messages."""

    trajectory: str
    member: int
    attempt: int
    status: Status
    reward: float
    success: bool | None
    turns: int
    tokens: int
    """Tokens that the policy sampled."""
    error: str = ""
    reached: Limit | None = None
    """``Trajectory.reached``."""
    cut_turns: int = 0
    """Turns that a limit on tokens cut (``Step.cut_by``)."""
    suspended: Any = None
    """The point from which another episode may continue this one (``agents.rollout.progress.BranchPoint``); None if
    the rollout controller did not suspend it. Not in the store."""
    parent: int | None = None
    """The member that it is a branch of; None for a member that began with a reset."""
    branched_at: int | None = None
    """The number of turns that it shares with its parent."""


@dataclass(frozen=True, slots=True)
class Group:
    """Trajectories that are compared with one another: they share task, horizon and prompt prefix."""

    id: str
    run: str
    task: Task
    horizon: Horizon
    size: int
    purpose: Purpose = Purpose.TRAIN
    prompt_prefix: str = ""
    state: GroupState = GroupState.OPEN
    trajectories: Sequence[Trajectory] = ()
    draw: int | None = None
    """Number of the draw of the task sampler that it stands for; None for other groups. A group that a resume gave up
    is played again by a group with the same number."""


@dataclass(frozen=True, slots=True)
class ScoredGroup:
    """A closed group with its shaped rewards. Filters, curricula and advantages read this record."""

    group: Group
    """The group with its scored members only: completed or truncated, and with a reward from every reward shaper. A
    replay buffer may have replaced a member with a trajectory of another group.
    """
    rewards: Sequence[Sequence[float]]
    """``rewards[i][t]`` is the shaped reward of turn ``t`` of ``group.trajectories[i]``."""
    unscored: int = 0
    """Members that ended as completed or truncated and that a reward shaper could not score; they are left out."""
    failed_by_policy: int = 0
    """Members that ended as ``policy_error`` or ``timeout``. They are left out too, and count in every success rate."""


def failed_by_policy(members: Sequence[Trajectory]) -> int:
    """Return how many of a group's members failed because of the policy (``ScoredGroup.failed_by_policy``)."""
    return sum(one.status in COUNTED_STATUSES - SCORED_STATUSES for one in members)


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A scored training group without its trajectories, for a replay buffer to select from."""

    id: str
    task: str
    """Id of the task."""
    state: GroupState
    score_number: int
    """Position of the group's scoring in the run; a higher number is newer."""
    update: int | None
    """Number of the update that consumed the group in the surviving history; None if no update did."""
    oldest_policy: int | None
    """Update number of the oldest policy version that sampled a token of a scored member; None without tokens."""
    returns: Sequence[float]
    """Shaped return of each scored member, in the order of the members."""


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """A set of weights. ``id`` counts up within a run and is never reused; ``update`` is its place in the surviving
    history.
    """

    run: str
    id: int
    parent: int | None
    update: int
    abandoned: bool = False
    checkpoint: str = ""


@dataclass(frozen=True, slots=True)
class SampleImage:
    """An image in a sample. Its features, of one row per token, take the place of the embeddings of its tokens."""

    blob: str
    """The hash of its content."""
    offset: int
    """Index of the first of its tokens."""
    length: int
    """Tokens."""
    content: bytes = field(repr=False)
    """PNG."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A root-to-leaf path of messages: what the learner trains on. All sequences have one length, that of the path.

    ``sources`` decides which tokens can be trained on, and a loss accepts some of these sources. ``mask``, ``logprobs``
    and ``versions`` only describe tokens that the policy sampled.
    """

    trajectory: str
    tokens: NDArray[np.int32]
    mask: NDArray[np.uint8]
    """1 where the policy sampled the token and this sample trains on it."""
    logprobs: NDArray[np.float32]
    """Behavior log-probability; NaN where the policy did not sample the token."""
    versions: NDArray[np.int32]
    """Policy version; ``NO_VERSION`` where the policy did not sample the token."""
    turns: NDArray[np.int32]
    """Index of the step that the token is an action of; -1 elsewhere."""
    positions: NDArray[np.int32]
    """Position of the token among all action tokens of its turn, which may be spread over several messages and samples;
    -1 elsewhere."""
    sources: NDArray[np.int8]
    """Index in ``tuple(Source)`` of the author of an action's token; -1 for context, which is never trained on."""
    images: Sequence[SampleImage] = ()
