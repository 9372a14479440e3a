"""The nouns of turnwise: frozen, slotted carriers with no behavior and no dependency.

Every other part speaks in these. What a field means is said here once; how it is stored is ``store``'s affair and how
it is made is ``envs``' and ``agents``'.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Column: TypeAlias = Sequence[Any] | NDArray[Any]
"""One value per token: a list where tokens are sampled, a numpy array where they come from the store."""

NO_VERSION = -1
"""Policy version of a token that no policy of this run sampled."""


class Status(StrEnum):
    """How a trajectory stands. Only ``completed`` and ``truncated`` enter a baseline or a loss."""

    RUNNING = "running"
    COMPLETED = "completed"
    """The environment ended the episode."""
    TRUNCATED = "truncated"
    """A horizon (turns, tokens or context) ran out; not a failure, not a termination."""
    ENV_ERROR = "env_error"
    """The world failed: the environment raised, broke its contract, or its process died."""
    POLICY_ERROR = "policy_error"
    """The engine failed, or answered without token ids."""
    TIMEOUT = "timeout"
    """A reset or a step overran its deadline."""
    CANCELLED = "cancelled"
    """Given up by the run itself: stopped, resumed past, or its group's deadline came."""


SCORED_STATUSES = frozenset({Status.COMPLETED, Status.TRUNCATED})
"""The statuses that are outcomes; every other ended status is a failure, never a reward."""


class GroupState(StrEnum):
    """Where a group stands in the queue that the store is; ``store.groups`` holds the transitions."""

    OPEN = "open"
    READY = "ready"
    FILTERED = "filtered"
    FAILED = "failed"
    LEASED = "leased"
    CONSUMED = "consumed"
    EXPIRED = "expired"


class Source(StrEnum):
    """Who wrote a message or a trajectory."""

    POLICY = "policy"
    EXPERT = "expert"
    PATCH = "patch"
    REPLAY = "replay"
    WORLD_MODEL = "world_model"
    PEER = "peer"


class Role(StrEnum):
    """The speaker of a message, in chat-template terms. Observations are the user's."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class Purpose(StrEnum):
    """Why a group was played. Groups played for evaluation are never trained on."""

    TRAIN = "train"
    EVAL = "eval"


@dataclass(frozen=True, slots=True)
class Task:
    """One problem: an environment, and what makes this instance of it. ``id`` is the hash of the rest
    (``envs.tasks``).
    """

    id: str
    env_id: str
    env_version: str
    seed: int
    split: str
    """``train`` or ``test``; an environment draws disjoint instances for the two."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """JSON values, passed to the environment's constructor."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """How long an episode may be. Four separate limits; whichever runs out first truncates the episode."""

    max_turns: int
    max_tokens_per_turn: int
    """Sampled tokens in one turn."""
    max_tokens_per_episode: int
    """Sampled tokens in the episode."""
    max_context: int
    """Tokens the policy may have before it at once, prompt and answer together."""


@dataclass(frozen=True, slots=True)
class Message:
    """One node of a trajectory's message tree: who spoke, and the tokens this message *adds* to its parent's context.

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


@dataclass(frozen=True, slots=True)
class Step:
    """One turn: what the agent saw, what it did, what that brought."""

    index: int
    observation: str
    """The text seen; empty for an image alone."""
    observation_hash: str
    """Hash of the whole normalized observation (``envs.observations``)."""
    action: str
    reward: float
    reward_parts: Mapping[str, float]
    """The named addends of ``reward``, where the environment tells them."""
    terminated: bool
    truncated: bool
    action_valid: bool
    """Whether the environment could parse and apply the action."""
    state_key: str
    """The environment's name for the state the action was taken in; empty if it has none."""
    message: int | None
    """Index of the message that holds the action's tokens; None for a policy without tokens."""
    model_ms: float
    env_ms: float
    images: Sequence[str] = ()
    created_at: datetime | None = None
    """When the environment answered the action, by the clock of the host that played; None: not recorded, and the store
    takes the time of its commit.
    """


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
    """For a reader: ``random``, ``oracle``, a checkpoint's name, or empty for the run's own policy."""
    reward: float = 0.0
    success: bool | None = None
    """The environment's own verdict, ``info["success"]``; None where it gives none."""
    error: str = ""
    """Why it failed, for a person."""
    final_observation_hash: str = ""
    deterministic: bool = True
    extras: Mapping[str, Any] = field(default_factory=dict)
    """JSON values for the record, most of them from the environment: its sandbox's image, tampering found. The episode
    loop adds ``env_package``, the package that provided the environment, with its version.
    """
    steps: Sequence[Step] = ()
    messages: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the last attempt of a group's member ended: a trajectory without its steps and messages."""

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


@dataclass(frozen=True, slots=True)
class Group:
    """Trajectories compared with one another: one task, one horizon, one prompt prefix."""

    id: str
    run: str
    task: Task
    horizon: Horizon
    size: int
    purpose: Purpose = Purpose.TRAIN
    prompt_prefix: str = ""
    state: GroupState = GroupState.OPEN
    trajectories: Sequence[Trajectory] = ()


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
class Sample:
    """A root-to-leaf path of messages: what the learner trains on. All sequences have one length, that of the path.

    ``turns`` is the step index a sampled token belongs to, -1 elsewhere.
    """

    trajectory: str
    tokens: NDArray[np.int32]
    mask: NDArray[np.uint8]
    logprobs: NDArray[np.float32]
    versions: NDArray[np.int32]
    turns: NDArray[np.int32]
    images: Sequence[str] = ()
