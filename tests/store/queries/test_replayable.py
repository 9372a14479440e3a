"""The draw of trajectories to re-execute: of one run, scored, deterministic and with a step."""

from random import Random

from turnwise.records import Status
from turnwise.store.database import Database
from turnwise.store.queries.lists import draw_replayable, replayable
from turnwise.tests.store.making import call, create_run, group, play, start, trajectory


def test_the_draw_is_reproducible_and_of_the_run_only(database: Database) -> None:
    start(database)
    create_run(database, "other")
    call(database, "open_group", group=group(size=6))
    names = [f"g-{member}" for member in range(6)]
    for member, name in enumerate(names):
        play(database, name, member=member)
    call(database, "open_group", group=group("x", "other"))
    play(database, "x-0", "x", run="other")
    call(database, "open_group", group=group("empty"))
    call(database, "start_trajectory", trajectory=trajectory("never-began", "empty"))
    call(database, "finish_trajectory", trajectory="never-began", status=Status.ENV_ERROR)
    with database.read() as conn:
        assert replayable(conn, "r") == names
        drawn = draw_replayable(conn, "r", 3, Random(1))
        assert drawn == draw_replayable(conn, "r", 3, Random(1))
        assert len(set(drawn)) == 3
        assert set(drawn) < set(names)
        assert drawn == sorted(drawn)
        assert {name for seed in range(40) for name in draw_replayable(conn, "r", 1, Random(seed))} == set(names)
        assert draw_replayable(conn, "r", 6, Random(1)) == draw_replayable(conn, "r", 9, Random(1)) == names
        assert draw_replayable(conn, "nothing", 3, Random(1)) == []
