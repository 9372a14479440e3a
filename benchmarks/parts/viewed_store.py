"""A large store for the benchmark of the viewer, filled by the store's own operations, so that every page opens.

Run ``main`` has three fifths of the trajectories, 39 smaller training runs and ten evaluations have the rest. Of ten
groups of a training run, eight are consumed with details per token, one is filtered, and one has expired or failed.
One of 20 trajectories failed, with thousands of different messages. Run ``main`` also has a group of 512 members, a
tokenizer of 32,000 words, evaluations, images, and groups whose content retention removed.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from sqlalchemy import insert, select, update
from turnwise.records import Group, GroupState, Horizon, Message, Purpose, Role, Source, Status, Step, Task, Trajectory
from turnwise.store import queries
from turnwise.store.content.blobs import digest
from turnwise.store.content.rows import Rows, Tally, Written, rows_of
from turnwise.store.database import Database
from turnwise.store.operations import (
    BatchItem,
    Transaction,
    Write,
    acknowledge,
    add_metrics,
    add_version,
    append,
    create_run,
    finish_run,
    finish_trajectory,
    lease_groups,
    open_group,
    run_writes,
    start_trajectory,
)
from turnwise.store.operations.group_states import transition
from turnwise.store.operations.rewards import reward_digest
from turnwise.store.operations.transaction import numbers_of
from turnwise.store.project import run_folder
from turnwise.store.schema import OWN, no_of, reward, step, trajectory
from turnwise.store.schema import run as run_table
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.learner.provenance.recipe import SampleDetail, encode_details

TURNS, MEMBERS, GROUPS_PER_UPDATE, LARGE_GROUP = 10, 8, 8, 512
TRAINED_SHARE, SMALL_RUNS, EVALUATIONS = 0.6, 39, 10
OBSERVED, SAMPLED, WORDS = 60, 14, 32_000
EVALUATION_INTERVAL = 20
HORIZON = Horizon(TURNS, SAMPLED, 4096, 8192)
WRITTEN = "r"
"""The run that ``parts/store_writes.py`` writes to."""
ENVIRONMENTS = ("turnwise/TextSite-v0", "turnwise/WebSite-v0", "turnwise/Code-v0")
RECIPE = {
    "lr_progress": 0.1,
    "learning_rate": {},
    "sources": ["policy"],
    "task_success": [0.5] * GROUPS_PER_UPDATE,
    "device": "cpu",
    "num_threads": 1,
    "max_tokens_per_micro_batch": 2048,
    "numerics": "",
}
METRICS = (
    *("success", "reward", "entropy", "clip_fraction", "is_cap_fraction", "behavior_kl", "loss", "grad_norm"),
    *("learning_rate", "tokens", "engine_mismatch_mean", "engine_mismatch_max", "reward_part/goal", "response_tokens"),
    *("reward_part/invalid", "trajectories", "turns", "cut_turn_fraction", "max_turns_fraction", "horizon_turns"),
    *("invalid_action_fraction", "staleness_mean", "staleness_max", "swept_fraction", "missing_fraction", "update_s"),
    *("batch_wait_s", "assembly_s", "max_context_fraction", "max_tokens_per_episode_fraction"),
)
_WORDS = [f"{a}{b}" for a in "bdfgklmnprst" for b in ("ario", "elum", "onda", "ist", "uven", "oral", "ime")]


def words(chance: random.Random, count: int) -> str:
    """Return ``count`` random words."""
    return " ".join(chance.choices(_WORDS, k=count))


@dataclass
class Episode:
    """The content of an episode, which many trajectories share."""

    rows: Rows
    sampled: int
    """Tokens that the policy sampled."""

    @cached_property
    def tally(self) -> Tally:
        """The counts that the player of the episode would have computed."""
        written = Written()
        written.add(self.rows)
        return written.tally()


@lru_cache(maxsize=64)
def episode(version: int, variant: int) -> Episode:
    """Return an episode that ``version`` sampled; one of four has screenshots, and one of eight a long page."""
    chance = random.Random(variant)  # noqa: S311 - content, not a secret
    steps, messages, images = [], [], {}
    for index in range(TURNS):
        seen = [chance.randrange(WORDS) for _ in range(OBSERVED)]
        said = [chance.randrange(WORDS) for _ in range(SAMPLED)]
        none = [0] * OBSERVED, [float("nan")] * OBSERVED, [-1] * OBSERVED
        before = 2 * index - 1 if index else None
        messages.append(Message(2 * index, before, Role.USER, Source.ENV, seen, *none))
        sampled = [1] * SAMPLED, [-chance.random() for _ in said], [version] * SAMPLED
        messages.append(Message(2 * index + 1, 2 * index, Role.ASSISTANT, Source.POLICY, said, *sampled))
        screen = b"\x89PNG\r\n\x1a\n" + chance.randbytes(20_000) if variant % 4 == 0 and index % 4 == 0 else b""
        images |= {digest(screen): screen} if screen else {}
        page = f"page {variant} {index}\n" + words(chance, 400 if (variant + index) % 8 == 0 else 40)
        name, parts = f"{variant * TURNS + index:032x}", {"goal": 0.1, "invalid": -0.01}
        key, action = f"page{variant % 97}", f"click {words(chance, 3)}"
        one = Step(index, page, name, action, 0.09, parts, False, False, True, key, 2 * index + 1, 120.0, 30.0)
        name = digest(screen) if screen else ""
        steps.append(replace(one, screenshot=name, images=(name,)) if screen else one)
    return Episode(rows_of(steps, messages, images), TURNS * SAMPLED)


@dataclass(frozen=True)
class Played:
    """A group to write, and the state in which it waits for the learner, or ends."""

    name: str
    purpose: Purpose
    size: int
    state: str


@dataclass
class Filler:
    """Fills a store with about ``trajectories`` trajectories of ``TURNS`` turns."""

    database: Database
    trajectories: int
    chance: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311 - content, not a secret
    played: int = 0
    groups: int = 0
    scored: int = 0

    def fill(self) -> None:
        """Write everything."""
        evaluations = max(2, min(EVALUATIONS, self.trajectories // 8_000))
        runs = max(2, min(SMALL_RUNS, self.trajectories // 2_000))
        small = int(self.trajectories * (1 - TRAINED_SHARE)) // (runs + evaluations)
        for number in range(evaluations):
            self._evaluation(f"eval-{number}", small)
        for number in range(runs):
            self.train(f"small-{number}", small)
        self.train("main", max(self.trajectories - self.played, 200))
        self._start(WRITTEN, "train")
        with self.database.engine.connect() as conn:
            conn.exec_driver_sql("ANALYZE")
            conn.commit()

    def train(self, run: str, trajectories: int) -> None:
        """Write a training run of so many trajectories."""
        self._start(run, "train")
        if run == "main":
            self._tokenizer(run)
            self._play(run, [Played(f"{run}:large", Purpose.TRAIN, min(LARGE_GROUP, trajectories // 8), "filtered")], 0)
        version, number = 0, 0
        first = self.played
        while self.played < first + trajectories:
            number += 1
            version = self._update(run, number, version)
        with self.database.transaction() as tx:
            finish_run(tx, run=run, status="finished") if run != "main" else self._prune(tx, run)

    def update(self, run: str) -> None:
        """Write the next update of a run, with its groups."""
        with self.database.read() as conn:
            newest = queries.batch_metrics(conn, run)[-1]
            self.scored = queries.next_scoring(conn, run)
        self._update(run, newest["update"] + 1, newest["version"])

    def _update(self, run: str, number: int, version: int) -> int:
        states = ["ready"] * GROUPS_PER_UPDATE + ["filtered", ("expired", "failed")[number % 2]]
        groups = [Played(f"{run}:{number * 100 + at}", Purpose.TRAIN, MEMBERS, one) for at, one in enumerate(states)]
        if number % EVALUATION_INTERVAL == 1:
            prefix = f"{run}:eval-{number}-"
            groups += [Played(f"{prefix}{at}", Purpose.EVAL, 2, "ready") for at in range(20)]
        self._play(run, groups, version)
        return self._learn(run, number, version)

    def _prune(self, tx: Transaction, run: str) -> None:
        """Remove the content of one of 50 trajectories, as retention does."""
        chosen = select(trajectory.c.no).where(trajectory.c.run_no == no_of(run_table, run), trajectory.c.no % 50 == 0)
        gone = ("observation", "observation_blob", "messages", "messages_blob")
        tx.conn.execute(update(step).where(step.c.trajectory_no.in_(chosen)).values(dict.fromkeys(gone)))
        tx.conn.execute(update(trajectory).where(trajectory.c.no.in_(chosen)).values(pruned_at=tx.now))

    def _start(self, run: str, kind: str) -> None:
        raw = {"name": run, "preset": "tiny", "environments": [{"id": name} for name in ENVIRONMENTS]}
        config = parse_config(raw).resolved() if kind == "train" else {"policy": "random"}
        with self.database.transaction() as tx:
            create_run(tx, run=run, config=config, config_hash="", kind=kind, code_version="1", driver=run)
            if kind == "train":
                add_version(tx, run=run, update=0, parent=None)

    def _evaluation(self, run: str, trajectories: int) -> None:
        self._start(run, "eval")
        for first in range(0, trajectories, 80):
            self._play(run, [Played(f"{run}:{first + at}", Purpose.EVAL, 8, "ready") for at in range(10)], 0)
        with self.database.transaction() as tx:
            finish_run(tx, run=run, status="finished")

    def _tokenizer(self, run: str) -> None:
        folder = run_folder(self.database, run) / "tokenizer"
        folder.mkdir(parents=True)
        model = {"type": "WordLevel", "vocab": {f"word{n}": n for n in range(WORDS)}, "unk_token": "word0"}
        empty = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"))
        (folder / "tokenizer.json").write_text(
            json.dumps({"version": "1.0", **empty, "added_tokens": [], "model": model})
        )

    def _play(self, run: str, groups: Sequence[Played], version: int) -> None:
        """Write groups with their members, closed and scored."""
        writes: list[Write[Any]] = []
        with self.database.transaction() as tx:
            for one in groups:
                self.groups += 1
                seed = self.groups % 500
                env = ENVIRONMENTS[seed % 3]
                task = Task(f"{env}-{seed}", env, "1", seed, "train" if one.purpose is Purpose.TRAIN else "test")
                writes.append(open_group.bind(group=Group(one.name, run, task, HORIZON, one.size, one.purpose)))
                writes += [each for member in range(one.size) for each in self._member(run, one.name, member, version)]
            run_writes(tx, writes)
            self._close(tx, groups)

    def _member(self, run: str, group: str, member: int, version: int) -> Iterator[Write[Any]]:
        self.played += 1
        name, played = f"{group}-{member}", episode(version, self.chance.randrange(16))
        failed = self.chance.random() < 0.05
        status = self.chance.choice(list(FAILURES)) if failed else Status.COMPLETED
        yield start_trajectory.bind(trajectory=Trajectory(name, run, group, member, 0))
        yield append.bind(trajectory=name, rows=played.rows)
        yield finish_trajectory.bind(
            trajectory=name,
            tally=played.tally,
            status=status,
            reward=round(self.chance.random(), 2),
            success=None if failed else self.chance.random() < 0.6,
            error=self._message(status) if failed else "",
            final_observation=f"the end, {words(self.chance, 12)}",
        )

    def _message(self, status: Status) -> str:
        """Return one of thousands of messages: most differ in numbers only, some in words."""
        chance = self.chance
        kind = FAILURES[status]
        number, address, waited = chance.randrange(10**6), chance.randrange(16**8), chance.random()
        message = f"{kind} {number} of 0x{address:08x} did not answer in {waited:.3f} s"
        if chance.random() < 0.2:
            message = f"{kind} has no element named {words(chance, 3)!r}"
        return "Traceback (most recent call last):\n" + "  File ...\n" * 20 + f"RuntimeError: {message}"

    def _close(self, tx: Transaction, groups: Sequence[Played]) -> None:
        """Close groups and store the rewards of those that are scored, a statement per state instead of per group."""
        ends = {"filtered": GroupState.FILTERED, "failed": GroupState.FAILED}
        reasons = {"filtered": "zero_variance: all returns are {}", "failed": "{} of 8 members survived"}
        members: list[tuple[str, int]] = []
        for state in sorted({group.state for group in groups}):
            closed = {one.name: one for one in groups if one.state == state}
            values: dict[str, dict[str, object]] = {}
            for name, one in closed.items():
                self.scored += 1
                scored = one.purpose is Purpose.TRAIN and state != "failed"
                reason = reasons.get(state, "").format(self.scored % 50)
                values[name] = {"score_no": self.scored if scored else None, "n_rewards": one.size * scored}
                values[name] |= {"n_trajectories": one.size, "reason": reason}
                members += [(f"{name}-{member}", member) for member in range(one.size * scored)]
            end = ends.get(state, GroupState.READY)
            transition(tx.conn, list(closed), end, of_group=values, closed_at=tx.now)
        if members:
            numbers = numbers_of(tx.conn, trajectory, [name for name, _ in members])
            tx.conn.execute(insert(reward), [_rewards(numbers[name], member) for name, member in members])
        if expired := [one.name for one in groups if one.state == "expired"]:
            transition(tx.conn, expired, GroupState.EXPIRED, reason="its oldest token is 9 updates old")

    def _learn(self, run: str, number: int, parent: int) -> int:
        """Write an update on the ready groups, and sometimes an evaluation; return the version that it made."""
        with self.database.transaction() as tx:
            names = lease_groups(tx, run=run, owner="learner", count=GROUPS_PER_UPDATE, timeout_s=60)
            version = acknowledge(
                tx,
                run=run,
                owner="learner",
                groups=names,
                update=number,
                parent=parent,
                items=[_item(names, at, member) for at in range(len(names)) for member in range(MEMBERS)],
                metrics=metrics(number, self.chance),
                recipe=RECIPE,
            )
            if number % EVALUATION_INTERVAL == 1:
                add_metrics(tx, run=run, update=number, kind=f"evaluation {number}", metrics=_evaluated(run, number))
            return version


def _rewards(number: int, member: int) -> dict[str, Any]:
    values = [0.1 * (member % 3)] * TURNS
    row = {"set_no": OWN, "trajectory_no": number, "rewards": values, "verdicts": [], "total": float(sum(values))}
    return row | {"digest": reward_digest(row)}


FAILURES = {Status.ENV_ERROR: "page", Status.TIMEOUT: "sandbox", Status.POLICY_ERROR: "engine"}


@lru_cache(maxsize=GROUPS_PER_UPDATE * MEMBERS)
def _detail(group: int, member: int) -> bytes:
    tokens = TURNS * SAMPLED
    values = np.full(tokens, 0.25 - 0.1 * (member % 5), np.float32)
    ones, zeros, small = np.ones(tokens, np.float32), np.zeros(tokens, np.uint8), np.full(tokens, 0.01, np.float16)
    return encode_details([SampleDetail(group * MEMBERS + member, group, 0, values, ones, zeros, small, small, small)])


def _item(groups: list[str], at: int, member: int) -> BatchItem:
    name, tokens = f"{groups[at]}-{member}", TURNS * SAMPLED
    return BatchItem(name, tokens, 1, 0.25 - 0.1 * (member % 5), detail=_detail(at, member))


def metrics(number: int, chance: random.Random) -> dict[str, Any]:
    """Return the metrics of an update, with as many names and digits as those of a run."""
    limits = {"response_tokens": 12.5, "cut_turn_fraction": chance.random(), "max_turns_fraction": chance.random()}
    nested = {"limits_by_environment": {f"{env} {n}": limits for env in ENVIRONMENTS for n in range(4)}}
    return {name: chance.random() for name in METRICS} | {"trajectories": 64, "turns": 640, "tokens": 8960} | nested


def _evaluated(run: str, number: int) -> dict[str, Any]:
    rate = {"success": 0.5, "low": 0.4, "high": 0.6, "tasks": 20, "episodes": 40}
    by = {"by_environment": dict.fromkeys(ENVIRONMENTS, rate)}
    return rate | by | {"reward": 0.4, "groups": f"{run}:eval-{number}-"}
