"""What a success cost: the sampled tokens and the seconds of the whole run, filtered and failed episodes included."""

from turnwise.records import GroupState, Purpose, Status
from turnwise.store.database import Database
from turnwise.store.queries import success_costs
from turnwise.store.queries.success_costs import SuccessCost
from turnwise.tests.store.making import call, create_run, group, play, play_group, start, train


def test_a_success_costs_the_tokens_and_seconds_of_the_whole_run(database: Database) -> None:
    start(database)
    create_run(database, "other")
    for update, seconds in ((1, 8.0), (2, 6.0)):
        play_group(database, f"g{update}")
        train(database, [f"g{update}"], update, update - 1)
        call(database, "add_metrics", run="r", update=update, kind="pace", metrics={"update_seconds": seconds})
    call(database, "open_group", group=group("f"))
    play(database, "f-0", "f", 0, success=False)
    play(database, "f-1", "f", 1, turns=1, status=Status.ENV_ERROR)
    call(database, "close_group", group="f", state=GroupState.FILTERED, reason="no variance")
    call(database, "open_group", group=group("e", purpose=Purpose.EVAL))
    play(database, "e-0", "e")
    with database.read() as conn:
        found = success_costs(conn, ["r", "other"])
    tokens = 4 * 4 + 4 + 2
    assert found == {"r": SuccessCost(tokens, 14.0, 4, tokens / 4, 14.0 / 4)}
