"""Scoring replay: in parallel, with timeouts, resumable; the old rewards stay."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import PrivateAttr
from turnwise.errors import TurnwiseError
from turnwise.records import Group
from turnwise.store import queries
from turnwise.store.database import Database, open_database
from turnwise.store.errors import StoreConflict
from turnwise.store.queries.rewards import Returns
from turnwise.tests.store.making import contents, play_scored, prune, sqlite_store, start
from turnwise.trainer.algorithms.groups import PerTurn, Shaped
from turnwise.trainer.algorithms.rewards.base import RewardShaper
from turnwise.trainer.algorithms.rewards.turn_penalty import TurnPenalty
from turnwise.trainer.rollout.rescoring import compare, score_stored

Answer = Callable[[Group], Sequence[float | None]]


class Script(RewardShaper):
    """Returns the answers of a function, and records the members that it got."""

    independent: ClassVar[bool] = True
    _answer: Answer = PrivateAttr()
    _read: list[list[str]] = PrivateAttr(default_factory=list)

    @classmethod
    def of(cls, answer: Answer) -> "Script":
        made = cls()
        made._answer = answer
        return made

    @property
    def read(self) -> list[list[str]]:
        return sorted(self._read)

    def __call__(self, group: Group, rewards: PerTurn) -> list[Shaped]:
        self._read.append([one.id for one in group.trajectories])
        return [
            Shaped(None, {"error": "no answer"}) if value is None else Shaped([value]) for value in self._answer(group)
        ]


class Compares(Script):
    """A reward that compares the members of a group."""

    independent: ClassVar[bool] = False


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Yield a store with three groups of two members of one turn, with the returns 0 and 1."""
    opened = open_database(sqlite_store(tmp_path))
    start(opened)
    for number, name in enumerate("abc"):
        play_scored(opened, name, number, [0.0, 1.0])
    yield opened
    opened.close()


def first_only(group: Group) -> list[float | None]:
    return [1.0 if one.member == 0 else None for one in group.trajectories]


def equal(group: Group) -> list[float | None]:
    return [5.0 for _ in group.trajectories]


def test_a_run_is_scored_next_to_its_old_rewards(database: Database) -> None:
    old = {name: rows for name, rows in contents(database).items() if not name.startswith("reward")}
    done: list[tuple[int, int]] = []
    report = score_stored(
        database, "r", "short", TurnPenalty(per_turn=0.1), on_progress=lambda now, total: done.append((now, total))
    )
    # The environment rewards the one turn of each episode with 0.5; the run's own scores are 0 and 1.
    assert (report.trajectories, report.scored, report.unscored, report.already) == (6, 6, 0, 0)
    assert report.comparison.old_mean == 0.5
    assert report.comparison.new_mean == pytest.approx(0.4)
    assert math.isnan(report.comparison.correlation)
    assert done == [(1, 3), (2, 3), (3, 3)]
    assert {name: rows for name, rows in contents(database).items() if not name.startswith("reward")} == old
    with database.read() as conn:
        stored = queries.reward_set(conn, "r", "short")
    assert (stored.component, stored.options) == ("turn_penalty", {"per_turn": 0.1})
    with pytest.raises(StoreConflict, match="`turn_penalty` with other options"):
        score_stored(database, "r", "short", TurnPenalty(per_turn=0.2))


def test_a_repeated_scoring_scores_only_what_has_no_rewards(database: Database) -> None:
    half, rest, again = Script.of(first_only), Script.of(equal), Script.of(equal)
    report = score_stored(database, "r", "s", half)
    assert (report.scored, report.unscored, report.last_error) == (3, 3, "no answer")
    report = score_stored(database, "r", "s", rest)
    assert rest.read == [["a-1"], ["b-1"], ["c-1"]]
    assert (report.scored, report.unscored, report.already, report.last_error) == (3, 0, 3, "")
    report = score_stored(database, "r", "s", again)
    assert (again.read, report.scored, report.already) == ([], 0, 6)


def test_a_reward_that_compares_members_gets_whole_groups_again(database: Database) -> None:
    score_stored(database, "r", "s", Compares.of(first_only))
    rest = Compares.of(equal)
    score_stored(database, "r", "s", rest)
    assert rest.read == [["a-0", "a-1"], ["b-0", "b-1"], ["c-0", "c-1"]]
    with database.read() as conn:
        assert [one.new for one in queries.returns_in(conn, queries.reward_set(conn, "r", "s").no)] == [1.0, 5.0] * 3


def test_groups_are_scored_at_the_same_time(database: Database) -> None:
    meeting = threading.Barrier(3, timeout=5)

    def together(group: Group) -> list[float | None]:
        meeting.wait()
        return equal(group)

    assert score_stored(database, "r", "s", Script.of(together), max_concurrent_groups=3).scored == 6


def test_a_group_that_takes_too_long_has_no_score_and_delays_no_other(database: Database) -> None:
    returned = threading.Event()

    def hangs(group: Group) -> list[float | None]:
        if group.id == "b":
            assert returned.wait(30)
        return equal(group)

    report = score_stored(database, "r", "s", Script.of(hangs), timeout_s=0.2)
    returned.set()
    assert (report.scored, report.unscored, report.last_error) == (
        4,
        2,
        "`" + f"{__name__}:Script" + "` took longer than 0.2 s",
    )


def test_groups_that_were_scored_before_an_error_stay_scored(database: Database) -> None:
    def fails(group: Group) -> list[float | None]:
        if group.id == "c":
            raise LookupError("no rubric")
        return equal(group)

    with pytest.raises(TurnwiseError, match=r"`__call__` of the rewards component .* raised LookupError: no rubric"):
        score_stored(database, "r", "s", Script.of(fails), max_concurrent_groups=1)
    rest = Script.of(equal)
    assert score_stored(database, "r", "s", rest).already == 4
    assert rest.read == [["c-0", "c-1"]]


def test_a_group_without_content_has_no_score(database: Database) -> None:
    prune(database, "b-0")
    report = score_stored(database, "r", "s", Script.of(equal))
    assert (report.scored, report.unscored) == (4, 2)
    assert report.last_error.startswith("retention removed content of trajectory b-0")


def test_agreement_counts_the_pairs_of_a_group_with_different_returns() -> None:
    same: list[Any] = [
        Returns("a", 0, 0),
        Returns("a", 1, 3),
        Returns("b", 0, 2),
        Returns("b", 1, 1),
        Returns("b", 1, 1),
    ]
    found = compare(same)
    # One pair of group a and two of group b; the last two of group b are equal.
    assert found.pairs == 3
    assert found.agreement == pytest.approx(1 / 3)
    assert (found.old_mean, found.new_mean) == (0.6, 1.4)
    assert -1 < found.correlation < 1
    nothing = compare([])
    assert nothing.pairs == 0
    assert all(
        math.isnan(value) for value in (nothing.old_mean, nothing.new_mean, nothing.correlation, nothing.agreement)
    )
