"""Episodes with a value in every field, and their comparison."""

from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from math import nan
from typing import Any
from uuid import UUID

import numpy as np
from turnwise.envs.runner.observations import png
from turnwise.envs.tasks import task_id
from turnwise.records import (
    NO_VERSION,
    Group,
    GroupState,
    Horizon,
    Limit,
    Message,
    Purpose,
    Role,
    Source,
    Status,
    Step,
    Task,
    Trajectory,
)
from turnwise.store.exchange.episodes import Episode

ENV = "turnwise/TextSite-v0"
OPTIONS = {"family": "find", "pool_size": 3}
PICTURE = png(np.zeros((2, 3, 3), np.uint8))
PICTURE_HASH = sha256(PICTURE).hexdigest()
LAST_PICTURE = png(np.full((2, 3, 3), 9, np.uint8))
LAST_HASH = sha256(LAST_PICTURE).hexdigest()
KEPT = png(np.full((2, 3, 3), 4, np.uint8))
KEPT_HASH = sha256(KEPT).hexdigest()


def make_id(task: Task) -> str:
    return task_id(task.env_id, task.env_version, task.seed, task.split, task.options)


def context(index: int, parent: int | None, tokens: list[int], **changes: Any) -> Message:
    size = len(tokens)
    columns = {
        "tokens": np.array(tokens, np.int32),
        "mask": np.zeros(size, np.uint8),
        "logprobs": np.full(size, nan, np.float32),
        "versions": np.full(size, NO_VERSION, np.int32),
    }
    return Message(index, parent, Role.USER, Source.ENV, **{**columns, **changes})


def sampled(index: int, parent: int, tokens: list[int]) -> Message:
    size = len(tokens)
    return replace(
        context(index, parent, tokens),
        role=Role.ASSISTANT,
        source=Source.POLICY,
        mask=np.ones(size, np.uint8),
        logprobs=-np.arange(1, size + 1, dtype=np.float32) / 3,
        versions=np.full(size, 7, np.int32),
    )


def turn(index: int, observation: str, action: str, **changes: Any) -> Step:
    made = Step(
        index,
        observation,
        sha256(observation.encode(errors="replace")).hexdigest()[:32],
        action,
        0.1 * (index + 1),
        {"shape": 0.1},
        False,
        False,
        True,
        f"state-{index}",
        2 * index + 1,
        1.5,
        0.25,
        created_at=datetime(2026, 1, 2, 3, 4, 5, 6, UTC) + timedelta(seconds=index),
    )
    return replace(made, **changes)


def episode(number: int = 0, *, images: bool = True, **changes: Any) -> Episode:
    """Return an episode of two turns; ``changes`` are those of its trajectory."""
    task = Task("", ENV, "0", 5 + number, "train", OPTIONS)
    group = Group(
        f"r:{number}",
        "r",
        replace(task, id=make_id(task)),
        Horizon(8, 16, 128, 512),
        2,
        Purpose.TRAIN,
        "Be brief.",
        GroupState.CONSUMED,
    )
    shown, last = ((PICTURE_HASH,), (LAST_HASH,)) if images else ((), ())
    steps = [
        turn(0, "page one\n\x00\x1a\ud800 ünï", 'click "next"', images=shown, cut_by=Limit.TOKENS_PER_TURN),
        turn(
            1,
            "page two",
            "stop",
            action_valid=False,
            terminated=True,
            failed=number % 2 == 1,
            agent="a",
            screenshot=KEPT_HASH if images else "",
        ),
    ]
    one = Trajectory(
        f"r:{number}-1",
        "r",
        group.id,
        1,
        2,
        Status.COMPLETED,
        Source.POLICY,
        "",
        0.1 + 0.2,
        True,
        "",
        "ab" * 16,
        True,
        {"env_package": "turnwise 0.1.0", "nested": {"list": [1, 2.5, None, "x"]}},
        steps,
        [
            context(0, None, [1, 2, 3]),
            sampled(1, 0, [5, 6]),
            context(2, 1, [8], images=shown),
            sampled(3, 2, [9, 2]),
        ],
        stop_reason="",
        reached=Limit.TURNS,
        final_images=last,
        final_screenshot=KEPT_HASH if images else "",
        uid=UUID(int=(1 << 100) + number),
    )
    content = {PICTURE_HASH: PICTURE, LAST_HASH: LAST_PICTURE, KEPT_HASH: KEPT} if images else {}
    return Episode(group, replace(one, **changes), "the end", content)


def plain(value: Any) -> Any:
    """Return records as nested dictionaries, with arrays as their dtype and bytes, so that NaN equals NaN."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tobytes()
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
