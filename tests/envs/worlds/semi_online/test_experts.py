"""The tasks of ``turnwise/SemiOnline-v0`` are successes of experts by ``records.is_success``."""

from pathlib import Path

from sqlalchemy import update
from turnwise.envs.worlds.semi_online.experts import experts_of
from turnwise.records import GroupState
from turnwise.store.database import open_database
from turnwise.store.schema import task, trajectory
from turnwise.tests.store.content.sealing import reseal
from turnwise.tests.store.making import call, group, play, start


def test_an_episode_without_a_verdict_and_with_a_small_return_is_no_task(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/turnwise.db", create=True)
    start(database)
    call(database, "open_group", group=group())
    for member, (turns, verdict) in enumerate([(0, None), (2, None), (2, False), (1, True)]):
        play(database, f"g-{member}", member=member, turns=turns, success=verdict)
    call(database, "close_group", group="g", state=GroupState.FILTERED)
    with database.transaction() as tx:
        tx.conn.execute(update(trajectory).values(source="expert"))
        tx.conn.execute(update(task).values(env_id="another/Site-v0"))
    reseal(database)
    assert [one.id for one in experts_of(database)] == ["g-1", "g-3"]
    with database.transaction() as tx:
        tx.conn.execute(update(trajectory).where(trajectory.c.id == "g-1").values(reward=0.4))
    reseal(database)
    assert [one.id for one in experts_of(database)] == ["g-3"]
    assert [one.id for one in experts_of(database, min_return=0.4)] == ["g-1", "g-3"]
    assert [one.id for one in experts_of(database, min_return=-1e9)] == ["g-1", "g-3"]
    database.close()
