"""Measure batch assembly: from the stored token records of a batch to the tensors of its micro-batches.

``python benchmarks/parts/assembly.py --tokens 1000000`` assembles 64 trajectories of 16 turns. The floor copies the
decoded columns once into tensors. The peer does the same work with a Python loop over tokens. Prints one
JSON line.
"""

import argparse
import json
from collections.abc import Callable
from random import Random
from time import perf_counter
from typing import Any

import numpy as np
import torch
from turnwise.records import (
    NO_VERSION,
    Group,
    Horizon,
    Message,
    PolicyVersion,
    Role,
    ScoredGroup,
    Source,
    Status,
    Step,
    Task,
    Trajectory,
)
from turnwise.store.content.token_codec import Tokens, decode, encode
from turnwise.trainer.algorithms.advantages.grpo import GRPO
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.learner.batch import assemble
from turnwise.trainer.learner.packing import pack_minibatch

GROUPS, MEMBERS, TURNS = 8, 8, 16
SAMPLED_SHARE = 0.25
"""Share of the tokens that the policy sampled."""
MICRO_BATCH_TOKENS = 32768
HISTORY = {version: PolicyVersion("r", version, version - 1 if version else None, version) for version in range(4)}


def stored(tokens: int) -> list[list[list[bytes]]]:
    """Return the token records of every message: groups, members, messages (an observation and an answer per turn)."""
    rng = Random(0)  # noqa: S311 - a seeded workload
    per_turn = tokens // (GROUPS * MEMBERS * TURNS)
    answer = max(1, int(per_turn * SAMPLED_SHARE))
    observation = per_turn - answer

    def blob(index: int, size: int, sampled: bool) -> bytes:
        ids = [rng.randrange(150_000) for _ in range(size)]
        logprobs = [-rng.random() if sampled else float("nan")] * size
        versions = [rng.randrange(4) if sampled else NO_VERSION] * size
        return encode(Message(index, None, Role.USER, Source.POLICY, ids, [int(sampled)] * size, logprobs, versions))

    member = lambda: [  # noqa: E731
        blob(i, answer if i % 2 else observation, bool(i % 2)) for i in range(2 * TURNS)
    ]
    return [[member() for _ in range(MEMBERS)] for _ in range(GROUPS)]


def loaded(blobs: list[list[list[bytes]]]) -> list[ScoredGroup]:
    """Return the groups as the store loads them: every message decoded."""
    task, horizon = Task("t", "e", "0", 0, "train"), Horizon(TURNS, 1 << 20, 1 << 30, 1 << 30)
    groups = []
    for g, members in enumerate(blobs):
        trajectories = []
        for m, member in enumerate(members):
            messages = [message(i, data) for i, data in enumerate(member)]
            steps = [step(turn, float(m % 2 and turn == TURNS - 1)) for turn in range(TURNS)]
            name = f"{g}-{m}"
            trajectories.append(Trajectory(name, "r", str(g), m, 0, Status.COMPLETED, steps=steps, messages=messages))
        group = Group(str(g), "r", task, horizon, MEMBERS, trajectories=trajectories)
        groups.append(ScoredGroup(group, [[one.reward for one in member.steps] for member in trajectories]))
    return groups


def message(index: int, data: bytes) -> Message:
    columns, _ = decode(data, 0)
    role = Role.ASSISTANT if index % 2 else Role.USER
    parent = index - 1 if index else None
    return Message(index, parent, role, Source.POLICY, columns.tokens, columns.mask, columns.logprobs, columns.versions)


def step(turn: int, reward: float) -> Step:
    return Step(turn, "", "", "", reward, {}, False, False, True, "", 2 * turn + 1, 0.0, 0.0)


def assembly(blobs: list[list[list[bytes]]]) -> int:
    """Decode, assemble and pack; return the trained tokens."""
    batch = assemble(
        loaded(blobs),
        HISTORY,
        3,
        2,
        advantage=GRPO(),
        filters=(),
        loss=DecoupledPPO(),
        streams=(),
    )
    return sum(
        len(micro_batch.targets) for micro_batch in pack_minibatch(batch.samples, MICRO_BATCH_TOKENS).micro_batches
    )


_DECODED: list[Tokens] = []
"""The columns that ``floor`` copies: decoded before it is timed for the last time, and the least time counts."""


def floor(blobs: list[list[list[bytes]]]) -> int:
    """Copy the decoded columns once into one tensor per column."""
    if not _DECODED:
        _DECODED.extend(decode(one, 0)[0] for group in blobs for member in group for one in member)
    return sum(len(torch.from_numpy(np.concatenate([one[column] for one in _DECODED]))) for column in range(4))


def peer(blobs: list[list[list[bytes]]]) -> int:
    """Do the work of ``assembly`` with one pass of a Python loop per stage over lists of tokens."""
    trained = 0
    for group in blobs:
        for member in group:
            columns: dict[str, list[Any]] = {"tokens": [], "mask": [], "logprobs": [], "versions": []}
            turns: list[int] = []
            for index, data in enumerate(member):
                decoded, _ = decode(data, 0)
                for name, values in columns.items():
                    values += getattr(decoded, name).tolist()
                turns += [index // 2 if bit else -1 for bit in decoded.mask.tolist()]
            age = {version: 3 - version for version in range(4)} | {NO_VERSION: -1}
            ages = [age[version] for version in columns["versions"]]
            weights = [1.0 if bit and 0 <= one <= 2 else 0.0 for one, bit in zip(ages, columns["mask"], strict=True)]
            advantages = [0.5 if turn >= 0 else 0.0 for turn in turns]
            positions, targets, behavior, credit = [], [], [], []
            for i, weight in enumerate(weights):
                if weight != 0.0 and i > 0:
                    positions.append(i - 1)
                    targets.append(columns["tokens"][i])
                    behavior.append(columns["logprobs"][i])
                    credit.append(advantages[i])
            torch.tensor(columns["tokens"]), torch.tensor(positions), torch.tensor(behavior), torch.tensor(credit)
            trained += len(torch.tensor(targets))
    return trained


def best(work: Callable[[list[list[list[bytes]]]], int], blobs: list[list[list[bytes]]], times: int) -> float:
    """Return the least of several durations, in seconds."""
    durations = []
    for _ in range(times):
        started = perf_counter()
        work(blobs)
        durations.append(perf_counter() - started)
    return min(durations)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    blobs = stored(options.tokens)
    assert assembly(blobs) == peer(blobs)
    seconds = {work.__name__: best(work, blobs, options.times) for work in (floor, assembly, peer)}
    print(
        json.dumps(
            {
                "benchmark": "assembly",
                "tokens": options.tokens,
                **{f"{name}_s": round(value, 4) for name, value in seconds.items()},
                "times_faster_than_peer": round(seconds["peer"] / seconds["assembly"], 1),
                "times_the_floor": round(seconds["assembly"] / seconds["floor"], 1),
            }
        )
    )


if __name__ == "__main__":
    main()
