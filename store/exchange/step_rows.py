"""Parquet with a row per step: a flat table for analysis and for training on single turns. It is not imported again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...records import Step, Trajectory
from .columns import Codec, arrow, codec_of, record_columns
from .episodes import Episode
from .parquet import FORMAT_KEY, ParquetWriter

LAYOUT = b"steps 3"
ROW_GROUP = 4096
"""Steps per row group."""
_TRAJECTORY_COLUMNS = ("run", "group", "member", "attempt", "status", "source", "policy", "success")
_TOKEN_COLUMNS = ("tokens", "logprobs", "versions")


class StepRows(ParquetWriter):
    """Writes a Parquet file with a row per step."""

    def __init__(self, path: Path) -> None:
        """Raises MissingPackage: pyarrow is not installed."""
        super().__init__(path, step_schema(), ROW_GROUP)

    def add(self, episode: Episode) -> None:
        """Add a row per step of the episode."""
        self.add_rows(step_rows(episode))


def step_schema() -> Any:
    """Return the Arrow schema of a file with a row per step."""
    pa = arrow()
    head = [(name, codec.type) for name, codec in _head().items()]
    steps = [(name, codec.type) for name, codec in record_columns(Step).items()]
    tokens = [(f"action_{name}", codec_of(name, Any).type) for name in _TOKEN_COLUMNS]
    return pa.schema([*head, *steps, *tokens], metadata={FORMAT_KEY: LAYOUT})


def step_rows(episode: Episode) -> Iterator[dict[str, Any]]:
    """Yield a row per step: its trajectory and task, its fields, and the tokens that the policy sampled in its turn."""
    one, task = episode.trajectory, episode.group.task
    values = {name: getattr(one, name) for name in _TRAJECTORY_COLUMNS}
    values |= {"uid": episode.uid, "trajectory": one.id, "episode_reward": one.reward, "n_steps": len(one.steps)}
    values |= {"env_id": task.env_id, "seed": task.seed, "split": task.split}
    head = {name: codec.encode(values[name]) for name, codec in _head().items()}
    columns = record_columns(Step)
    first = 0
    for step in one.steps:
        last = first if step.message is None else step.message + 1
        turn = [message for message in one.messages if first <= message.index < last]
        first = last
        sampled = {
            f"action_{name}": np.concatenate(
                [np.zeros(0), *(np.asarray(getattr(each, name))[np.asarray(each.mask) == 1] for each in turn)]
            ).astype(np.float32 if name == "logprobs" else np.int32)
            for name in _TOKEN_COLUMNS
        }
        yield {**head, **{name: codec.encode(getattr(step, name)) for name, codec in columns.items()}, **sampled}


def _head() -> dict[str, Codec]:
    own = record_columns(Trajectory)
    return {
        "uid": codec_of("uid", str),
        "trajectory": own["id"],
        **{name: own[name] for name in _TRAJECTORY_COLUMNS},
        "episode_reward": own["reward"],
        "n_steps": codec_of("n_steps", int),
        "env_id": codec_of("env_id", str),
        "seed": codec_of("seed", int),
        "split": codec_of("split", str),
    }
